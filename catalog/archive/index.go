package archive

import (
	"hash/maphash"
	"math/bits"

	"coldtap/segment"
)

const (
	firstSlots = 64
	// A table is full at 4/5 and grows to 3/2: 10 to 15 bytes an entry, where a map of ids and pointers takes 39.
	fullOf5 = 4
)

// index finds entries by their segments' ids: an open table, whose entries hold their ids themselves. The ids come
// from the bucket, so they are hashed with a seed.
type index struct {
	seed  maphash.Seed
	slots []*entry
	size  int
}

func newIndex() index { return index{seed: maphash.MakeSeed()} }

// home is the slot where the search for an id begins.
func (x *index) home(id segment.UUID) int {
	at, _ := bits.Mul64(maphash.Comparable(x.seed, id), uint64(len(x.slots)))
	return int(at)
}

// find gives the slot of an id, or the free one where it would be. There is always a free one.
func (x *index) find(id segment.UUID) int {
	at := x.home(id)
	for x.slots[at] != nil && x.slots[at].seg.ID != id {
		at = x.after(at)
	}
	return at
}

func (x *index) after(at int) int {
	if at++; at < len(x.slots) {
		return at
	}
	return 0
}

// get gives the entry of an id, or nil.
func (x *index) get(id segment.UUID) *entry {
	if x.size == 0 {
		return nil
	}
	return x.slots[x.find(id)]
}

// add enters an entry whose id is not there. Its id must not change while it is.
func (x *index) add(e *entry) {
	if 5*(x.size+1) > fullOf5*len(x.slots) {
		old := x.slots
		x.slots = make([]*entry, max(firstSlots, len(old)*3/2))
		for _, o := range old {
			if o != nil {
				x.slots[x.find(o.seg.ID)] = o
			}
		}
	}
	x.slots[x.find(e.seg.ID)] = e
	x.size++
}

// remove takes an id out that is there, and moves those up that lie behind it only because it was in their way.
func (x *index) remove(id segment.UUID) {
	free := x.find(id)
	x.size--
	n := len(x.slots)
	for at := x.after(free); x.slots[at] != nil; at = x.after(at) {
		if home := x.home(x.slots[at].seg.ID); (at-home+n)%n >= (at-free+n)%n {
			x.slots[free] = x.slots[at]
			free = at
		}
	}
	x.slots[free] = nil
}

// all yields the entries, in no order. They must not be added or removed meanwhile.
func (x *index) all(yield func(*entry) bool) {
	for _, e := range x.slots {
		if e != nil && !yield(e) {
			return
		}
	}
}
