package tier

import (
	"slices"
	"testing"
)

// Behaviour of Kafka's own RemoteLogMetadataCache, as observed, and where the fall-back goes beyond it.
func TestFindEpochFollowsKafka(t *testing.T) {
	type probe struct {
		epoch  int32
		offset int64
		want   uint64
	}
	for _, c := range []struct {
		name    string
		changes [][]Change
		probes  []probe
	}{
		{"a later longer segment drives out what starts behind it",
			[][]Change{finished(seg(1, 10, 90, 5, 10)), finished(seg(2, 5, 100, 5, 5)), finished(seg(3, 101, 200, 5, 101))},
			[]probe{{5, 95, 2}, {5, 50, 2}, {5, 7, 2}, {5, 101, 3}, {5, 4, 0}, {5, 201, 0}}},
		{"a later shorter segment hides what only the longer has, the fall-back finds it",
			[][]Change{finished(seg(1, 0, 100, 5, 0)), finished(seg(2, 50, 60, 5, 50))},
			[]probe{{5, 30, 1}, {5, 55, 2}, {5, 70, 1}, {5, 100, 1}}},
		{"same start, later, shorter: the earlier is not lost",
			[][]Change{finished(seg(1, 0, 100, 5, 0)), finished(seg(2, 0, 60, 5, 0))},
			[]probe{{5, 30, 2}, {5, 70, 1}}},
		{"a duplicate's delete brings the first one back",
			[][]Change{finished(seg(1, 0, 100, 5, 0)), finished(seg(2, 0, 100, 5, 0)), deleted(2)},
			[]probe{{5, 50, 1}}},
		{"before that the duplicate is the answer",
			[][]Change{finished(seg(1, 0, 100, 5, 0)), finished(seg(2, 0, 100, 5, 0))},
			[]probe{{5, 50, 2}}},
		{"an epoch ends where the next begins",
			[][]Change{finished(seg(1, 100, 350, 5, 100, 6, 300))},
			[]probe{{5, 299, 1}, {5, 300, 0}, {6, 299, 0}, {6, 300, 1}, {6, 350, 1}, {6, 351, 0}, {5, 99, 0}, {7, 300, 0}}},
		{"offsets below the first epoch's start are unreachable",
			[][]Change{finished(seg(1, 0, 100, 3, 40))},
			[]probe{{3, 20, 0}, {3, 39, 0}, {3, 40, 1}}},
		{"only finished copies are found",
			[][]Change{added(seg(1, 0, 99, 5, 0)), finished(seg(2, 100, 199, 5, 100)),
				{SegmentUpdated{Partition: part0, ID: id(2), State: DeleteStarted}}},
			[]probe{{5, 50, 0}, {5, 150, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := partition(t, build(t, c.changes...))
			for _, q := range c.probes {
				got, ok := p.FindEpoch(q.epoch, q.offset)
				check(t, "FindEpoch", got, ok, q.want)
			}
		})
	}
}

func TestListingKeepsEverySegmentUntilItIsGone(t *testing.T) {
	tr := build(t, finished(seg(1, 10, 90, 5, 10)), finished(seg(2, 5, 100, 5, 5)), finished(seg(3, 101, 200, 5, 101)), added(seg(4, 201, 300, 5, 201)))
	order := func(want ...uint64) {
		t.Helper()
		list := partition(t, tr).Segments(true)
		if len(list) != len(want) {
			t.Fatalf("%d segments, want %d", len(list), len(want))
		}
		for i, s := range list {
			if s.ID != id(want[i]) {
				t.Errorf("place %d has [%d..%d]", i, s.BaseOffset, s.EndOffset)
			}
		}
	}
	order(2, 1, 3, 4)
	if n := len(partition(t, tr).Segments(false)); n != 3 {
		t.Errorf("%d readable segments, want 3", n)
	}
	tr.Apply(SegmentUpdated{Partition: part0, ID: id(1), State: DeleteStarted})
	order(2, 1, 3, 4)
	tr.Apply(SegmentUpdated{Partition: part0, ID: id(1), State: DeleteFinished})
	order(2, 3, 4)
	if n := tr.Snapshot().Segments(); n != 3 {
		t.Errorf("%d live segments, want 3", n)
	}
}

func TestHighestOfEpochNeverFalls(t *testing.T) {
	tr := build(t, []Change{startIs(0)}, finished(seg(1, 0, 99, 5, 0), seg(2, 0, 50, 5, 0)), deleted(1, 2))
	if h, ok := partition(t, tr).HighestOfEpoch(5); !ok || h != 99 {
		t.Errorf("highest %d %v, want 99: a copier would copy again what was deleted", h, ok)
	}
	if _, ok := partition(t, tr).HighestOfEpoch(6); ok {
		t.Error("an epoch that never was has a highest offset")
	}
}

func TestHighestOfEpochOfASingleRecord(t *testing.T) {
	p := partition(t, build(t, finished(seg(1, 0, 0, 5, 0))))
	if h, ok := p.HighestOfEpoch(5); !ok || h != 0 {
		t.Errorf("the highest offset of the epoch is %d %v, want 0", h, ok)
	}
	if list := p.HighestOfEpochs(); !slices.Equal(list, []EpochEnd{{5, 0}}) {
		t.Errorf("the epochs' ends are %v", list)
	}
	if h, ok := p.HighestOfEpoch(6); ok || h != -1 {
		t.Errorf("the highest offset of an unknown epoch is %d %v, want -1", h, ok)
	}
	p = partition(t, build(t, finished(seg(1, 10, 19, 5, 10))))
	if e, ok := p.EpochFor(9); ok || e != -1 {
		t.Errorf("the epoch below the lineage is %d %v, want -1", e, ok)
	}
}

// A copy that begins again with other offsets is listed, and found, at its new place.
func TestRepeatedCopyMovesInTheListing(t *testing.T) {
	for name, c := range map[string]struct{ first, other, again Segment }{
		"another base":              {seg(1, 50, 299, 0, 50), seg(2, 100, 199, 0, 100), seg(1, 150, 299, 0, 150)},
		"another end":               {seg(1, 50, 60, 0, 50), seg(2, 50, 70, 0, 50), seg(1, 50, 80, 0, 50)},
		"another base, another end": {seg(1, 50, 60, 0, 50), seg(2, 50, 70, 0, 50), seg(1, 90, 100, 0, 90)},
	} {
		t.Run(name, func(t *testing.T) {
			tr := build(t, added(c.first), added(c.other), added(c.again))
			var order []int64
			for _, s := range partition(t, tr).Segments(true) {
				order = append(order, s.BaseOffset, s.EndOffset)
			}
			if want := []int64{c.other.BaseOffset, c.other.EndOffset, c.again.BaseOffset, c.again.EndOffset}; !slices.Equal(order, want) {
				t.Errorf("listed as %v, want %v", order, want)
			}
			tr.Apply(deleted(1)...)
			if list := partition(t, tr).Segments(true); len(list) != 1 || list[0].ID != id(2) {
				t.Errorf("after its delete %d are left", len(list))
			}
		})
	}
}

// A view that a reader holds does not learn what the next change brings.
func TestViewKeepsItsEpochs(t *testing.T) {
	tr := build(t, finished(seg(1, 0, 9, 5, 0)))
	before := partition(t, tr)
	tr.Apply(finished(seg(2, 10, 19, 5, 10))...)
	got, ok := before.FindEpoch(5, 15)
	check(t, "FindEpoch(5, 15) of the view before", got, ok, 0)
	if h, _ := before.HighestOfEpoch(5); h != 9 {
		t.Errorf("the highest offset of the view before is %d, want 9", h)
	}
	if h, _ := partition(t, tr).HighestOfEpoch(5); h != 19 {
		t.Errorf("the highest offset is %d, want 19", h)
	}
}

func TestStartInsideASegment(t *testing.T) {
	p := partition(t, build(t, []Change{startIs(15)}, finished(seg(1, 0, 99, 0, 0))))
	wantAt(t, p, map[int64]uint64{-1: 0, 0: 0, 10: 0, 14: 0, 15: 1, 99: 1, 100: 0})
	if b := p.Bounds(); b.Start != 15 || b.LocalStart != -1 || p.TieredEnd() != 100 {
		t.Errorf("bounds %+v, end %d", b, p.TieredEnd())
	}
}

func TestStartIsDerivedWhenNobodyToldIt(t *testing.T) {
	tr := build(t, added(seg(9, 0, 99, 1, 0)))
	if p := partition(t, tr); p.Bounds().Start != -1 || p.TieredEnd() != -1 {
		t.Errorf("nothing readable: start %d, end %d, want both unknown", p.Bounds().Start, p.TieredEnd())
	}
	tr.Apply(finished(seg(1, 100, 199, 1, 100), seg(2, 200, 299, 1, 200))...)
	if p := partition(t, tr); p.Bounds().Start != 100 || p.TieredEnd() != 300 {
		t.Errorf("start %d, end %d, want 100 and 300", p.Bounds().Start, p.TieredEnd())
	}
	tr.Apply(SegmentUpdated{Partition: part0, ID: id(1), State: DeleteStarted})
	if p := partition(t, tr); p.Bounds().Start != 200 {
		t.Errorf("the start stays at %d though its segment is being deleted", p.Bounds().Start)
	}
	p := partition(t, build(t, finished(seg(1, 0, 99, 3, 40))))
	if p.Bounds().Start != 40 {
		t.Errorf("start %d, want 40: what lies below the first epoch can't be asked for", p.Bounds().Start)
	}
}

func TestEverythingDeleted(t *testing.T) {
	tr := build(t, []Change{startIs(0)}, finished(seg(1, 0, 99, 0, 0), seg(2, 100, 299, 0, 100)), append([]Change{startIs(300)}, deleted(1, 2)...))
	p := partition(t, tr)
	if p.Bounds().Start != 300 || p.TieredEnd() != 300 {
		t.Errorf("start %d, end %d, want 300 and 300", p.Bounds().Start, p.TieredEnd())
	}
	wantAt(t, p, map[int64]uint64{299: 0, 300: 0, 301: 0})
	if len(p.Segments(true)) != 0 {
		t.Error("deleted segments are still listed")
	}
}

func TestStartMovesBeforeTheSegmentsAreGone(t *testing.T) {
	p := partition(t, build(t, finished(seg(1, 0, 99, 0, 0)), []Change{startIs(500)}))
	if p.TieredEnd() != 500 {
		t.Errorf("end %d lies below the start 500", p.TieredEnd())
	}
	wantAt(t, p, map[int64]uint64{50: 0, 499: 0, 500: 0})
}

func TestHolesAreSteppedOverAndGapsAreNot(t *testing.T) {
	hole := func(from, to int64) Change { return HoleRecorded{part0, Hole{from, to, "damaged"}} }
	tr := build(t, []Change{startIs(0)}, finished(
		seg(1, 10, 99, 0, 0), seg(2, 150, 199, 0, 150), seg(3, 250, 299, 0, 250), seg(4, 350, 399, 0, 350), seg(5, 440, 499, 0, 440)),
		[]Change{hole(0, 10), hole(100, 150), hole(300, 340), hole(400, 460), hole(500, 600)})
	p := partition(t, tr)
	wantAt(t, p, map[int64]uint64{
		0: 1, 9: 1, 10: 1, 99: 1, // a hole at the very start
		100: 2, 149: 2, 150: 2,
		200: 0, 249: 0, 250: 3, // a gap that is no recorded hole
		300: 0, 339: 0, 340: 0, 350: 4, // a hole with a gap behind it
		400: 5, 439: 5, 445: 5, 499: 5, // a segment that begins inside the hole
		500: 0, 599: 0, // nothing behind the last hole
	})
	if p.TieredEnd() != 500 {
		t.Errorf("end %d, want 500", p.TieredEnd())
	}
	tr.Apply(hole(195, 240), hole(240, 245), hole(245, 250), hole(245, 250))
	wantAt(t, partition(t, tr), map[int64]uint64{195: 2, 200: 3, 240: 3, 249: 3})
	if n := len(partition(t, tr).Holes()); n != 8 {
		t.Errorf("%d holes, want 8: one was recorded twice", n)
	}
	wantAt(t, p, map[int64]uint64{200: 0}) // the older view
}

// What --skip-damaged gave up may come later: then it is read like any other range, and only the rest stays a hole.
func TestSegmentsHealHoles(t *testing.T) {
	hole := HoleRecorded{part0, Hole{100, 200, "damaged"}}
	tr := build(t, []Change{startIs(0)}, finished(seg(1, 0, 99, 0, 0), seg(2, 200, 299, 0, 200)), []Change{hole})
	holes := func(want ...Hole) {
		t.Helper()
		if got := partition(t, tr).Holes(); !slices.Equal(got, want) {
			t.Errorf("holes %v, want %v", got, want)
		}
	}
	holes(Hole{100, 200, "damaged"})
	tr.Apply(finished(seg(3, 130, 149, 0, 130))...)
	holes(Hole{100, 130, "damaged"}, Hole{150, 200, "damaged"})
	wantAt(t, partition(t, tr), map[int64]uint64{99: 1, 100: 3, 130: 3, 149: 3, 150: 2, 200: 2})
	tr.Apply(added(seg(4, 90, 210, 0, 90))...)
	holes(Hole{100, 130, "damaged"}, Hole{150, 200, "damaged"})
	tr.Apply(SegmentUpdated{Partition: part0, ID: id(4), State: CopyFinished})
	holes()
	wantAt(t, partition(t, tr), map[int64]uint64{89: 1, 100: 4, 129: 4, 150: 4, 199: 4, 211: 2})
	wantRange(t, walk(t, partition(t, tr), 0), 0, 300)
	// What is gone is a hole again, not a gap.
	tr.Apply(deleted(4, 3)...)
	holes(Hole{100, 200, "damaged"})
	tr.Apply(lineageIs(0, 0, 1, 150))
	tr.Apply(finished(seg(5, 100, 199, 0, 100), seg(6, 140, 160, 0, 140, 1, 150))...)
	holes(Hole{100, 140, "damaged"}, Hole{161, 200, "damaged"})
}

func TestMisfitNeighbours(t *testing.T) {
	p := partition(t, build(t, finished(seg(1, 0, 99, 0, 0), seg(2, 101, 199, 0, 101))))
	wantAt(t, p, map[int64]uint64{99: 1, 100: 0, 101: 2})
	p = partition(t, build(t, finished(seg(1, 0, 99, 0, 0), seg(2, 95, 199, 0, 95))))
	wantRange(t, walk(t, p, 0), 0, 200)
}

// Compaction may leave a segment's last offset below the next one's base and its first batch above its own: coverage is
// by the metadata, so no look-up falls between.
func TestCoverageIsWhatTheMetadataClaims(t *testing.T) {
	p := partition(t, build(t, finished(seg(1, 0, 99, 0, 0), seg(2, 100, 199, 0, 100))))
	wantAt(t, p, map[int64]uint64{96: 1, 99: 1, 100: 2, 104: 2})
}

func TestReadable(t *testing.T) {
	tr := build(t, finished(seg(1, 0, 99, 0, 0)), added(seg(2, 100, 199, 0, 100)))
	before := partition(t, tr)
	if !before.Readable(id(1)) || before.Readable(id(2)) || before.Readable(id(3)) {
		t.Error("readable is exactly the finished copy")
	}
	tr.Apply(SegmentUpdated{Partition: part0, ID: id(1), State: DeleteStarted})
	if partition(t, tr).Readable(id(1)) {
		t.Error("a segment whose bytes are being deleted is still readable")
	}
	if !before.Readable(id(1)) {
		t.Error("an older view has changed")
	}
}
