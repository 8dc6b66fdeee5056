package cache

import (
	"context"
	"errors"

	"coldtap/readerpool"
)

// Pending is a chunk asked for with Ask. Wait must be called exactly once.
type Pending struct {
	chunk  *Chunk // in memory
	flight *flight
	waiter *waiter
	err    error
}

// TryAcquire gives a chunk that is in memory now, without waiting, loading or allocating. The caller releases it.
func (c *Cache) TryAcquire(key Key) (*Chunk, bool) {
	hash := c.hash(key)
	ch := c.shard(hash).find(c, key, hash)
	return ch, ch != nil
}

// Contains says whether a chunk is in memory now. It does not count as a use.
func (c *Cache) Contains(key Key) bool {
	s := c.shard(c.hash(key))
	s.mu.RLock()
	defer s.mu.RUnlock()
	ch := s.chunks[key]
	return ch != nil && !s.closed && ch.refs.Load() > 0
}

// Acquire gives the chunk, loading it if need be; one flight per key whoever asks. ctx bounds this caller's waiting
// only. The caller releases the chunk. It fails with ErrNoSlab when no slab became free until the deadline of ctx, with
// ErrClosed, with the error of ctx, with the Source's error, or with an *Error.
func (c *Cache) Acquire(ctx context.Context, r Request) (*Chunk, Outcome, error) {
	p := c.Ask(r, false)
	return p.Wait(ctx)
}

// AcquireNoWait is Acquire, but fails with ErrNoSlab at once instead of waiting for a slab (it does wait for the load).
// For callers that hold a chunk already: waiting while holding could deadlock.
func (c *Cache) AcquireNoWait(ctx context.Context, r Request) (*Chunk, Outcome, error) {
	p := c.Ask(r, true)
	return p.Wait(ctx)
}

// Ask is the first half of Acquire (of AcquireNoWait when holding): it finds the chunk or sees to it that it is loaded,
// and does not wait. In between the caller can ask for more.
func (c *Cache) Ask(r Request, holding bool) Pending {
	hash := c.hash(r.Key)
	s := c.shard(hash)
	if ch := s.find(c, r.Key, hash); ch != nil {
		return Pending{chunk: ch}
	}
	if err := r.check(c.arena.slabSize); err != nil {
		return Pending{err: err}
	}
	w := &waiter{request: r, holding: holding, result: make(chan result, 1)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return Pending{err: ErrClosed}
	}
	c.frequency.touch(hash)
	if ch := s.chunks[r.Key]; ch != nil && ch.tryAcquire() {
		s.mu.Unlock()
		s.hits.Add(1)
		ch.used()
		return Pending{chunk: ch}
	}
	if f := s.flights[r.Key]; f != nil {
		defer s.mu.Unlock()
		if holding && f.starved {
			c.metrics.noSlab.Inc()
			return Pending{err: ErrNoSlab}
		}
		w.joined = true
		f.joinLocked(w)
		c.metrics.joined.Inc()
		return Pending{flight: f, waiter: w}
	}
	f := c.newFlightLocked(s, r.Key, hash)
	f.joinLocked(w)
	f.leader = w
	s.mu.Unlock()
	c.metrics.missed.Inc()
	f.start(r)
	return Pending{flight: f, waiter: w}
}

// Wait is the second half of Acquire.
func (p *Pending) Wait(ctx context.Context) (*Chunk, Outcome, error) {
	if p.flight == nil {
		return p.chunk, Outcome{}, p.err
	}
	select {
	case res := <-p.waiter.result:
		return res.chunk, res.outcome, res.err
	case <-ctx.Done():
		return p.leave(ctx)
	}
}

// leave gives up waiting, unless the answer came in the same moment.
func (p *Pending) leave(ctx context.Context) (*Chunk, Outcome, error) {
	f := p.flight
	outcome := Outcome{Level: Miss}
	if p.waiter.joined {
		outcome.Level = Joined
	}
	f.shard.mu.Lock()
	if !f.dismissLocked(p.waiter) {
		f.shard.mu.Unlock()
		res := <-p.waiter.result
		return res.chunk, res.outcome, res.err
	}
	starved := f.starved
	f.abandonLocked()
	f.shard.mu.Unlock()
	switch err := ctx.Err(); {
	case !starved:
		return nil, outcome, err
	case errors.Is(err, context.DeadlineExceeded):
		f.cache.metrics.noSlab.Inc()
		return nil, outcome, ErrNoSlab
	default:
		return nil, outcome, &Error{Kind: NoSlab, Key: f.key, Err: err}
	}
}

// Prefetch starts a flight if the chunk is neither cached nor in flight and a slab is free or evictable without
// waiting. It takes r.Lane for Ahead. follow keeps the read-ahead alive: when its context ends before the load had
// its turn (see Queued), the flight is dropped, unless somebody else wants it. Returns whether the chunk is there or
// under way.
//
// Chunks that read-ahead brought and nobody has read yet fill at most half of the arena: with more sessions than fit,
// each would push out what another is about to read, and every chunk would be loaded twice.
func (c *Cache) Prefetch(follow context.Context, r Request) bool {
	r.Lane = readerpool.Ahead
	if r.check(c.arena.slabSize) != nil || follow.Err() != nil {
		return false
	}
	hash := c.hash(r.Key)
	s := c.shard(hash)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	// Looked up under the lock that flights land under: between an earlier look and this one, the flight that a whole
	// herd is waiting for may have landed, and each of them would load the chunk again.
	if ch := s.chunks[r.Key]; ch != nil && ch.refs.Load() > 0 {
		s.mu.Unlock()
		c.metrics.prefetch[prefetchPresent].Inc()
		return true
	}
	if f := s.flights[r.Key]; f != nil {
		f.followLocked(follow)
		s.mu.Unlock()
		c.metrics.prefetch[prefetchInFlight].Inc()
		return true
	}
	if c.unread.Add(1) > c.unreadLimit {
		c.unread.Add(-1)
		s.mu.Unlock()
		c.metrics.prefetch[prefetchRefused].Inc()
		return false
	}
	f := c.newFlightLocked(s, r.Key, hash)
	f.unread = true
	f.followLocked(follow)
	s.mu.Unlock()
	if !f.start(r) {
		c.metrics.prefetch[prefetchRefused].Inc()
		return false
	}
	c.metrics.prefetch[prefetchStarted].Inc()
	return true
}
