package tier

import (
	"iter"
	"math"
	"slices"
	"sort"
)

// leafMax bounds what one change copies: a leaf (1 or 2 KiB at 128 entries) and the list of leaves (80 pointers at
// 10,000 entries), where a flat slice of 10,000 would copy 80 KB for every segment event.
const leafMax = 128

// leaf is a part of a cowList. Only the Apply whose generation it carries may write to it.
type leaf[E any] struct {
	generation uint64
	items      []E
	reach      int64 // no item reaches further; an item that is gone may have
}

// cowList is a sorted list that is copied on write: versions share their leaves, so that a copy is cheap, and a copy
// that is changed under a new generation leaves all others as they were. The caller keeps it sorted. Reading needs no
// lock.
type cowList[E any] struct {
	leaves     []*leaf[E]
	size       int
	generation uint64
	reach      func(E) int64 // how far an entry reaches, for downReaching; nil: it is not used
}

func (s *cowList[E]) reachOf(e E) int64 {
	if s.reach == nil {
		return 0
	}
	return s.reach(e)
}

// position is a place in a cowList: before the entry of that index in that leaf. item may equal the leaf's length (the
// end of the leaf).
type position struct{ leaf, item int }

// seek finds the first entry for which before is false; before must be true for a prefix of the list.
func (s *cowList[E]) seek(before func(*E) bool) position {
	i := sort.Search(len(s.leaves), func(i int) bool { return !before(&s.leaves[i].items[0]) })
	if i == 0 {
		return position{}
	}
	items := s.leaves[i-1].items
	return position{i - 1, sort.Search(len(items), func(k int) bool { return !before(&items[k]) })}
}

// at gives the entry at p, or nil behind the last one.
func (s *cowList[E]) at(p position) *E {
	if p.leaf < len(s.leaves) && p.item == len(s.leaves[p.leaf].items) {
		p = position{p.leaf + 1, 0}
	}
	if p.leaf >= len(s.leaves) {
		return nil
	}
	return &s.leaves[p.leaf].items[p.item]
}

// last gives the greatest entry, or nil.
func (s *cowList[E]) last() *E {
	if s.size == 0 {
		return nil
	}
	items := s.leaves[len(s.leaves)-1].items
	return &items[len(items)-1]
}

// all yields the entries ascending.
func (s *cowList[E]) all() iter.Seq[E] { return s.upFrom(position{}) }

// upFrom yields the entry at p and those behind it, ascending.
func (s *cowList[E]) upFrom(p position) iter.Seq[E] {
	return func(yield func(E) bool) {
		for i := p.leaf; i < len(s.leaves); i++ {
			items := s.leaves[i].items
			if i == p.leaf {
				items = items[p.item:]
			}
			for _, e := range items {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// downFrom yields the entries before p, descending.
func (s *cowList[E]) downFrom(p position) iter.Seq[E] { return s.downReaching(p, math.MinInt64) }

// downReaching is downFrom that passes over leaves of which nothing reaches limit: one entry that reaches far makes a
// search walk through its own leaf, and not through all behind it (120 µs at 10,000 entries).
func (s *cowList[E]) downReaching(p position, limit int64) iter.Seq[E] {
	return func(yield func(E) bool) {
		for i := min(p.leaf, len(s.leaves)-1); i >= 0; i-- {
			items := s.leaves[i].items
			if i == p.leaf {
				items = items[:p.item]
			}
			if s.leaves[i].reach < limit {
				continue
			}
			for k := len(items) - 1; k >= 0; k-- {
				if !yield(items[k]) {
					return
				}
			}
		}
	}
}

// writable makes the list of leaves, and leaf i of it, writable for a generation.
func (s *cowList[E]) writable(generation uint64, i int) *leaf[E] {
	if s.generation != generation {
		s.leaves = slices.Clone(s.leaves)
		s.generation = generation
	}
	l := s.leaves[i]
	if l.generation != generation {
		l = &leaf[E]{generation, slices.Clone(l.items), l.reach}
		s.leaves[i] = l
	}
	return l
}

// insert puts e before the entry at p.
func (s *cowList[E]) insert(generation uint64, p position, e E) {
	if len(s.leaves) == 0 {
		s.leaves, s.generation = []*leaf[E]{{generation, []E{e}, s.reachOf(e)}}, generation
		s.size = 1
		return
	}
	s.size++
	l := s.writable(generation, p.leaf)
	if len(l.items) < leafMax {
		l.items = slices.Insert(l.items, p.item, e)
		l.reach = max(l.reach, s.reachOf(e))
		return
	}
	// Behind the very last entry a new leaf begins, so that a log that only grows has full leaves; elsewhere halves.
	cut := leafMax / 2
	if p.leaf == len(s.leaves)-1 && p.item == leafMax {
		cut = leafMax
	}
	right := &leaf[E]{generation: generation, items: slices.Clone(l.items[cut:])}
	clear(l.items[cut:])
	l.items = l.items[:cut]
	if p.item <= cut && cut < leafMax {
		l.items = slices.Insert(l.items, p.item, e)
	} else {
		right.items = slices.Insert(right.items, p.item-cut, e)
	}
	for _, half := range []*leaf[E]{l, right} {
		half.reach = 0
		for _, e := range half.items {
			half.reach = max(half.reach, s.reachOf(e))
		}
	}
	s.leaves = slices.Insert(s.leaves, p.leaf+1, right)
}

// set replaces the entry at p, which must exist.
func (s *cowList[E]) set(generation uint64, p position, e E) {
	p = s.onEntry(p)
	l := s.writable(generation, p.leaf)
	l.items[p.item] = e
	l.reach = max(l.reach, s.reachOf(e))
}

// remove takes the entry at p out, which must exist.
func (s *cowList[E]) remove(generation uint64, p position) {
	p = s.onEntry(p)
	s.size--
	l := s.writable(generation, p.leaf)
	if len(l.items) == 1 {
		s.leaves = slices.Delete(s.leaves, p.leaf, p.leaf+1)
		return
	}
	l.items = slices.Delete(l.items, p.item, p.item+1)
	// A neighbour is taken in when both fit in half a leaf: retention that thins out a list doesn't leave crumbs.
	if p.leaf+1 < len(s.leaves) {
		if next := s.leaves[p.leaf+1].items; len(l.items)+len(next) <= leafMax/2 {
			l.items = append(l.items, next...)
			l.reach = max(l.reach, s.leaves[p.leaf+1].reach)
			s.leaves = slices.Delete(s.leaves, p.leaf+1, p.leaf+2)
		}
	}
}

// onEntry gives the position of the entry that begins behind a leaf's end.
func (s *cowList[E]) onEntry(p position) position {
	if p.item == len(s.leaves[p.leaf].items) {
		return position{p.leaf + 1, 0}
	}
	return p
}
