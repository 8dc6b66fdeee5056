package cache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// minSlabs is the smallest arena that works: a chunk that is being sent, the next one that is being loaded, and one
// each for the window and for ristretto.
const minSlabs = 4

// Config sizes a Cache.
type Config struct {
	Memory        int64         // arena bytes: in flight + pinned + cached ≤ Memory, always. At least four chunks
	Chunk         int           // bytes of the largest chunk
	WindowShare   float64       // of the arena, for the recency window; above 0, up to 1; default 0.5. Ristretto has the rest
	FlightTimeout time.Duration // a load's own deadline, and how long a load waits for a slab at most; default 60 s
	Registerer    prometheus.Registerer
	// Pressure is called (not concurrently, at most every 100 ms) while loads wait for a slab and readers hold all slabs,
	// or no load got one for 100 ms. It should make the reader release its chunks that has held them longest. May be nil.
	Pressure func()
}

// Cache is chunks in memory and in flight. All methods may be called concurrently.
type Cache struct {
	shards        [shardCount]shard
	hash          func(Key) uint64
	frequency     frequency
	metrics       metrics
	flightTimeout time.Duration
	onPressure    func()
	windowBytes   int64
	unreadLimit   int64 // half of the slabs

	base    context.Context // parent of the flights' contexts
	cancel  context.CancelFunc
	running sync.WaitGroup // flights, and calls that use frequency; none begins once closed is set
	flights atomic.Int64   // in the tables
	unread  atomic.Int64   // chunks of read-ahead, in flight or in memory, that no reader has asked for
	waiting atomic.Int32   // len(queue), for Release
	ended   chan struct{}  // closed when Close has nothing left to do

	// policy is held for moves out of the window and for calls that change ristretto, so that ristretto and our lists
	// agree on where each chunk is.
	policy sync.Mutex

	mu        sync.Mutex
	arena     *arena
	window    list
	frequent  list // chunks that ristretto has, or is deciding on
	bySegment segments
	queue     []*slabWaiter // loads that wait for a slot
	reserved  int64         // bytes of slots of loads in flight
	grants    uint64        // slots given to loads so far
	pressing  bool          // a goroutine calls onPressure
	pressed   time.Time
	closed    bool
}

// New maps the arena and starts ristretto. Close must be called in the end.
func New(cfg Config) (*Cache, error) { return newCache(cfg, hashKey) }

func newCache(cfg Config, hash func(Key) uint64) (*Cache, error) {
	if cfg.WindowShare == 0 {
		cfg.WindowShare = 0.5
	}
	if cfg.FlightTimeout == 0 {
		cfg.FlightTimeout = time.Minute
	}
	switch {
	case cfg.Chunk < 1 || int64(cfg.Chunk) > 1<<31-1:
		return nil, fmt.Errorf("chunk length %d is not within 1 and %d", cfg.Chunk, 1<<31-1)
	case cfg.Memory/int64(cfg.Chunk) < minSlabs:
		return nil, fmt.Errorf(
			"chunk memory of %d bytes holds fewer than %d chunks of %d bytes: give it more memory or smaller chunks",
			cfg.Memory, minSlabs, cfg.Chunk)
	case cfg.Memory/int64(cfg.Chunk) > 1<<31-1:
		return nil, fmt.Errorf("chunk memory of %d bytes holds more than %d chunks of %d bytes",
			cfg.Memory, 1<<31-1, cfg.Chunk)
	case !(cfg.WindowShare > 0 && cfg.WindowShare <= 1):
		return nil, fmt.Errorf("window share %v is not above 0 and up to 1", cfg.WindowShare)
	case cfg.FlightTimeout < 0:
		return nil, fmt.Errorf("flight timeout %v is negative", cfg.FlightTimeout)
	}
	a, err := newArena(cfg.Memory, cfg.Chunk)
	if err != nil {
		return nil, err
	}
	c := &Cache{
		hash:          hash,
		flightTimeout: cfg.FlightTimeout,
		onPressure:    cfg.Pressure,
		arena:         a,
		bySegment:     segments{},
		ended:         make(chan struct{}),
	}
	c.unreadLimit = int64(len(a.slabs) / 2)
	c.windowBytes = int64(float64(a.total()) * cfg.WindowShare)
	for i := range c.shards {
		c.shards[i].chunks, c.shards[i].flights = map[Key]*Chunk{}, map[Key]*flight{}
	}
	if c.metrics, err = newMetrics(cfg.Registerer, c); err != nil {
		a.unmap()
		return nil, err
	}
	lfu, err := newTinyLFU(len(a.slabs), a.total()-c.windowBytes, c.evictRefused)
	if err != nil {
		a.unmap()
		return nil, err
	}
	c.frequency = lfu
	c.base, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// SlabsInUse counts slabs that hold something: chunks cached, chunks held by readers, loads in flight.
func (c *Cache) SlabsInUse() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arena.slabsInUse()
}

