package fetch

import (
	"math"
	"testing"
	"time"

	"coldtap/segment"
	"coldtap/tier"
)

// The time span comes from the segments' largest timestamps; those without timestamps say nothing, and with brokers
// that hold more it reaches to now.
func TestTimeSpan(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	span := func() [3]int64 {
		from, to, known := s.TimeSpan("t", segment.UUID{}, 0)
		if !known {
			return [3]int64{}
		}
		return [3]int64{from + unseenSpan, to, 1}
	}
	if got := span(); got != [3]int64{} {
		t.Errorf("nothing tiered: %v", got)
	}
	s.add(stored{base: 0, end: 0, maxTime: -1, log: legacy(0, 0, 0, "a")})
	if got := span(); got != [3]int64{} {
		t.Errorf("no timestamps: %v", got)
	}
	s.add(stored{base: 1, end: 1, log: one(1, plainTime+5, 80)})
	s.add(stored{base: 2, end: 2, log: one(2, plainTime, 80)})
	s.add(stored{base: 3, end: 3, log: one(3, plainTime+9, 80)})
	if got := span(); got != [3]int64{plainTime, plainTime + 9, 1} {
		t.Errorf("%v", got)
	}
	s.apply(tier.BoundsChanged{Partition: tier.PartitionID{Topic: testTopic}, Bounds: tier.Bounds{Start: 0, LocalStart: 3, HighWatermark: 9, LastStable: 9}})
	if got := span(); got[0] != plainTime || got[1] < time.Now().Add(-time.Minute).UnixMilli() || got[1] > time.Now().UnixMilli() {
		t.Errorf("the brokers hold more: %v", got)
	}
	s.add(stored{base: 4, end: 4, log: one(4, math.MaxInt64, 80)})
	if got := span(); got[1] != math.MaxInt64 {
		t.Errorf("%v", got)
	}
	if _, _, known := s.TimeSpan("other", segment.UUID{}, 0); known {
		t.Error("of a topic that is not there")
	}
}
