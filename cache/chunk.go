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
	place  place
	landed time.Time // when the load ended

	// refs counts holders; the cache is one of them while home is not nowhere. It never leaves zero again.
	refs atomic.Int32
	// uses is 0 while only read-ahead asked for the chunk, 1 after one use, 2 after more: a second life in the window.
	uses atomic.Int32
	// verified packs the range whose batch CRCs were checked: from in the high half, to in the low.
	verified atomic.Uint64

	// Guarded by Cache.mu.
	home           home
	warmer, colder *Chunk // neighbours in the list of home
	sibling, elder *Chunk // next and previous chunk of the same segment
}

// home says which list holds a chunk.
type home uint8

const (
	nowhere home = iota // not cached: held by readers only, or dead
	inWindow
	inMain // handed to ristretto, which may still be making up its mind
)

// Bytes are the chunk's bytes. Read-only.
func (ch *Chunk) Bytes() []byte { return ch.bytes }

// Key names the chunk.
func (ch *Chunk) Key() Key { return ch.key }

// Retain takes one more reference. The caller must hold one.
func (ch *Chunk) Retain() {
	if ch.refs.Add(1) <= 1 {
		panic("cache: chunk retained by somebody who does not hold it")
	}
}

// Release gives a reference back. The bytes must not be touched afterwards.
func (ch *Chunk) Release() {
	switch n := ch.refs.Add(-1); {
	case n == 0:
		ch.cache.free(ch)
	case n < 0:
		panic("cache: chunk released twice")
	case n == 1 && ch.cache.waiting.Load() > 0:
		// Only the cache holds it now: whoever waits for a slab may take it. The count fell before the look at waiting,
		// and who waits first says so and then looks at the counts; so one of the two sees the other.
		ch.cache.wakeFirst()
	}
}

// tryAcquire takes a reference unless the chunk is dead. A look-up without a lock may come upon a chunk that is being
// evicted; a plain increment would bring it back to life with its slab in other hands.
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

// used notes a use. The count saturates so that hits on a hot chunk write nothing.
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
