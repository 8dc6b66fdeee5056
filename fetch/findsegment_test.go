package fetch

import (
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// A sealed segment that grew is in the tier twice; its base offset means the longer copy, its id either.
func TestBaseOffsetMeansTheLongestCopy(t *testing.T) {
	part := tier.PartitionID{Topic: segment.UUID{1}}
	model := tier.New()
	add := func(id byte, end int64) {
		model.Apply(tier.SegmentLoaded{Segment: tier.Segment{
			ID: segment.UUID{id}, Partition: part, Topic: "t", BaseOffset: 10, EndOffset: end, Size: end,
			Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: 10}}, State: tier.CopyFinished,
		}})
	}
	add(1, 19)
	add(2, 39)
	p, ok := model.Snapshot().Partition(part)
	if !ok {
		t.Fatal("no partition")
	}
	if s, ok := findSegment(p, "10"); !ok || s.EndOffset != 39 {
		t.Errorf("by base offset: %v", s)
	}
	if s, ok := findSegment(p, segment.UUID{1}.String()); !ok || s.EndOffset != 19 {
		t.Errorf("by id: %v", s)
	}
}
