package cache

import (
	"sync/atomic"
	"time"
)

// Chunk is a reference to loaded bytes. They stay valid and unchanged until Release, whatever the cache does.
// All methods may be called concurrently by holders.
type Chunk struct {
	cache  *Cache
	key    Key
	hash   uint64
	bytes  []byte
	slot   slot
	landed time.Time // when the load ended

	// refs counts holders; the cache is one of them unless residency is notCached. Once it is zero, it stays zero.
	refs atomic.Int32
	// uses is 0 while no reader has asked for the chunk (read-ahead brought it), 1 after one use, and 2 after more, for
	// which it gets a second round in the window.
	uses atomic.Int32
	// verified packs the range whose batch CRCs were checked: from in the high half, to in the low.
	verified atomic.Uint64

	// Guarded by Cache.mu.
	residency      residency
	warmer, colder *Chunk // neighbours in the list that it is in
	sibling, elder *Chunk // next and previous chunk of the same segment
}

// Bytes are the chunk's bytes. Read-only.
func (ch *Chunk) Bytes() []byte { return ch.bytes }

// Key names the chunk.
func (ch *Chunk) Key() Key { return ch.key }

// Retain takes one more reference. The caller must hold one.
func (ch *Chunk) Retain() {
	if ch.refs.Add(1) <= 1 {
		panic("cache: chunk retained by a caller that does not hold it")
	}
}

// Release gives a reference back. The bytes must not be touched afterwards.
func (ch *Chunk) Release() {
	switch n := ch.refs.Add(-1); {
	case n == 0:
		c := ch.cache // which has dropped it before
		c.mu.Lock()
		c.freeSlotLocked(ch)
		c.mu.Unlock()
	case n < 0:
		panic("cache: chunk released twice")
	case n == 1 && ch.cache.waiting.Load() > 0:
		// Only the cache holds it now, so a load that waits for a slab may evict it. The count falls before waiting is
		// read; a load first sets waiting and then reads the counts; so one of the two sees the other.
		ch.cache.wakeFirst()
	}
}

// tryAcquire takes a reference unless there is none left. A look-up may find a chunk that is being evicted at the same
// time; a plain increment would make a holder of it when its slab already belongs to another chunk.
func (ch *Chunk) tryAcquire() bool {
	for {
		n := ch.refs.Load()
		if n <= 0 {
			return false
		}
		if ch.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// used counts a use. The count ends at 2, so that hits on a hot chunk write nothing.
func (ch *Chunk) used() {
	switch ch.uses.Load() {
	case 0:
		if ch.uses.CompareAndSwap(0, 1) {
			ch.cache.unread.Add(-1)
		}
	case 1:
		ch.uses.Store(2)
	}
}

// Verified says whether [from, to) of the chunk is within the range whose batch CRCs were checked.
func (ch *Chunk) Verified(from, to int) bool {
	if from >= to {
		return true
	}
	v := ch.verified.Load()
	return from >= int(v>>32) && to <= int(uint32(v))
}

// MarkVerified extends the checked range by [from, to). Of two ranges that don't touch, the larger is remembered.
func (ch *Chunk) MarkVerified(from, to int) {
	from, to = max(from, 0), min(to, len(ch.bytes))
	if from >= to {
		return
	}
	for {
		v := ch.verified.Load()
		a, b := int(v>>32), int(uint32(v))
		na, nb := from, to
		switch {
		case a == b: // nothing checked so far
		case from <= b && to >= a:
			na, nb = min(a, from), max(b, to)
		case b-a >= to-from:
			return
		}
		if na == a && nb == b || ch.verified.CompareAndSwap(v, uint64(na)<<32|uint64(nb)) {
			return
		}
	}
}