// startCall keeps Close from closing ristretto until c.running.Done; false once the cache is closing.
func (c *Cache) startCall() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}

// DropSegment forgets every chunk of a segment and keeps what its flights load out of the cache. When it returns, no
// look-up finds one of the chunks; readers keep what they hold.
func (c *Cache) DropSegment(key tier.SegmentKey) {
	if !c.startCall() {
		return
	}
	defer c.running.Done()
	for i := range c.shards {
		c.shards[i].dropFlights(key)
	}
	c.policy.Lock()
	defer c.policy.Unlock()
	var removals []removal
	c.mu.Lock()
	for ch := c.bySegment[key]; ch != nil; ch = c.bySegment[key] {
		removals = append(removals, c.detachLocked(ch))
	}
	c.mu.Unlock()
	c.finishRemovals(byDrop, removals...)
	for _, r := range removals {
		r.chunk.Release()
	}
}

// Drop forgets one chunk, whose bytes turned out not to be those of the log; readers keep what they hold. When it
// returns, no look-up finds this chunk; another one that was loaded since under the same key stays. The caller need not
// hold the chunk.
func (c *Cache) Drop(ch *Chunk) {
	if !c.startCall() {
		return
	}
	defer c.running.Done()
	c.policy.Lock()
	defer c.policy.Unlock()
	c.mu.Lock()
	if ch.residency == notCached {
		c.mu.Unlock()
		// Another goroutine may have taken it out of the lists just now, and out of the index not yet.
		c.shard(ch.hash).remove(ch)
		return
	}
	r := c.detachLocked(ch)
	c.mu.Unlock()
	c.finishRemovals(byDrop, r)
	ch.Release()
}

// dropFlights keeps what a segment's flights load out of the cache. Flights without waiters end.
func (s *shard) dropFlights(key tier.SegmentKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, f := range s.flights {
		if k.Segment != key {
			continue
		}
		f.dropped = true
		if len(f.waiters) == 0 {
			f.endLocked()
			f.cancel()
		} else {
			delete(s.flights, k)
		}
	}
}

// Close refuses new loads with ErrClosed, ends flights and frees the arena. Chunks that readers hold stay valid until
// they are released, and the arena is unmapped with the last of them. When ctx ends before the flights, its error is
// returned, and Close goes on in the background. Calling it again waits again.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		for i := range c.shards {
			s := &c.shards[i]
			s.mu.Lock()
			s.closed = true
			s.mu.Unlock()
		}
		c.cancel()
		go c.end()
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end drops all chunks when the last flight and the last call have ended. It closes ristretto last, whose methods panic
// when they race with its Close.
func (c *Cache) end() {
	defer close(c.ended)
	c.running.Wait()
	var cached []*Chunk
	c.mu.Lock()
	for _, l := range []*list{&c.window, &c.frequent} {
		for l.coldest != nil {
			cached = append(cached, l.coldest)
			c.detachLocked(l.coldest)
		}
	}
	c.unmapLocked()
	c.mu.Unlock()
	for _, ch := range cached {
		c.shard(ch.hash).remove(ch)
		ch.Release()
	}
	c.frequency.close()
}

// unmapLocked gives the arena back once the cache is closed and empty.
func (c *Cache) unmapLocked() {
	if c.closed && c.arena.used == 0 {
		c.arena.unmap()
	}
}
