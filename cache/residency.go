package cache

import "time"

// unreadGrace is how long a chunk that read-ahead brought is spared while nobody has read it. A reader that takes
// longer for two chunks does not need them ahead; and without an end, chunks of readers that left would hold their
// slabs for ever.
const unreadGrace = 10 * time.Second

// admitLocked makes a landed chunk a cached one. The cache's reference is counted already.
func (c *Cache) admitLocked(ch *Chunk) {
	c.arena.own(ch.place, ch)
	ch.home = inWindow
	c.window.add(ch, c.arena.size(ch.place))
	c.bySegment.add(ch)
}

// detachLocked takes a cached chunk out of the lists. The cache's reference is the caller's now.
func (c *Cache) detachLocked(ch *Chunk) {
	size := c.arena.size(ch.place)
	switch ch.home {
	case inWindow:
		c.window.remove(ch, size)
	case inMain:
		c.main.remove(ch, size)
	}
	ch.home = nowhere
	c.bySegment.remove(ch)
}

// evictLocked ends a cached chunk if nobody but the cache holds it. From then on tryAcquire refuses it; the caller
// takes it out of the index once Cache.mu is free.
func (c *Cache) evictLocked(ch *Chunk) bool {
	if !ch.refs.CompareAndSwap(1, 0) {
		return false
	}
	c.detachLocked(ch)
	c.endLocked(ch)
	return true
}

// endLocked gives a dead chunk's memory back.
func (c *Cache) endLocked(ch *Chunk) {
	if ch.uses.CompareAndSwap(0, 1) {
		c.unread.Add(-1)
	}
	c.arena.put(ch.place)
	c.wakeFirstLocked()
	c.unmapLocked()
}

// free ends a chunk whose last holder let go after the cache did.
func (c *Cache) free(ch *Chunk) {
	c.mu.Lock()
	c.endLocked(ch)
	c.mu.Unlock()
}

// victimLocked looks for the coldest chunk of a list that may go. Chunks in use are warm by definition, chunks used
// more than once get a second round, and with sparing chunks stay that read-ahead brought a moment ago. usable is asked
// last.
//
// A walk meets each chunk at most twice: those moved to the warm end come again at its end.
func (c *Cache) victimLocked(l *list, sparing bool, usable func(*Chunk) bool) *Chunk {
	now := time.Now()
	ch := l.coldest
	for range 2 * l.n {
		if ch == nil {
			return nil
		}
		next := ch.warmer
		switch uses := ch.uses.Load(); {
		case ch.refs.Load() > 1:
			l.warm(ch)
		case uses > 1:
			ch.uses.Store(1)
			l.warm(ch)
		case sparing && uses == 0 && now.Sub(ch.landed) < unreadGrace:
		case !usable(ch):
		default:
			return ch
		}
		ch = next
	}
	return nil
}

// trimWindow offers to ristretto what no longer fits into the window.
func (c *Cache) trimWindow() {
	c.policy.Lock()
	defer c.policy.Unlock()
	for {
		c.mu.Lock()
		var ch *Chunk
		if c.window.bytes > c.windowBytes {
			ch = c.victimLocked(&c.window, true, anyChunk)
		}
		if ch == nil {
			c.mu.Unlock()
			return
		}
		c.passOn(ch)
	}
}

func anyChunk(*Chunk) bool { return true }

// passOn moves a chunk of the window to ristretto. One that nobody has read is not offered but ends. Called with
// c.policy and c.mu; unlocks c.mu.
func (c *Cache) passOn(ch *Chunk) {
	if ch.uses.Load() == 0 && c.evictLocked(ch) {
		c.mu.Unlock()
		c.metrics.evictions[byWindow].Inc()
		c.shard(ch.hash).remove(ch)
		return
	}
	size := c.arena.size(ch.place)
	c.window.remove(ch, size)
	ch.home = inMain
	c.main.add(ch, size)
	c.mu.Unlock()
	if !c.frequency.offer(ch.hash, ch, size) {
		c.expel(ch)
	}
}

