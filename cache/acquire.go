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

// TryAcquire gives a chunk that is in memory. It does not wait, load or allocate. The caller releases the chunk.
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

// Acquire gives the chunk and loads it if need be, in one flight for all callers that want it. ctx bounds this caller's
// waiting, not the load. The caller releases the chunk. It fails with ErrNoSlab when no slab became free before the
// deadline of ctx, with ErrClosed, with the error of ctx, with the Source's error, or with an *Error.
func (c *Cache) Acquire(ctx context.Context, r Request) (*Chunk, Outcome, error) {
	p := c.Ask(r, false)
	return p.Wait(ctx)
}

// AcquireNoWait is Acquire, but returns ErrNoSlab at once instead of waiting for a slab (it does wait for the load). It
// is for callers that hold a chunk: two of them that wait for a slab would wait for each other.
func (c *Cache) AcquireNoWait(ctx context.Context, r Request) (*Chunk, Outcome, error) {
	p := c.Ask(r, true)
	return p.Wait(ctx)
}

// Ask is the first half of Acquire, or of AcquireNoWait when the caller holds a chunk: it finds the chunk or begins to
// load it, and does not wait. Before Wait the caller can ask for more chunks.
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
	c.frequency.count(hash)
	if ch := s.chunks[r.Key]; ch != nil && ch.tryAcquire() {
		s.mu.Unlock()
		s.hits.Add(1)
		ch.used()
		return Pending{chunk: ch}
	}
	if f := s.flights[r.Key]; f != nil {
		defer s.mu.Unlock()
		if holding && f.needsSlab {
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

// leave stops waiting, unless the flight ended at the same time: then its result counts.
func (p *Pending) leave(ctx context.Context) (*Chunk, Outcome, error) {
	f := p.flight
	outcome := Outcome{Level: Miss}
	if p.waiter.joined {
		outcome.Level = Joined
	}
	f.shard.mu.Lock()
	if !f.removeWaiterLocked(p.waiter) {
		f.shard.mu.Unlock()
		res := <-p.waiter.result
		return res.chunk, res.outcome, res.err
	}
	needsSlab := f.needsSlab
	f.endIfUnwantedLocked()
	f.shard.mu.Unlock()
	switch err := ctx.Err(); {
	case !needsSlab:
		return nil, outcome, err
	case errors.Is(err, context.DeadlineExceeded):
		f.cache.metrics.noSlab.Inc()
		return nil, outcome, ErrNoSlab
	default:
		return nil, outcome, &Error{Kind: NoSlab, Key: f.key, Err: err}
	}
}

// Prefetch starts a flight in the lane Ahead if the chunk is neither cached nor in flight and a slab is free, or can be
// made free by evicting. It does not wait. session is the context of the session that reads ahead: when it ends before
// the load had its turn (see Queued), the flight is cancelled, unless another caller wants the chunk. It returns
// whether the chunk is in memory or in flight.
//
// Chunks that read-ahead brought and that no reader has asked for fill at most half of the arena: with more sessions
// than fit, each would evict what another is about to read, and every chunk would be loaded twice.
func (c *Cache) Prefetch(session context.Context, r Request) bool {
	r.Lane = readerpool.Ahead
	if r.check(c.arena.slabSize) != nil || session.Err() != nil {
		return false
	}
	hash := c.hash(r.Key)
	s := c.shard(hash)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	// Looked up under the lock that flights land under: a flight that landed between a look-up without the lock and here
	// would be repeated by each of its readers.
	if ch := s.chunks[r.Key]; ch != nil && ch.refs.Load() > 0 {
		s.mu.Unlock()
		c.metrics.prefetch[prefetchPresent].Inc()
		return true
	}
	if f := s.flights[r.Key]; f != nil {
		f.followLocked(session)
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
	f.followLocked(session)
	s.mu.Unlock()
	if !f.start(r) {
		c.metrics.prefetch[prefetchRefused].Inc()
		return false
	}
	c.metrics.prefetch[prefetchStarted].Inc()
	return true
}
