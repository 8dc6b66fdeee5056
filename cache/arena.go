package cache

import (
	"fmt"
	"math/bits"

	"coldtap/internal/invariants"
)

// parts is how many small slots a slab splits into. With 4 MiB slabs a small slot has 256 KiB: the class that segment
// tails, compacted and quiet partitions fall into.
const parts = 16

// arena is the memory of all chunks: slabs of one size, each of which may be split into small slots. Cache.mu guards
// it.
type arena struct {
	mem       mapping
	slabSize  int
	smallSize int
	slabs     []slab
	free      []int32 // whole slabs; the one freed last goes first, its pages are warm
	partial   []int32 // split slabs with free parts
	used      int64   // bytes of slots in use
}

// slab is the state of one slab.
type slab struct {
	split    bool
	freeMask uint16        // of a split slab: bit set = part free
	at       int32         // of a split slab with free parts: its index in arena.partial
	owners   [parts]*Chunk // of a split slab: the chunk of each part; nil while it is loading
}

// slot is a slab or a part of one.
type slot struct {
	slab int32
	part int8 // whole when negative
}

const whole = -1

func (p slot) small() bool { return p.part >= 0 }

// newArena maps memory/slabSize slabs.
func newArena(memory int64, slabSize int) (*arena, error) {
	n := memory / int64(slabSize)
	mem, err := newMapping(int(n), slabSize)
	if err != nil {
		return nil, fmt.Errorf("map %d slabs of %d bytes: %w", n, slabSize, err)
	}
	a := &arena{mem: mem, slabSize: slabSize, smallSize: slabSize / parts, slabs: make([]slab, n), free: make([]int32, n)}
	for i := range a.free {
		a.free[i] = int32(int(n) - 1 - i)
	}
	return a, nil
}

// isSmall says whether a chunk of n bytes needs a small slot only.
func (a *arena) isSmall(n int) bool { return n <= a.smallSize }

func (a *arena) size(p slot) int64 {
	if p.small() {
		return int64(a.smallSize)
	}
	return int64(a.slabSize)
}

// bytes gives the first n bytes of a slot, with no capacity beyond them.
func (a *arena) bytes(p slot, n int) []byte {
	b := a.mem.slab(int(p.slab), a.slabSize)
	from := 0
	if p.small() {
		from = int(p.part) * a.smallSize
	}
	return b[from : from+n : from+n]
}

// allocate gives a free slot. A small one comes from a slab that is split already, if one has a free part.
func (a *arena) allocate(small bool) (slot, bool) {
	if small && len(a.partial) > 0 {
		return a.allocatePart(a.partial[len(a.partial)-1]), true
	}
	if len(a.free) == 0 {
		return slot{}, false
	}
	n := a.free[len(a.free)-1]
	a.free = a.free[:len(a.free)-1]
	if !small {
		a.used += int64(a.slabSize)
		return slot{n, whole}, true
	}
	s := &a.slabs[n]
	s.split, s.freeMask, s.at = true, 1<<parts-1, int32(len(a.partial))
	a.partial = append(a.partial, n)
	return a.allocatePart(n), true
}

func (a *arena) allocatePart(n int32) slot {
	s := &a.slabs[n]
	part := bits.TrailingZeros16(s.freeMask)
	s.freeMask &^= 1 << part
	if s.freeMask == 0 {
		a.unlistPartial(s)
	}
	a.used += int64(a.smallSize)
	return slot{n, int8(part)}
}

// unlistPartial takes a split slab out of the list of those with free parts.
func (a *arena) unlistPartial(s *slab) {
	last := a.partial[len(a.partial)-1]
	a.partial[s.at] = last
	a.slabs[last].at = s.at
	a.partial = a.partial[:len(a.partial)-1]
}

// release takes a slot back. A slab whose parts are all free is whole again.
func (a *arena) release(p slot) {
	invariants.Scribble(a.bytes(p, int(a.size(p))))
	a.used -= a.size(p)
	if !p.small() {
		a.free = append(a.free, p.slab)
		return
	}
	s := &a.slabs[p.slab]
	s.owners[p.part] = nil
	if s.freeMask == 0 {
		s.at = int32(len(a.partial))
		a.partial = append(a.partial, p.slab)
	}
	s.freeMask |= 1 << p.part
	if s.freeMask == 1<<parts-1 {
		a.unlistPartial(s)
		s.split = false
		a.free = append(a.free, p.slab)
	}
}

// setOwner records the chunk of a small slot, so that the chunks of a slab can be evicted together.
func (a *arena) setOwner(p slot, ch *Chunk) {
	if p.small() {
		a.slabs[p.slab].owners[p.part] = ch
	}
}

// slabsInUse counts slabs that are in use, wholly or in part.
func (a *arena) slabsInUse() int { return len(a.slabs) - len(a.free) }

func (a *arena) total() int64 { return int64(len(a.slabs)) * int64(a.slabSize) }

// unmap gives the memory back to the system. Nothing may be in use.
func (a *arena) unmap() {
	a.mem.close()
	a.slabs, a.free, a.partial = nil, nil, nil
}
