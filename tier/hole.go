package tier

import (
	"cmp"
	"slices"
	"sort"
)

// Hole is a range [From, To) that the offloader gave up (--skip-damaged): readers pass over it. Segments that hold
// parts of it may come later all the same, and then those parts are healed.
type Hole struct {
	From, To int64
	Reason   string
}

// holes are a partition's, ascending; they may touch and overlap.
type holes []Hole

// with gives a new list that has h too; added is false when it is there already.
func (hs holes) with(h Hole) (list holes, added bool) {
	i, found := slices.BinarySearchFunc(hs, h, func(a, b Hole) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	if found {
		return hs, false
	}
	return slices.Insert(slices.Clone(hs), i, h), true
}

// past gives the first offset from offset on that is in no hole.
func (hs holes) past(offset int64) int64 {
	i := sort.Search(len(hs), func(i int) bool { return hs[i].From > offset })
	for _, h := range hs[:i] {
		offset = max(offset, h.To)
	}
	for ; i < len(hs) && hs[i].From <= offset; i++ {
		offset = max(offset, hs[i].To)
	}
	return offset
}
