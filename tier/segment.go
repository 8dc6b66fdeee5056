package tier

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"sort"

	"coldtap/segment"
)

// PartitionID names a partition for ever: a topic that is deleted and re-created has another Topic id.
type PartitionID struct {
	Topic     segment.UUID
	Partition int32
}

func (id PartitionID) compare(other PartitionID) int {
	return cmp.Or(bytes.Compare(id.Topic[:], other.Topic[:]), cmp.Compare(id.Partition, other.Partition))
}

// SegmentKey names a segment for ever. It is comparable, the key of everything that is kept by segment.
type SegmentKey struct {
	Partition PartitionID
	ID        segment.UUID
}

// Segment is a remote segment's metadata. A *Segment handed out by a Snapshot is immutable.
//
// The fields are ordered for size: at 160 bytes it is one allocation class below what declaration by meaning would
// take, and there may be millions of them.
type Segment struct {
	ID           segment.UUID
	Partition    PartitionID
	BrokerID     int32  // who published the last step
	Topic        string // the topic's name when the segment was copied
	BaseOffset   int64
	EndOffset    int64 // inclusive
	MaxTimestamp int64 // ms; a file's mtime when no record has a timestamp
	EventTime    int64 // ms, of the last step
	// Epochs are the leader epochs in the segment, ascending, never empty. A StartOffset is the epoch's start in this
	// segment; the first may lie above BaseOffset when the log start had moved inside the segment, and an entry whose
	// start equals the next one's wrote no records.
	Epochs        []segment.EpochStart
	Size          int64 // bytes of the .log
	Custom        []byte
	State         State
	TxnIndexEmpty bool // the copier knew that there is no transaction index; false also means unknown
}

// Key names the segment.
func (s *Segment) Key() SegmentKey { return SegmentKey{s.Partition, s.ID} }

// EndOfEpoch gives the first and last offset (inclusive) that the segment holds of epoch; ok false when it has none.
func (s *Segment) EndOfEpoch(epoch int32) (start, end int64, ok bool) {
	i, ok := s.epochIndex(epoch)
	if !ok {
		return 0, 0, false
	}
	r := s.stretch(i)
	return r.start, r.end, r.start <= r.end
}

// epochIndex finds an epoch among those of the segment. Nearly all have one or two, of 100,000 it takes 17 steps.
func (s *Segment) epochIndex(epoch int32) (int, bool) {
	i := sort.Search(len(s.Epochs), func(i int) bool { return s.Epochs[i].Epoch >= epoch })
	return i, i < len(s.Epochs) && s.Epochs[i].Epoch == epoch
}

// stretch is what a segment holds of one epoch: [start, end], empty when end < start.
type stretch struct {
	epoch      int32
	start, end int64
}

func (s *Segment) stretch(i int) stretch {
	end := s.EndOffset
	if i+1 < len(s.Epochs) {
		end = min(end, s.Epochs[i+1].StartOffset-1)
	}
	return stretch{s.Epochs[i].Epoch, max(s.Epochs[i].StartOffset, s.BaseOffset), end}
}

// stretches yields the epochs that have records in the segment, ascending.
func (s *Segment) stretches(yield func(stretch) bool) {
	for i := range s.Epochs {
		if r := s.stretch(i); r.start <= r.end && !yield(r) {
			return
		}
	}
}

// lastEpoch is the highest epoch that has records in the segment.
func (s *Segment) lastEpoch() int32 {
	return s.Epochs[max(s.startingUpTo(s.EndOffset)-1, 0)].Epoch
}

// startingUpTo counts the epochs that start at offset or before it.
func (s *Segment) startingUpTo(offset int64) int {
	return sort.Search(len(s.Epochs), func(i int) bool { return s.Epochs[i].StartOffset > offset })
}

// before gives the epoch that has the records just before those of epoch, of which the segment must have some.
func (s *Segment) before(epoch int32) (below int32, ok bool) {
	i, _ := s.epochIndex(epoch)
	start := s.Epochs[i].StartOffset
	if start <= s.BaseOffset {
		return -1, false
	}
	// Those that start where it does have no records; the last one that starts earlier has some.
	if n := s.startingUpTo(start - 1); n > 0 {
		return s.Epochs[n-1].Epoch, true
	}
	return -1, false
}

// firstReadable is the first offset that can be asked for: above BaseOffset when the first epoch starts later.
func (s *Segment) firstReadable() int64 {
	for r := range s.stretches {
		return r.start
	}
	return s.BaseOffset
}

// maxEpochs bounds what one segment may claim. A broker can't publish more than some 80,000: each takes 13 bytes of a
// metadata record, and a record has at most 1 MiB unless max.message.bytes was raised. 100,000 leaders in a row, one
// every 6 s for the 7 days of the default segment.ms, is no life that a log had; and their index takes some 30 MB.
const maxEpochs = 100_000

var errNoRecords = errors.New("no leader epoch covers any offset of the segment")

// Validate says what makes the segment impossible: nothing that fails it is ever in a Tier.
func (s *Segment) Validate() error {
	switch {
	case s.BaseOffset < 0:
		return fmt.Errorf("base offset %d is negative", s.BaseOffset)
	case s.EndOffset < s.BaseOffset:
		return fmt.Errorf("end offset %d is below base offset %d", s.EndOffset, s.BaseOffset)
	case s.EndOffset == math.MaxInt64:
		return errors.New("end offset leaves no room for a next one")
	case s.Size < 0:
		return fmt.Errorf("size %d is negative", s.Size)
	case s.Partition.Partition < 0:
		return fmt.Errorf("partition %d is negative", s.Partition.Partition)
	case !s.State.Known():
		return fmt.Errorf("state %d is unknown", s.State)
	}
	if len(s.Epochs) > maxEpochs {
		return fmt.Errorf("%d leader epochs are more than the %d that a segment may have", len(s.Epochs), maxEpochs)
	}
	if err := validateEpochs(s.Epochs); err != nil {
		return err
	}
	for range s.stretches {
		return nil
	}
	return errNoRecords
}

// validateEpochs wants epochs ascending and starts not descending; equal starts are epochs without records.
func validateEpochs(epochs []segment.EpochStart) error {
	for i, e := range epochs {
		if e.Epoch < 0 || e.StartOffset < 0 {
			return fmt.Errorf("leader epoch %d at %d is negative", e.Epoch, e.StartOffset)
		}
		if i > 0 && (e.Epoch <= epochs[i-1].Epoch || e.StartOffset < epochs[i-1].StartOffset) {
			return fmt.Errorf("leader epoch %d at %d follows %d at %d", e.Epoch, e.StartOffset, epochs[i-1].Epoch, epochs[i-1].StartOffset)
		}
	}
	return nil
}
