package cache

import "time"

// unreadGrace is how long a chunk that read-ahead brought is spared while no reader has read it. A reader that takes
// longer for two chunks does not need them ahead; and without an end, chunks of readers that left would keep their
// slabs for ever.
const unreadGrace = 10 * time.Second

// residency says which list a chunk is in.
type residency uint8

const (
	notCached residency = iota // only readers hold it, or its slot is free again
	inWindow
	inFrequent // offered to ristretto, which may not have decided yet
)

// admitLocked makes a loaded chunk a cached one, in the window. The cache's reference is counted already.
func (c *Cache) admitLocked(ch *Chunk) {
	c.arena.setOwner(ch.slot, ch)
	c.listLocked(ch, inWindow)
	c.bySegment.add(ch)
}

// listLocked puts a chunk that is in no list at the warm end of one.
func (c *Cache) listLocked(ch *Chunk, in residency) {
	ch.residency = in
	c.listOf(in).add(ch, c.arena.size(ch.slot))
}

// unlistLocked takes a cached chunk out of its list.
func (c *Cache) unlistLocked(ch *Chunk) {
	c.listOf(ch.residency).remove(ch, c.arena.size(ch.slot))
	ch.residency = notCached
}

func (c *Cache) listOf(in residency) *list {
	if in == inWindow {
		return &c.window
	}
	return &c.frequent
}

// removal is a chunk that was taken out of the lists. The caller ends it with finishRemovals, without Cache.mu.
type removal struct {
	chunk *Chunk
	from  residency
}

// detachLocked takes a cached chunk out of the lists. The cache's reference is the caller's now.
func (c *Cache) detachLocked(ch *Chunk) removal {
	r := removal{ch, ch.residency}
	c.unlistLocked(ch)
	c.bySegment.remove(ch)
	return r
}

// evictLocked takes a cached chunk out of the lists and frees its slot, if no reader holds it. From then on tryAcquire
// refuses the chunk.
func (c *Cache) evictLocked(ch *Chunk) (r removal, ok bool) {
	if !ch.refs.CompareAndSwap(1, 0) {
		return removal{}, false
	}
	r = c.detachLocked(ch)
	c.freeSlotLocked(ch)
	return r, true
}

// finishRemovals takes removed chunks out of the index and out of ristretto, and counts them. Called with Cache.policy.
func (c *Cache) finishRemovals(reason int, removals ...removal) {
	for _, r := range removals {
		c.shard(r.chunk.hash).remove(r.chunk)
		if r.from == inFrequent {
			c.frequency.forget(r.chunk.hash)
		}
		c.metrics.evictions[reason].Inc()
	}
}

// freeSlotLocked gives the memory of a chunk back that has no references any more.
func (c *Cache) freeSlotLocked(ch *Chunk) {
	if ch.uses.CompareAndSwap(0, 1) {
		c.unread.Add(-1)
	}
	c.arena.release(ch.slot)
	c.wakeFirstLocked()
	c.unmapLocked()
}

// victimLocked gives the coldest chunk of a list that may be evicted, nil when there is none. Chunks that readers hold
// may not; they count as warm. Chunks that were used more than once get a second round. With spareUnread, neither may
// chunks that read-ahead brought a moment ago and that no reader has read. With wholeSlab only a chunk will do whose
// eviction frees a slab.
//
// A walk meets each chunk at most twice: those that it moves to the warm end come again.
func (c *Cache) victimLocked(l *list, wholeSlab, spareUnread bool) *Chunk {
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
		case spareUnread && uses == 0 && now.Sub(ch.landed) < unreadGrace:
		case wholeSlab && !c.freesSlabLocked(ch):
		default:
			return ch
		}
		ch = next
	}
	return nil
}

// freesSlabLocked says whether a slab is free once the chunk is evicted, together with its neighbours when it is a
// small one.
func (c *Cache) freesSlabLocked(ch *Chunk) bool {
	if !ch.slot.small() {
		return true
	}
	s := &c.arena.slabs[ch.slot.slab]
	for part, owner := range s.owners {
		free := s.freeMask&(1<<part) != 0
		if !free && (owner == nil || owner.residency == notCached || owner.refs.Load() != 1) {
			return false
		}
	}
	return true
}

