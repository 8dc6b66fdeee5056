package tier

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Versions that were kept must stay as they were while later generations change in place and share leaves with them.
func TestListVersionsStayAsTheyWere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type version struct {
		list cowList[int]
		want []int
	}
	var kept []version
	// Most reach a little further than they begin, some very far.
	reach := func(v int) int64 {
		if v%97 == 0 {
			return int64(v + 2000)
		}
		return int64(v + v%7)
	}
	s := cowList[int]{reach: reach}
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
		if got := slices.Collect(v.list.all()); !slices.Equal(got, v.want) {
			t.Fatalf("version %d changed: %d entries, want %d", i, len(got), len(v.want))
		}
		if v.list.size != len(v.want) {
			t.Fatalf("version %d counts %d entries, has %d", i, v.list.size, len(v.want))
		}
		from := rng.IntN(4000)
		cut, _ := slices.BinarySearch(v.want, from)
		p := v.list.seek(func(e *int) bool { return *e < from })
		if got := slices.Collect(v.list.upFrom(p)); !slices.Equal(got, v.want[cut:]) {
			t.Fatalf("version %d from %d upwards: %v", i, from, got)
		}
		down := slices.Collect(v.list.downFrom(p))
		slices.Reverse(down)
		if !slices.Equal(down, v.want[:cut]) {
			t.Fatalf("version %d from %d downwards: %v", i, from, down)
		}
		limit := int64(from + rng.IntN(100))
		short := func(v int) bool { return reach(v) < limit }
		all := slices.DeleteFunc(slices.Clone(v.want[:cut]), short)
		slices.Reverse(all)
		if got := slices.DeleteFunc(slices.Collect(v.list.downReaching(p, limit)), short); !slices.Equal(got, all) {
			t.Fatalf("version %d from %d downwards, reaching %d: %v, want %v", i, from, limit, got, all)
		}
	}
}

// One entry that reaches over all others does not make a search walk through them.
func TestFarReachCostsOneLeaf(t *testing.T) {
	s := cowList[int]{reach: func(v int) int64 {
		if v == 5 {
			return 1 << 40
		}
		return int64(v)
	}}
	const n = 100 * leafMax
	for v := range n {
		s.insert(1, s.seek(func(e *int) bool { return *e < v }), v)
	}
	seen := 0
	for range s.downReaching(position{leaf: len(s.leaves)}, n) {
		seen++
	}
	if seen > leafMax {
		t.Errorf("%d of %d entries were looked at", seen, n)
	}
}

// A leaf that takes its neighbour in reaches as far as that did.
func TestReachOfMergedLeaves(t *testing.T) {
	s := cowList[int]{reach: func(v int) int64 { return int64(v) }}
	at := func(v int) position { return s.seek(func(e *int) bool { return *e < v }) }
	for v := range 2 * leafMax {
		s.insert(1, at(v), v)
	}
	const last = 2*leafMax - 1
	for v := leafMax + 1; v < last; v++ {
		s.remove(1, at(v))
	}
	for v := leafMax - 1; len(s.leaves) > 1; v-- {
		s.remove(1, at(v))
	}
	for v := range s.downReaching(position{leaf: 1}, last) {
		if v == last {
			return
		}
	}
	t.Error("the last entry is not found")
}

// A leaf takes its neighbour in when both fit in half a leaf, and not before.
func TestThinnedLeavesMerge(t *testing.T) {
	var s cowList[int]
	at := func(v int) position { return s.seek(func(e *int) bool { return *e < v }) }
	for v := range 2 * leafMax {
		s.insert(1, at(v), v)
	}
	for v := leafMax + 20; v < 2*leafMax; v++ {
		s.remove(1, at(v))
	}
	for v := range leafMax - 10 {
		s.remove(1, at(v))
		if merged := len(s.leaves) == 1; merged != (s.size <= leafMax/2) {
			t.Fatalf("%d entries in %d leaves", s.size, len(s.leaves))
		}
	}
}

func TestListThatGrowsHasFullLeaves(t *testing.T) {
	var s cowList[int]
	for v := range 100 * leafMax {
		s.insert(1, s.seek(func(e *int) bool { return *e < v }), v)
	}
	if len(s.leaves) != 100 {
		t.Errorf("%d leaves for %d entries: a growing log wastes memory", len(s.leaves), s.size)
	}
}
