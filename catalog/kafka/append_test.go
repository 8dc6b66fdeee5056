package kafka

import (
	"encoding/binary"
	"math"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// appendRecord appends the value that Kafka 4.x writes for r, byte for byte, at message version 0. Errors are *Error:
// it refuses what would stop a broker's consumer, that is a segment that is impossible or, but for a Snapshot, not
// CopyStarted; an update to CopyStarted or to no known state; a name that no topic can have; numbers that the fields
// have no room for.
func appendRecord(dst []byte, r Record) ([]byte, error) {
	if err := writable(r); err != nil {
		return dst, err
	}
	switch r := r.(type) {
	case *Segment:
		dst = appendEnvelope(dst, keySegment)
		dst = appendSegmentID(dst, r.Topic, r.Partition, r.ID)
		dst = appendBody(dst, &r.Segment)
	case *Update:
		dst = appendEnvelope(dst, keyUpdate)
		dst = appendSegmentID(dst, r.Topic, r.Partition, r.ID)
		dst = binary.BigEndian.AppendUint32(dst, uint32(r.BrokerID))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.At))
		dst = appendNullable(dst, r.Custom)
		dst = append(dst, byte(r.State), 0)
	case *PartitionDelete:
		dst = appendEnvelope(dst, keyPartitionDelete)
		dst = appendPartition(dst, r.Topic, r.Partition)
		dst = binary.BigEndian.AppendUint32(dst, uint32(r.BrokerID))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.EventTime))
		dst = append(dst, byte(r.State), 0)
	case *Snapshot:
		dst = appendEnvelope(dst, keySnapshot)
		dst = append(dst, r.ID[:]...)
		dst = appendBody(dst, &r.Segment)
	}
	return dst, nil
}

// writable says why a record must not be written.
func writable(r Record) error {
	var (
		topic  string
		custom []byte
	)
	switch r := r.(type) {
	case *Segment:
		topic, custom = r.Topic, r.Custom
		if err := writableSegment(&r.Segment); err != nil {
			return err
		}
		if r.State != tier.CopyStarted {
			return fail(Malformed, -1, "a segment enters the topic as %v, not %v", tier.CopyStarted, r.State)
		}
	case *Update:
		topic, custom = r.Topic, r.Custom
		if !r.State.Known() || r.State == tier.CopyStarted {
			return fail(Malformed, -1, "an update to %v", r.State)
		}
	case *PartitionDelete:
		topic = r.Topic
		if r.State < DeleteMarked || r.State > DeleteFinished {
			return fail(Malformed, -1, "a deletion in %v", r.State)
		}
	case *Snapshot:
		return writableSegment(&r.Segment)
	default:
		return fail(UnknownRecord, -1, "a record of type %T", r)
	}
	if len(custom) > math.MaxInt32-1 {
		return fail(TooLarge, -1, "custom metadata of %d bytes", len(custom))
	}
	if !segment.LegalTopic(topic) {
		return fail(Malformed, -1, "%.300q is no topic name", topic)
	}
	return nil
}

func writableSegment(s *tier.Segment) error {
	switch err := s.Validate(); {
	case err != nil:
		return fail(Malformed, -1, "%v", err)
	case s.Size > math.MaxInt32:
		return fail(TooLarge, -1, "a log of %d bytes", s.Size)
	case len(s.Epochs) > maxElements:
		return fail(TooLarge, -1, "%d leader epochs", len(s.Epochs))
	case len(s.Custom) > math.MaxInt32-1:
		return fail(TooLarge, -1, "custom metadata of %d bytes", len(s.Custom))
	}
	return nil
}

func appendEnvelope(dst []byte, key byte) []byte { return append(dst, frameVersion, key, 0) }

// appendPartition writes a TopicIdPartition and its empty section of tags.
func appendPartition(dst []byte, topic string, id tier.PartitionID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(topic)+1))
	dst = append(dst, topic...)
	dst = append(dst, id.Topic[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(id.Partition))
	return append(dst, 0)
}

// appendSegmentID writes a RemoteLogSegmentId and its empty section of tags.
func appendSegmentID(dst []byte, topic string, partition tier.PartitionID, id segment.UUID) []byte {
	dst = appendPartition(dst, topic, partition)
	dst = append(dst, id[:]...)
	return append(dst, 0)
}

// TestWhatWouldStopBrokersIsNotWritten: a broker's consumer of the topic dies at the first record of this kind.
func TestWhatWouldStopBrokersIsNotWritten(t *testing.T) {
	segmentWith := func(change func(*tier.Segment)) Record {
		s := ordersSegment()
		change(&s)
		return &Segment{s}
	}
	for name, c := range map[string]struct {
		record Record
		want   Kind
	}{
		"segment that is finished":     {segmentWith(func(s *tier.Segment) { s.State = tier.CopyFinished }), Malformed},
		"segment without epochs":       {segmentWith(func(s *tier.Segment) { s.Epochs = nil }), Malformed},
		"segment that ends before":     {segmentWith(func(s *tier.Segment) { s.EndOffset = 99 }), Malformed},
		"segment without a topic":      {segmentWith(func(s *tier.Segment) { s.Topic = "" }), Malformed},
		"segment of 2 GiB":             {segmentWith(func(s *tier.Segment) { s.Size = math.MaxInt32 + 1 }), TooLarge},
		"update to COPY_STARTED":       {ordersUpdate(tier.CopyStarted, nil), Malformed},
		"update to an unknown state":   {ordersUpdate(4, nil), Malformed},
		"partition delete in state 3":  {&PartitionDelete{Topic: "orders", State: 3}, Malformed},
		"snapshot that is impossible":  {&Snapshot{}, Malformed},
		"no record":                    {nil, UnknownRecord},
		"update of an impossible name": {&Update{"a/b", tier.SegmentUpdated{State: tier.CopyFinished}}, Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := appendRecord([]byte("before"), c.record)
			if kindOf(err) != c.want || string(got) != "before" {
				t.Errorf("%q, %v, want %v", got, err, c.want)
			}
		})
	}
}