// expel is told that ristretto refuses or drops a chunk. It is called with nil for keys ristretto does not know, and
// for chunks that were taken from it by force; both are nothing to do. A chunk in use goes back into the window
// instead.
func (c *Cache) expel(ch *Chunk) {
	if ch == nil {
		return
	}
	c.mu.Lock()
	switch {
	case ch.home != inMain:
		c.mu.Unlock()
	case c.evictLocked(ch):
		c.mu.Unlock()
		c.metrics.evictions[byFrequency].Inc()
		c.shard(ch.hash).remove(ch)
	default:
		size := c.arena.size(ch.place)
		c.main.remove(ch, size)
		ch.home = inWindow
		c.window.add(ch, size)
		c.mu.Unlock()
	}
}

// makeRoom finds a place, evicting what nobody holds: first what falls out of the window (ristretto chooses between
// that and its own), then the coldest that ristretto has. It waits for no reader and no load. For read-ahead it spares
// what other read-ahead brought.
func (c *Cache) makeRoom(small, ahead bool) (place, bool) {
	c.policy.Lock()
	defer c.policy.Unlock()
	for sparing := true; ; {
		c.mu.Lock()
		if p, ok := c.takeLocked(small); ok {
			c.mu.Unlock()
			return p, true
		}
		usable := anyChunk
		if !small {
			usable = c.yieldsSlabLocked
		}
		ch := c.victimLocked(&c.window, sparing, usable)
		switch {
		case ch != nil && ch.place.small() && !small:
			c.evictSlab(ch.place.slab)
			continue
		case ch != nil:
			c.passOn(ch)
			c.frequency.settle()
			continue
		}
		if ch = c.victimLocked(&c.main, sparing, usable); ch != nil {
			if ch.place.small() && !small {
				c.evictSlab(ch.place.slab)
			} else {
				c.evictByForce(ch)
			}
			continue
		}
		c.mu.Unlock()
		if ahead || !sparing {
			return place{}, false
		}
		sparing = false
	}
}

// takeLocked reserves a free place for a load.
func (c *Cache) takeLocked(small bool) (place, bool) {
	p, ok := c.arena.take(small)
	if ok {
		c.reserved += c.arena.size(p)
		c.grants++
	}
	return p, ok
}

// yieldsSlabLocked says whether evicting the chunk, and its neighbours when it is a small one, makes a slab free.
func (c *Cache) yieldsSlabLocked(ch *Chunk) bool {
	if !ch.place.small() {
		return true
	}
	s := &c.arena.slabs[ch.place.slab]
	for part, owner := range s.owners {
		if s.freeMask&(1<<part) == 0 && (owner == nil || owner.home == nowhere || owner.refs.Load() != 1) {
			return false
		}
	}
	return true
}

// evictSlab ends all chunks of a split slab that nobody holds. Called with c.policy and c.mu; unlocks c.mu.
func (c *Cache) evictSlab(n int32) {
	owners := c.arena.slabs[n].owners
	c.evictByForce(owners[:]...)
}

// evictByForce ends those of the chunks that nobody holds, without asking ristretto. Called with c.policy and c.mu;
// unlocks c.mu.
func (c *Cache) evictByForce(chunks ...*Chunk) {
	var was [parts]home // where each lived that went
	for i, ch := range chunks {
		if ch != nil && ch.home != nowhere {
			if h := ch.home; c.evictLocked(ch) {
				was[i] = h
			}
		}
	}
	c.mu.Unlock()
	for i, ch := range chunks {
		if was[i] == nowhere {
			continue
		}
		c.metrics.evictions[byForce].Inc()
		c.shard(ch.hash).remove(ch)
		if was[i] == inMain {
			c.frequency.forget(ch.hash)
		}
	}
}
