package fetch

import (
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// Where each copy is gone by the time it is read, and another one in its place, the search for the place ends.
func TestSegmentsThatKeepVanishing(t *testing.T) {
	for _, vanish := range []int{maxMoves, maxMoves + 1} {
		s := newHarness(t, shape{window: -1})
		s.topic("t", 0)
		log := dense(0, 9, false)
		s.add(stored{base: 0, end: 9, log: log})
		reads := 0
		s.loadLog = func(id segment.UUID, _ int64) error {
			if reads++; reads > vanish {
				return nil
			}
			s.apply(tier.SegmentUpdated{Partition: tier.PartitionID{Topic: testTopic}, ID: id, State: tier.DeleteStarted, At: 2})
			s.add(stored{base: 0, end: 9, log: log})
			return failure(Missing, nil, "no object")
		}
		a := s.records(from(0))
		if vanish > maxMoves {
			wantKind(t, "too often", a, Missing)
		} else {
			want(t, "often", a, offsetsOf(0, 9), EndTier, 10)
		}
		if reads != maxMoves+1 {
			t.Errorf("%d reads", reads)
		}
	}
}
