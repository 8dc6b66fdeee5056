package tier

import (
	"errors"
	"testing"
	"time"

	"coldtap/segment"
)

func TestCertaintyIsPublishedWithTheBounds(t *testing.T) {
	notAsked, silent, denied := errors.New("not asked"), errors.New("silent"), errors.New("denied")
	unknown := func(reason error) Certainty { return Certainty{State: BoundsUnknown, Reason: reason} }
	stale := Certainty{State: BoundsStale, Since: time.Unix(7, 0)}
	is := func(topic segment.UUID, all Certainty, except map[int32]Certainty) Change {
		return CertaintyChanged{topic, &TopicCertainty{all, except}}
	}
	for name, tt := range map[string]struct {
		changes [][]Change
		want    map[PartitionID]Certainty
	}{
		"nothing is said": {nil, map[PartitionID]Certainty{part0: {}, {Topic: topicB}: {}}},
		"of every topic": {
			[][]Change{{is(segment.UUID{}, unknown(notAsked), nil)}},
			map[PartitionID]Certainty{part0: unknown(notAsked), {Topic: topicB, Partition: 3}: unknown(notAsked)}},
		"of one topic before all others": {
			[][]Change{{is(topicA, Certainty{}, nil), is(segment.UUID{}, unknown(notAsked), nil)}},
			map[PartitionID]Certainty{part0: {}, {Topic: topicB}: unknown(notAsked)}},
		"of single partitions": {
			[][]Change{{is(topicA, Certainty{}, map[int32]Certainty{0: stale, 2: unknown(silent)})}},
			map[PartitionID]Certainty{part0: stale, {Topic: topicA, Partition: 1}: {}, {Topic: topicA, Partition: 2}: unknown(silent)}},
		"the newest counts, and forgets the exceptions": {
			[][]Change{
				{is(topicA, Certainty{}, map[int32]Certainty{0: stale, 2: unknown(silent)})},
				{is(topicA, Certainty{State: BoundsDenied, Reason: denied}, nil)}},
			map[PartitionID]Certainty{
				part0:                         {State: BoundsDenied, Reason: denied},
				{Topic: topicA, Partition: 2}: {State: BoundsDenied, Reason: denied}}},
		"taken back": {
			[][]Change{{is(segment.UUID{}, unknown(notAsked), nil), is(topicA, stale, nil)}, {CertaintyChanged{Topic: topicA}}},
			map[PartitionID]Certainty{part0: unknown(notAsked)}},
		"all taken back":               {[][]Change{{is(segment.UUID{}, unknown(notAsked), nil)}, {CertaintyChanged{}}}, map[PartitionID]Certainty{part0: {}}},
		"a partition that comes later": {[][]Change{{is(topicA, stale, nil)}, {PartitionForgotten{part0}}, {startIs(4)}}, map[PartitionID]Certainty{part0: stale}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := build(t, []Change{startIs(0)})
			first := tr.Snapshot()
			for _, c := range tt.changes {
				before := tr.Snapshot()
				if tr.Apply(c...); tr.Snapshot() == before {
					t.Error("it was not published")
				}
			}
			view := tr.Snapshot()
			for id, want := range tt.want {
				if got := view.Certainty(id); got != want {
					t.Errorf("%v: %+v, want %+v", id, got, want)
				}
				if first.Certainty(id) != (Certainty{}) {
					t.Errorf("%v changed in a view that was out", id)
				}
				if p, ok := view.Partition(id); ok && p.Certainty() != want {
					t.Errorf("%v: the partition has %+v, want %+v", id, p.Certainty(), want)
				} else if ok != (id == part0) {
					t.Errorf("%v is listed: %t", id, ok)
				}
			}
			if partition(t, tr).Bounds().Start < 0 {
				t.Error("the bounds are gone")
			}
		})
	}
}

// What changes beside a partition's certainty does not copy the others of its topic.
func TestCertaintyTouchesWhatItConcerns(t *testing.T) {
	other := PartitionID{Topic: topicA, Partition: 1}
	tr := build(t, []Change{startIs(0), BoundsChanged{Partition: other}})
	before, _ := tr.Snapshot().Partition(other)
	tr.Apply(CertaintyChanged{topicA, &TopicCertainty{Except: map[int32]Certainty{0: {State: BoundsStale}}}})
	if after, _ := tr.Snapshot().Partition(other); after != before {
		t.Error("a partition was copied of which the same is said")
	}
}
