package tier

import (
	"slices"
	"testing"
)

func TestOverlapAfterCleanLeaderChange(t *testing.T) {
	a, b := seg(1, 0, 50, 5, 0, 7, 15), seg(2, 14, 150, 5, 14, 7, 15, 9, 100)
	for name, groups := range map[string][][]Change{
		"derived":          {finished(a, b)},
		"derived, swapped": {finished(b, a)},
		"told":             {{lineageIs(5, 0, 7, 15, 9, 100)}, finished(a, b)},
		"told and trimmed": {{lineageIs(7, 51, 9, 100)}, finished(a, b)},
		"told, future":     {{lineageIs(5, 0, 7, 15, 9, 100, 12, 151)}, finished(a, b)},
		"with empty ones":  {{lineageIs(5, 0, 6, 15, 7, 15, 8, 100, 9, 100)}, finished(a, b)},
		"loaded":           {{SegmentLoaded{inState(a, CopyFinished)}, SegmentLoaded{inState(b, CopyFinished)}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := partition(t, build(t, groups...))
			wantRange(t, walk(t, p, 0), 0, 151)
			s, ok := p.Find(51)
			check(t, "after 50", s, ok, 2)
			if e, ok := p.EpochFor(14); e != 5 || !ok {
				t.Errorf("offset 14 is of epoch %d %v, want 5", e, ok)
			}
			if e, _ := p.EpochFor(15); e != 7 {
				t.Errorf("offset 15 is of epoch %d, want 7", e)
			}
		})
	}
}

func inState(s Segment, state State) Segment {
	s.State = state
	return s
}

// After the first segment is gone and the broker has pruned its checkpoint, the second one must still be readable, and
// deletable.
func TestPrunedLineageKeepsWhatIsLeft(t *testing.T) {
	tr := build(t, finished(seg(1, 0, 50, 5, 0, 7, 15), seg(2, 14, 150, 5, 14, 7, 15, 9, 100)),
		append([]Change{startIs(51), lineageIs(7, 51, 9, 100)}, deleted(1)...))
	p := partition(t, tr)
	wantRange(t, walk(t, p, 51), 51, 151)
	if !p.Readable(id(2)) {
		t.Error("the second segment dropped out of the lineage")
	}
	if r := tr.Apply(deleted(2)...); len(r) != 0 {
		t.Errorf("its delete was refused: %v", r)
	}
}

func TestDivergentSegmentsAreNeverGiven(t *testing.T) {
	lost := seg(9, 100, 199, 3, 100)
	for name, c := range map[string]struct {
		groups [][]Change
		end    int64
		want   map[int64]uint64
	}{
		"the told lineage does not know its epoch": {
			[][]Change{{lineageIs(2, 0, 4, 100)}, finished(seg(1, 0, 99, 2, 0), lost)}, 100, map[int64]uint64{99: 1, 100: 0, 150: 0}},
		"a later epoch took over below its end": {
			[][]Change{finished(seg(1, 0, 99, 2, 0), lost, seg(2, 100, 180, 4, 100))}, 181, map[int64]uint64{99: 1, 100: 2, 180: 2, 181: 0, 199: 0}},
		"it came last": {
			[][]Change{finished(seg(1, 0, 99, 2, 0), seg(2, 100, 180, 4, 100), lost)}, 181, map[int64]uint64{99: 1, 150: 2, 190: 0}},
		"it shares its first half": {
			[][]Change{finished(seg(1, 0, 99, 3, 0), lost, seg(2, 100, 250, 3, 100, 4, 150))}, 251, map[int64]uint64{120: 2, 149: 2, 170: 2}},
		"its bytes alone reach the range": {
			[][]Change{finished(seg(1, 0, 99, 3, 0), lost, seg(2, 150, 250, 4, 150))}, 251, map[int64]uint64{99: 1, 120: 0, 150: 2}},
		"the winner does not touch it": {
			[][]Change{finished(seg(1, 0, 99, 2, 0), seg(9, 40, 60, 3, 40), seg(2, 100, 199, 4, 100))}, 200, map[int64]uint64{39: 1, 50: 1, 61: 1, 100: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := partition(t, build(t, c.groups...))
			wantAt(t, p, c.want)
			if p.TieredEnd() != c.end {
				t.Errorf("end %d, want %d", p.TieredEnd(), c.end)
			}
			if p.Readable(id(9)) {
				t.Error("the lost segment counts as readable")
			}
			for _, s := range p.Segments(false) {
				if s.ID == id(9) {
					t.Error("the lost segment is listed as readable")
				}
			}
			for o := range int64(260) {
				for e := range int32(6) {
					if s, ok := p.FindEpoch(e, o); ok && s.ID == id(9) {
						t.Fatalf("FindEpoch(%d, %d) gives the lost segment", e, o)
					}
				}
			}
		})
	}
}

