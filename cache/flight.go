package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"coldtap/internal/readcost"
	"coldtap/readerpool"
)

// flight is the one load of a key. It runs in a goroutine of the cache.
type flight struct {
	cache  *Cache
	shard  *shard
	key    Key
	hash   uint64
	ctx    context.Context
	cancel context.CancelFunc

	// Guarded by shard.mu.
	waiters   []*waiter
	leader    *waiter       // whose Source loads; nil for read-ahead, and once it has its answer or left
	followers int           // sessions that read ahead and want this chunk
	unfollow  []func() bool // stop watching the followers' contexts
	demanded  bool          // a reader has waited, so the chunk was not loaded by read-ahead alone
	needsSlab bool          // waits for a slab
	queued    bool          // the Source waits for its turn (Queued)
	unread    bool          // counted in Cache.unread
	dropped   bool          // the segment is gone: the chunk stays out of the cache
	ended     bool          // it left the table
}

// waiter is a caller that waits for a flight.
type waiter struct {
	request Request
	holding bool // must not wait for a slab
	joined  bool
	result  chan result // capacity 1
}

type result struct {
	chunk   *Chunk
	outcome Outcome
	err     error
}

type flightKey struct{}

// Queued is called by a Source whose load waits for its turn; begun ends the waiting. While a load waits, its flight is
// cancelled (ctx ends) when the last reader and the last session that reads ahead have left it. At any other time the
// load goes on without them and fills the cache. ctx is the one that LoadChunk got; with another one nothing happens.
func Queued(ctx context.Context) (begun func()) {
	f, ok := ctx.Value(flightKey{}).(*flight)
	if !ok {
		return func() {}
	}
	f.setQueued(true)
	return func() { f.setQueued(false) }
}

func (f *flight) setQueued(queued bool) {
	f.shard.mu.Lock()
	f.queued = queued
	f.endIfUnwantedLocked()
	f.shard.mu.Unlock()
}

// newFlightLocked puts a new flight into the table.
func (c *Cache) newFlightLocked(s *shard, key Key, hash uint64) *flight {
	f := &flight{cache: c, shard: s, key: key, hash: hash}
	f.ctx, f.cancel = context.WithCancel(context.WithValue(c.base, flightKey{}, f))
	s.flights[key] = f
	c.running.Add(1) // shard.closed is false, so Close does not wait yet
	c.flights.Add(1)
	return f
}

// start begins the load, with a slot if one can be reserved without waiting: then it returns true.
func (f *flight) start(r Request) bool {
	p, ok := f.cache.tryReserve(r.Len, r.Lane == readerpool.Ahead)
	if ok {
		go f.run(r, p, true)
		return true
	}
	f.shard.mu.Lock()
	f.needsSlab = true
	for _, w := range f.waiters {
		if w.holding {
			w.result <- result{err: ErrNoSlab}
			f.cache.metrics.noSlab.Inc()
			if f.leader == w {
				f.leader = nil
			}
		}
	}
	f.waiters = slices.DeleteFunc(f.waiters, func(w *waiter) bool { return w.holding })
	if len(f.waiters) == 0 {
		f.endLocked()
		f.shard.mu.Unlock()
		f.cancel()
		f.cache.running.Done()
		return false
	}
	f.shard.mu.Unlock()
	go f.run(r, slot{}, false)
	return false
}

// run is the flight's goroutine.
func (f *flight) run(r Request, p slot, reserved bool) {
	c := f.cache
	defer c.running.Done()
	defer f.cancel()
	if !reserved {
		ctx, cancel := context.WithTimeout(f.ctx, c.flightTimeout)
		var err error
		p, err = c.reserve(ctx, r.Len)
		cancel()
		if err != nil {
			f.fail(readcost.Cost{}, ErrNoSlab)
			return
		}
		f.shard.mu.Lock()
		f.needsSlab = false
		if f.leader == nil && len(f.waiters) > 0 { // the leader has left, or could not wait for a slab
			r = f.promoteLocked()
		}
		f.shard.mu.Unlock()
	}
	for attempt := 1; ; attempt++ {
		dst := c.arena.bytes(p, r.Len)
		cost, err := f.load(r, dst)
		if err == nil {
			f.land(p, dst, cost)
			return
		}
		if f.ctx.Err() == nil {
			c.metrics.loadErrors.Inc()
		}
		// The first failure may concern the leader alone: the pool refuses read-ahead first, or its Source is outdated.
		next, again := f.retry(attempt, cost, err)
		if !again {
			c.unreserve(p)
			f.fail(cost, err)
			return
		}
		r = next
	}
}

// load calls the Source under the flight's deadline. A panic is returned as an error.
func (f *flight) load(r Request, dst []byte) (cost readcost.Cost, err error) {
	f.cache.metrics.loads.Inc()
	ctx, cancel := context.WithTimeout(f.ctx, f.cache.flightTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = &Error{Kind: Panicked, Key: f.key, Err: fmt.Errorf("%v", p), Stack: debug.Stack()}
		} else if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = &Error{Kind: TimedOut, Key: f.key, Err: err}
		}
	}()
	cost, err = r.Source.LoadChunk(ctx, r.Off, dst, r.Lane)
	f.shard.mu.Lock()
	f.queued = false
	f.shard.mu.Unlock()
	return cost, err
}

