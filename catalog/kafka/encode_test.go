package kafka

import (
	"math"
	"testing"

	"coldtap/tier"
)

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
			got, err := Append([]byte("before"), c.record)
			if kindOf(err) != c.want || string(got) != "before" {
				t.Errorf("%q, %v, want %v", got, err, c.want)
			}
		})
	}
}
