package tier

import "testing"

func deleting(ids ...uint64) (cs []Change) {
	for _, n := range ids {
		cs = append(cs, SegmentUpdated{Partition: part0, ID: id(n), State: DeleteStarted})
	}
	return cs
}

// Where deletes have begun before the start that they follow is known, the tier says how far they reach.
func TestLeaving(t *testing.T) {
	three := finished(seg(1, 0, 99, 0, 0), seg(2, 100, 199, 0, 100), seg(3, 200, 299, 0, 200))
	type want struct{ offset, to int64 } // to 0: it does not leave
	for name, c := range map[string]struct {
		groups [][]Change
		wants  []want
	}{
		"nothing is deleted": {[][]Change{three, {startIs(0)}}, []want{{0, 0}, {150, 0}, {299, 0}, {300, 0}}},
		"the first":          {[][]Change{three, {startIs(0)}, deleting(1)}, []want{{0, 100}, {99, 100}, {100, 0}, {250, 0}}},
		"two, in the other order": {[][]Change{three, {startIs(0)}, deleting(2), deleting(1)},
			[]want{{0, 200}, {150, 200}, {200, 0}}},
		"all: that is an empty tier": {[][]Change{three, {startIs(0)}, deleting(3, 1, 2)}, []want{{0, 0}, {299, 0}, {300, 0}}},
		"one in the middle": {[][]Change{three, {startIs(0)}, deleting(2)},
			[]want{{0, 0}, {100, 0}, {150, 0}}},
		"the middle, and what is below lies below the start": {[][]Change{three, {startIs(120)}, deleting(2)},
			[]want{{119, 0}, {120, 200}, {199, 200}}},
		"from the start inside a segment": {[][]Change{three, {startIs(50)}, deleting(1)}, []want{{49, 0}, {50, 100}, {99, 100}}},
		"a gap behind it": {[][]Change{finished(seg(1, 0, 99, 0, 0), seg(3, 200, 299, 0, 200)), {startIs(0)}, deleting(1)},
			[]want{{0, 100}, {99, 100}, {100, 0}, {150, 0}}},
		"a readable one overlaps": {[][]Change{finished(seg(1, 0, 99, 0, 0), seg(2, 60, 159, 0, 60)), {startIs(0)}, deleting(1)},
			[]want{{0, 60}, {59, 60}, {60, 0}}},
		"another copy is readable": {[][]Change{finished(seg(1, 0, 99, 0, 0), seg(2, 0, 99, 0, 0)), {startIs(0)}, deleting(1)},
			[]want{{0, 0}, {99, 0}}},
		"of an epoch before the lineage": {[][]Change{finished(seg(1, 0, 99, 0, 0), seg(2, 100, 199, 1, 100)), {startIs(0), lineageIs(1, 100)}, deleting(1)},
			[]want{{0, 100}, {100, 0}}},
		"of a lost lineage": {[][]Change{finished(seg(1, 0, 99, 1, 0), seg(2, 100, 199, 2, 100)), {startIs(0), lineageIs(0, 0, 2, 100)}, deleting(1)},
			[]want{{0, 0}, {99, 0}}},
		"of the lineage's first epoch, but from another leader's log": {[][]Change{
			finished(seg(1, 0, 14, 0, 0), seg(2, 15, 24, 1, 15)), {startIs(0), lineageIs(0, 0, 1, 10)}, deleting(1)}, []want{{0, 0}}},
		"the start is the last offset of a readable one": {[][]Change{three, {startIs(99)}, deleting(2)},
			[]want{{99, 0}, {100, 0}}},
		"a copy that failed": {[][]Change{{startIs(0)}, added(seg(1, 0, 99, 0, 0)), finished(seg(2, 100, 199, 0, 100))},
			[]want{{0, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := partition(t, build(t, c.groups...))
			for _, w := range c.wants {
				if to, ok := p.Leaving(w.offset); ok != (w.to > 0) || ok && to != w.to {
					t.Errorf("offset %d: %d %t, want %d", w.offset, to, ok, w.to)
				}
			}
		})
	}
}

func TestStartTold(t *testing.T) {
	for start, told := range map[int64]bool{-1: false, 0: true, 7: true} {
		p := partition(t, build(t, finished(seg(1, 0, 99, 0, 0)), []Change{startIs(start)}))
		if p.StartReported() != told || p.Bounds().Start != max(start, 0) {
			t.Errorf("start %d: told %t, bounds %+v", start, p.StartReported(), p.Bounds())
		}
	}
}