// retry returns the error to the leader and makes another waiter the leader, if this was the first attempt and there is
// one.
func (f *flight) retry(attempt int, cost readcost.Cost, err error) (Request, bool) {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	f.queued = false
	if attempt > 1 || f.ended || f.shard.closed || len(f.waiters) == 0 || len(f.waiters) == 1 && f.leader != nil {
		return Request{}, false
	}
	if w := f.leader; w != nil {
		f.removeWaiterLocked(w)
		w.result <- result{outcome: Outcome{Level: Miss, Cost: cost}, err: err}
	}
	return f.promoteLocked(), true
}

// promoteLocked makes the waiter in the lane of the highest priority the leader. There must be a waiter.
func (f *flight) promoteLocked() Request {
	f.leader = slices.MinFunc(f.waiters, func(a, b *waiter) int { return int(a.request.Lane) - int(b.request.Lane) })
	return f.leader.request
}

// land makes the loaded bytes a chunk and gives it to all waiters. All references are counted before the first waiter
// has the chunk; the flight keeps none, so that a chunk can be evicted as soon as its readers have released it.
func (f *flight) land(p slot, bytes []byte, cost readcost.Cost) {
	c, s := f.cache, f.shard
	ch := &Chunk{cache: c, key: f.key, hash: f.hash, bytes: bytes, slot: p, landed: time.Now()}
	s.mu.Lock()
	// A flight that left the table when it was cancelled may succeed all the same, after a later one for the key.
	other := s.chunks[f.key]
	keep := !f.dropped && !s.closed && (other == nil || other.refs.Load() <= 0)
	refs := len(f.waiters)
	if keep {
		refs++
	}
	ch.refs.Store(int32(refs))
	if !f.demanded && f.unread {
		f.unread = false // the chunk is counted from here on
	} else {
		ch.uses.Store(1)
	}
	c.mu.Lock()
	c.reserved -= c.arena.size(p)
	switch {
	case keep:
		c.admitLocked(ch)
		c.wakeFirstLocked() // read-ahead lands evictable
	case refs == 0:
		c.freeSlotLocked(ch)
	}
	c.mu.Unlock()
	if keep {
		s.chunks[f.key] = ch
	}
	for _, w := range f.waiters {
		w.result <- result{chunk: ch, outcome: f.outcomeLocked(w, cost)}
	}
	f.endLocked()
	s.mu.Unlock()
	if keep {
		c.trimWindow()
	}
}

// fail gives the error to all waiters.
func (f *flight) fail(cost readcost.Cost, err error) {
	f.shard.mu.Lock()
	if f.shard.closed {
		err = ErrClosed
	}
	for _, w := range f.waiters {
		if err == ErrNoSlab {
			f.cache.metrics.noSlab.Inc()
		}
		w.result <- result{outcome: f.outcomeLocked(w, cost), err: err}
	}
	f.endLocked()
	f.shard.mu.Unlock()
}

func (f *flight) outcomeLocked(w *waiter, cost readcost.Cost) Outcome {
	if w == f.leader {
		return Outcome{Level: Miss, Cost: cost}
	}
	return Outcome{Level: Joined}
}

// endLocked takes the flight out of the table. It cannot be joined any more.
func (f *flight) endLocked() {
	if f.ended {
		return
	}
	f.ended = true
	f.waiters, f.leader = nil, nil
	if f.shard.flights[f.key] == f {
		delete(f.shard.flights, f.key)
	}
	for _, stop := range f.unfollow {
		stop()
	}
	f.unfollow = nil
	if f.unread {
		f.unread = false
		f.cache.unread.Add(-1)
	}
	f.cache.flights.Add(-1)
}

// endIfUnwantedLocked ends a flight without waiters and followers that still waits for a slab or for its Source's turn.
func (f *flight) endIfUnwantedLocked() {
	if !f.ended && len(f.waiters) == 0 && f.followers == 0 && (f.needsSlab || f.queued) {
		f.endLocked()
		f.cancel()
	}
}

// joinLocked adds a waiter.
func (f *flight) joinLocked(w *waiter) {
	f.waiters = append(f.waiters, w)
	f.demanded = true
}

// removeWaiterLocked removes a waiter; false when it has its result already.
func (f *flight) removeWaiterLocked(w *waiter) bool {
	i := slices.Index(f.waiters, w)
	if i < 0 {
		return false
	}
	f.waiters = slices.Delete(f.waiters, i, i+1)
	if f.leader == w {
		f.leader = nil
	}
	return true
}

// followLocked makes the session behind ctx a follower of the flight until ctx ends.
func (f *flight) followLocked(ctx context.Context) {
	f.followers++
	if ctx.Done() == nil {
		return
	}
	f.unfollow = append(f.unfollow, context.AfterFunc(ctx, func() {
		f.shard.mu.Lock()
		f.followers--
		f.endIfUnwantedLocked()
		f.shard.mu.Unlock()
	}))
}
