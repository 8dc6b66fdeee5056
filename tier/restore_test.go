package tier

import (
	"slices"
	"testing"

	"coldtap/segment"
)

// TestWithdrawnSegmentsAreTold, whichever way they stop being readable by their state; those that were not are not.
func TestWithdrawnSegmentsAreTold(t *testing.T) {
	update := func(n uint64, state State) Change { return SegmentUpdated{Partition: part0, ID: id(n), State: state} }
	loaded := func(n uint64, state State) Change {
		s := seg(n, 0, 9, 1, 0)
		s.State = state
		return SegmentLoaded{s}
	}
	for name, c := range map[string]struct {
		changes []Change
		want    []uint64
	}{
		"deletion begins":         {[]Change{update(1, DeleteStarted), update(1, DeleteStarted), update(1, DeleteFinished)}, []uint64{1}},
		"a copy is given up":      {[]Change{update(3, DeleteStarted), update(3, DeleteFinished)}, nil},
		"it is finished again":    {[]Change{update(1, CopyFinished)}, nil},
		"all within one call":     {append(finished(seg(4, 50, 59, 1, 50)), deleted(4)...), []uint64{4}},
		"the partition goes":      {[]Change{PartitionForgotten{part0}}, []uint64{1, 2}},
		"it is loaded as deleted": {[]Change{loaded(1, DeleteFinished), loaded(2, DeleteStarted), loaded(3, DeleteFinished)}, []uint64{1, 2}},
		"it is loaded as it was":  {[]Change{loaded(1, CopyFinished)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tr := build(t, finished(seg(1, 0, 9, 1, 0), seg(2, 10, 19, 1, 10)), added(seg(3, 20, 29, 1, 20)))
			out := tr.ApplyAll(c.changes)
			var got []uint64
			for _, s := range out.Withdrawn {
				got = append(got, uint64(s.ID[15]))
			}
			if !slices.Equal(got, c.want) || len(out.Rejected) > 0 {
				t.Errorf("%v were withdrawn, want %v; rejected %v", got, c.want, out.Rejected)
			}
			if again := tr.ApplyAll(nil); len(again.Withdrawn) > 0 {
				t.Errorf("%v are told again", again.Withdrawn)
			}
		})
	}
}

func TestImpossibleRestorationsAreDropped(t *testing.T) {
	gone, mad, odd := seg(1, 0, 9, 1, 0), seg(1, 9, 0, 1, 0), seg(1, 0, 9, 1, 0)
	gone.State, odd.State = DeleteFinished, 9
	tr := New()
	for reason, c := range map[string]Change{
		ReasonIllegalTransition: SegmentRestored{Segment: gone},
		ReasonMalformed:         SegmentRestored{Segment: mad},
		ReasonUnknownState:      SegmentRestored{Segment: odd},
	} {
		if got := tr.Apply(c); len(got) != 1 || got[0].Reason != reason {
			t.Errorf("%+v, want %s", got, reason)
		}
	}
	for _, c := range []Change{TopicOwned{ID: topicA}, EpochRestored{part0, EpochEnd{-1, 5}}, EpochRestored{part0, EpochEnd{1, -5}}} {
		if got := tr.Apply(c); len(got) != 1 || got[0].Reason != ReasonMalformed {
			t.Errorf("%+v", got)
		}
	}
	if got := tr.Apply(EpochRestored{PartitionID{Topic: topicB}, EpochEnd{0, 0}}); len(got) != 0 {
		t.Errorf("an epoch that ended with offset 0: %+v", got)
	}
	// Two that claim one place are both there, the first one in front.
	a, b := seg(1, 0, 9, 1, 0), seg(2, 0, 9, 1, 0)
	a.State, b.State = CopyFinished, CopyFinished
	tr.Apply(SegmentRestored{Segment: a}, SegmentRestored{Segment: b})
	p := partition(t, tr)
	if s, ok := p.Find(5); !ok || s.ID != a.ID || len(p.Shadowed(&a)) > 0 || !slices.Equal(p.Shadowed(&b), []int32{1}) {
		t.Errorf("%v, %v shadowed", s, p.Shadowed(&b))
	}
}

// TestOwnersHaveTheirNames, whatever the other topic's events say, and while nothing of the owner is tiered.
func TestOwnersHaveTheirNames(t *testing.T) {
	s := seg(1, 0, 9, 1, 0)
	s.EventTime = 1000
	tr := build(t, finished(s))
	named := func(want segment.UUID) {
		t.Helper()
		topic, ok := tr.Snapshot().TopicByName("t")
		if ok != !want.IsZero() || topic.ID != want {
			t.Errorf("t is %v, want %v", topic.ID, want)
		}
		if _, ok := tr.Snapshot().TopicByID(topicA); !ok {
			t.Error("the first topic is lost")
		}
	}
	named(topicA)
	tr.Apply(TopicOwned{"t", topicB})
	named(segment.UUID{})
	tr.Apply(TopicSeen{ID: topicB, Name: "t"}, BoundsChanged{PartitionID{Topic: topicB}, Bounds{Start: 0}})
	named(topicB)
	tr.Apply(SegmentUpdated{Partition: part0, ID: s.ID, State: CopyFinished, At: 5000})
	named(topicB)
	tr.Apply(TopicOwned{"t", topicA})
	named(topicA)
	before := tr.Snapshot()
	tr.Apply(TopicOwned{"t", topicA})
	if tr.Snapshot() != before {
		t.Error("the same again made another view")
	}
	tr.Apply(TopicOwned{"t", topicB}, TopicOwned{Name: "t"})
	named(topicA)
}
