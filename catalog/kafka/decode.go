package kafka

import (
	"cmp"
	"slices"

	"coldtap/segment"
	"coldtap/tier"
)

// The envelope's numbers (RemoteLogMetadataSerde). A comment in Kafka calls the frame version 0; its code writes 1.
const (
	frameVersion = 1

	keySegment         = 0
	keyUpdate          = 1
	keyPartitionDelete = 2
	keySnapshot        = 3

	// newestVersion is that of KIP-1266, which only adds tagged fields.
	newestVersion = 1
)

// tagTxnIndexEmpty is a bool of the segment messages, written since Kafka 4.0 and only when true.
const tagTxnIndexEmpty = 0

// Decode reads the value of a record of the topic; its key does not matter. Errors are *Error.
//
// Only the form is checked. A segment may still have offsets or a state that make no sense: a tier refuses those. The
// record's Custom is a view into value.
func Decode(value []byte) (Record, error) {
	if len(value) == 0 {
		return nil, fail(NullValue, -1, "no value")
	}
	in := &reader{b: value}
	frame := in.uvarint()
	key := in.uvarint()
	version := in.uvarint()
	switch {
	case in.err != nil:
		return nil, in.err
	case frame != frameVersion:
		return nil, fail(UnknownFrame, 0, "frame version %d, want %d", frame, frameVersion)
	case key > keySnapshot:
		return nil, fail(UnknownRecord, 1, "api key %d", key)
	case version > newestVersion:
		return nil, fail(UnknownVersion, in.at, "message version %d of api key %d", version, key)
	}
	var r Record
	switch key {
	case keySegment:
		r = in.segment()
	case keyUpdate:
		r = in.update()
	case keyPartitionDelete:
		r = in.partitionDelete()
	case keySnapshot:
		r = in.snapshot()
	}
	if left := len(value) - in.at; in.err == nil && left > 0 {
		in.fail(Malformed, "%d bytes are left over", left)
	}
	if in.err != nil {
		return nil, in.err
	}
	return r, nil
}

func (r *reader) segment() *Segment {
	var s Segment
	s.Topic, s.Partition = r.partition()
	s.ID = r.uuid()
	r.tags(nil)
	r.body(&s.Segment)
	return &s
}

func (r *reader) update() *Update {
	var u Update
	u.Topic, u.Partition = r.partition()
	u.ID = r.uuid()
	r.tags(nil)
	u.BrokerID = r.int32()
	u.At = r.int64()
	u.Custom = r.bytes()
	u.State = tier.State(r.int8())
	r.tags(nil)
	return &u
}

func (r *reader) partitionDelete() *PartitionDelete {
	var d PartitionDelete
	d.Topic, d.Partition = r.partition()
	d.BrokerID = r.int32()
	d.EventTime = r.int64()
	d.State = PartitionState(r.int8())
	r.tags(nil)
	return &d
}

func (r *reader) snapshot() *Snapshot {
	var s Snapshot
	s.ID = r.uuid()
	r.body(&s.Segment)
	return &s
}

// partition reads a TopicIdPartition.
func (r *reader) partition() (topic string, id tier.PartitionID) {
	topic = r.topic()
	id.Topic = r.uuid()
	id.Partition = r.int32()
	r.tags(nil)
	return topic, id
}

// body reads what the two segment messages have in common, to their end.
func (r *reader) body(s *tier.Segment) {
	s.BaseOffset = r.int64()
	s.EndOffset = r.int64()
	s.BrokerID = r.int32()
	s.MaxTimestamp = r.int64()
	s.EventTime = r.int64()
	s.Epochs = r.epochs()
	s.Size = int64(r.int32())
	s.Custom = r.bytes()
	s.State = tier.State(r.int8())
	r.tags(func(tag uint32, field *reader) {
		if tag == tagTxnIndexEmpty {
			s.TxnIndexEmpty = field.int8() != 0
		}
	})
}

// epochs reads the leader epochs of a segment. Kafka keeps them in a map, so they may come in any order, and of an
// epoch that comes twice the last one counts.
func (r *reader) epochs() []segment.EpochStart {
	const least = 4 + 8 + 1 // epoch, offset, an empty section of tags
	n := r.elements(least)
	epochs := make([]segment.EpochStart, n)
	for i := range epochs {
		epochs[i] = segment.EpochStart{Epoch: r.int32(), StartOffset: r.int64()}
		r.tags(nil)
	}
	byEpoch := func(a, b segment.EpochStart) int { return cmp.Compare(a.Epoch, b.Epoch) }
	if !slices.IsSortedFunc(epochs, byEpoch) {
		slices.SortStableFunc(epochs, byEpoch)
	}
	last := epochs[:0]
	for i, e := range epochs {
		if i+1 == n || epochs[i+1].Epoch != e.Epoch {
			last = append(last, e)
		}
	}
	return last
}
