package tier

import (
	"iter"
	"slices"

	"coldtap/segment"
)

// Snapshot is a consistent, immutable view. All methods may be called concurrently, and what they give stays valid.
type Snapshot struct {
	topics     *topicSet
	partitions cowList[*Partition] // by id; those that are only half known too
	certainty  certainties
	segments   int
}

// Topics lists one topic for each name (the chosen id), sorted by name.
func (s *Snapshot) Topics() []Topic { return slices.Clone(s.topics.chosen) }

// TopicByName gives the topic of that name; of several live ones that carry it, the one with the newest event.
func (s *Snapshot) TopicByName(name string) (Topic, bool) { return s.topics.byName(name) }

// TopicByID reaches every topic that has a partition, also one whose name another id has taken over.
func (s *Snapshot) TopicByID(id segment.UUID) (Topic, bool) {
	t, ok := s.topics.byID[id]
	return t, ok
}

// Partition gives a partition that has known bounds or segments.
func (s *Snapshot) Partition(id PartitionID) (*Partition, bool) {
	p := s.partitions.at(partitionPosition(&s.partitions, id))
	if p == nil || (*p).id != id || !(*p).isListed() {
		return nil, false
	}
	return *p, true
}

// Certainty says how far a partition's bounds can be relied on, whether or not Partition gives it.
func (s *Snapshot) Certainty(id PartitionID) Certainty {
	return s.certainty.topic(id.Topic).of(id.Partition)
}

// Partitions yields every partition that Partition would give, by topic id and number.
func (s *Snapshot) Partitions() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		for p := range s.partitions.all() {
			if p.isListed() && !yield(p) {
				return
			}
		}
	}
}

// Segments counts the live ones: every state but DELETE_SEGMENT_FINISHED.
func (s *Snapshot) Segments() int { return s.segments }

// Withdrawn are the segments that were CopyFinished before and are not after, as they were before: what
// Outcome.Withdrawn is to one Apply. It may be asked of views of different tiers.
func Withdrawn(before, after *Snapshot) (segments []*Segment) {
	for p := range before.Partitions() {
		now, _ := after.Partition(p.ID())
		for _, s := range p.Segments(true) {
			if s.State == CopyFinished && !now.HasFinished(s.ID) {
				segments = append(segments, s)
			}
		}
	}
	return segments
}

func partitionPosition(s *cowList[*Partition], id PartitionID) position {
	return s.seek(func(p **Partition) bool { return (*p).id.compare(id) < 0 })
}