func TestEpochsWithoutRecords(t *testing.T) {
	for name, s := range map[string]Segment{
		"named by the lineage only": seg(1, 0, 99, 0, 0, 3, 50),
		"named by both":             seg(1, 0, 99, 0, 0, 1, 50, 2, 50, 3, 50),
	} {
		p := partition(t, build(t, []Change{lineageIs(0, 0, 1, 50, 2, 50, 3, 50)}, finished(s)))
		if got, ok := p.Find(60); !ok || got.ID != id(1) {
			t.Errorf("%s: offset 60 is not found", name)
		}
		if p.TieredEnd() != 100 {
			t.Errorf("%s: end %d, want 100", name, p.TieredEnd())
		}
	}
}

func TestDerivedLineage(t *testing.T) {
	for name, c := range map[string]struct {
		changes [][]Change
		want    []int64
	}{
		"nothing finished":                 {[][]Change{added(seg(1, 0, 99, 1, 0))}, nil},
		"one epoch, several segments":      {[][]Change{finished(seg(1, 0, 99, 1, 0), seg(2, 100, 199, 1, 100))}, []int64{1, 0}},
		"epochs meet at a segment border":  {[][]Change{finished(seg(1, 0, 99, 1, 0), seg(2, 100, 199, 4, 100))}, []int64{1, 0, 4, 100}},
		"an epoch begins inside a segment": {[][]Change{finished(seg(1, 0, 99, 1, 0), seg(2, 100, 199, 1, 100, 4, 120), seg(3, 200, 299, 4, 200))}, []int64{1, 0, 4, 120}},
		"a gap":                            {[][]Change{finished(seg(1, 0, 99, 1, 0), seg(2, 150, 199, 4, 150))}, []int64{1, 0, 4, 150}},
		"the log start cut the first":      {[][]Change{finished(seg(1, 0, 99, 3, 40), seg(2, 100, 199, 3, 100))}, []int64{3, 40}},
		"only the tail is left":            {[][]Change{finished(seg(1, 0, 99, 1, 0), seg(2, 100, 199, 4, 100)), deleted(1)}, []int64{4, 100}},
		"told, continued downwards":        {[][]Change{{lineageIs(4, 150, 6, 200)}, finished(seg(1, 0, 99, 1, 0), seg(2, 100, 199, 4, 100))}, []int64{1, 0, 4, 100, 6, 200}},
		"told, then forgotten again":       {[][]Change{{lineageIs(9, 0)}, finished(seg(1, 0, 99, 1, 0)), {lineageIs()}}, []int64{1, 0}},
		"a dead end in a gap":              {[][]Change{finished(seg(1, 0, 49, 1, 0), seg(2, 50, 89, 2, 50), seg(3, 50, 95, 1, 50), seg(4, 100, 199, 3, 100))}, []int64{1, 0, 2, 50, 3, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			got := partition(t, build(t, c.changes...)).Lineage()
			if !slices.Equal(got, epochList(c.want...)) {
				t.Errorf("lineage %v, want %v", got, c.want)
			}
		})
	}
}

func TestLineageIsFollowedWhenItChanges(t *testing.T) {
	tr := build(t, finished(seg(1, 0, 99, 1, 0), seg(2, 100, 199, 1, 100)))
	wantAt(t, partition(t, tr), map[int64]uint64{150: 2})
	// An unclean election: the log now goes over to epoch 2 at 100, and what epoch 1 wrote there is lost.
	tr.Apply(lineageIs(1, 0, 2, 100))
	wantAt(t, partition(t, tr), map[int64]uint64{50: 1, 150: 0})
	if end := partition(t, tr).TieredEnd(); end != 100 {
		t.Errorf("end %d, want 100", end)
	}
	tr.Apply(finished(seg(3, 100, 149, 2, 100))...)
	wantAt(t, partition(t, tr), map[int64]uint64{120: 3, 150: 0})
}

// The brokers' bounds move each second, which says nothing new of the lineage: it is not derived again.
func TestBoundsAloneLeaveTheLineageAlone(t *testing.T) {
	tr := build(t, finished(flapping(1, 0, 0, 2000)))
	start := int64(0)
	if n := testing.AllocsPerRun(20, func() { start++; tr.Apply(startIs(start)) }); n > 50 {
		t.Errorf("%v allocations for new bounds of a partition of 2,000 epochs", n)
	}
}