// trimWindow offers to ristretto what is too much for the window.
func (c *Cache) trimWindow() {
	c.policy.Lock()
	defer c.policy.Unlock()
	for {
		c.mu.Lock()
		var ch *Chunk
		if c.window.bytes > c.windowBytes {
			ch = c.victimLocked(&c.window, false, true)
		}
		c.mu.Unlock()
		if ch == nil {
			return
		}
		c.leaveWindow(ch)
	}
}

// leaveWindow offers a chunk of the window to ristretto, or evicts it if no reader has read it. Called with
// Cache.policy, without which no chunk leaves the window.
func (c *Cache) leaveWindow(ch *Chunk) {
	c.mu.Lock()
	if ch.uses.Load() == 0 {
		if r, ok := c.evictLocked(ch); ok {
			c.mu.Unlock()
			c.finishRemovals(byWindow, r)
			return
		}
	}
	c.unlistLocked(ch)
	c.listLocked(ch, inFrequent)
	c.mu.Unlock()
	if !c.frequency.offer(ch.hash, ch, c.arena.size(ch.slot)) {
		c.evictRefused(ch)
	}
}

// evictRefused evicts a chunk that ristretto refuses, or evicts for another one. If a reader holds the chunk, it goes
// back into the window instead. Ristretto calls it with nil for keys that it does not know, and for chunks that are in
// its list no more; both are ignored.
func (c *Cache) evictRefused(ch *Chunk) {
	if ch == nil {
		return
	}
	c.mu.Lock()
	if ch.residency != inFrequent {
		c.mu.Unlock()
		return
	}
	if _, ok := c.evictLocked(ch); !ok {
		c.unlistLocked(ch)
		c.listLocked(ch, inWindow)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	// No finishRemovals: ristretto has let go of it, and may be calling from within a method.
	c.shard(ch.hash).remove(ch)
	c.metrics.evictions[byFrequency].Inc()
}

// makeRoom reserves a slot. As long as none is free, it evicts the coldest chunk that no reader holds:
//
//  1. of the window: ristretto gets it, and evicts it or a chunk that it values less;
//  2. if the window has none, of ristretto's list, without asking ristretto;
//  3. if that has none either, 1 and 2 again with the chunks that read-ahead brought a moment ago, which are spared
//     until then. Read-ahead itself stops here, or it would evict what another reader is about to read.
//
// When a whole slab is needed, a chunk in a split slab is evicted with all its neighbours. It waits for no reader and
// no load; false when there is nothing to evict.
func (c *Cache) makeRoom(small, ahead bool) (slot, bool) {
	c.policy.Lock()
	defer c.policy.Unlock()
	for spareUnread := true; ; {
		c.mu.Lock()
		if s, ok := c.reserveLocked(small); ok {
			c.mu.Unlock()
			return s, true
		}
		victim := c.victimLocked(&c.window, !small, spareUnread)
		if victim == nil {
			victim = c.victimLocked(&c.frequent, !small, spareUnread)
		}
		switch {
		case victim == nil:
			c.mu.Unlock()
			if ahead || !spareUnread {
				return slot{}, false
			}
			spareUnread = false
		case victim.slot.small() && !small:
			neighbours := c.arena.slabs[victim.slot.slab].owners
			removals := c.evictAllLocked(neighbours[:]...)
			c.mu.Unlock()
			c.finishRemovals(byForce, removals...)
		case victim.residency == inWindow:
			c.mu.Unlock()
			c.leaveWindow(victim)
			c.frequency.waitDecided()
		default:
			removals := c.evictAllLocked(victim)
			c.mu.Unlock()
			c.finishRemovals(byForce, removals...)
		}
	}
}

// evictAllLocked evicts those of the chunks that are cached and that no reader holds.
func (c *Cache) evictAllLocked(chunks ...*Chunk) (removals []removal) {
	for _, ch := range chunks {
		if ch == nil || ch.residency == notCached {
			continue
		}
		if r, ok := c.evictLocked(ch); ok {
			removals = append(removals, r)
		}
	}
	return removals
}
