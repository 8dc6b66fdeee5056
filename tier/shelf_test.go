package tier

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Versions that were kept must stay as they were while later generations change in place and share leaves with them.
func TestShelfVersionsStayAsTheyWere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type version struct {
		shelf shelf[int]
		want  []int
	}
	var kept []version
	var s shelf[int]
	var want []int
	for generation := uint64(1); generation <= 200; generation++ {
		for range rng.IntN(40) {
			v := rng.IntN(4000)
			grow := generation < 120 || rng.IntN(5) == 0
			p := s.seek(func(e *int) bool { return *e < v })
			i, found := slices.BinarySearch(want, v)
			if e := s.at(p); found != (e != nil && *e == v) {
				t.Fatalf("seek(%d) and the plain list disagree", v)
			}
			switch {
			case grow && !found:
				s.insert(generation, p, v)
				want = slices.Insert(want, i, v)
			case found && grow:
				s.set(generation, p, v)
			case i < len(want):
				s.remove(generation, p)
				want = slices.Delete(want, i, i+1)
			}
		}
		kept = append(kept, version{s, slices.Clone(want)})
	}
	for i, v := range kept {
		if got := slices.Collect(v.shelf.all()); !slices.Equal(got, v.want) {
			t.Fatalf("version %d changed: %d entries, want %d", i, len(got), len(v.want))
		}
		if v.shelf.size != len(v.want) {
			t.Fatalf("version %d counts %d entries, has %d", i, v.shelf.size, len(v.want))
		}
		from := rng.IntN(4000)
		cut, _ := slices.BinarySearch(v.want, from)
		p := v.shelf.seek(func(e *int) bool { return *e < from })
		if got := slices.Collect(v.shelf.upFrom(p)); !slices.Equal(got, v.want[cut:]) {
			t.Fatalf("version %d from %d upwards: %v", i, from, got)
		}
		down := slices.Collect(v.shelf.downFrom(p))
		slices.Reverse(down)
		if !slices.Equal(down, v.want[:cut]) {
			t.Fatalf("version %d from %d downwards: %v", i, from, down)
		}
	}
}

func TestShelfThatGrowsHasFullLeaves(t *testing.T) {
	var s shelf[int]
	for v := range 100 * leafMax {
		s.insert(1, s.seek(func(e *int) bool { return *e < v }), v)
	}
	if len(s.leaves) != 100 {
		t.Errorf("%d leaves for %d entries: a growing log wastes memory", len(s.leaves), s.size)
	}
}
