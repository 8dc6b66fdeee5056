package indexcache

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"coldtap/internal/budget"
	"coldtap/internal/flight"
	"coldtap/internal/readcost"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// Load reads a segment's small files; given at wiring. It is called concurrently, for each segment once at a time.
type Load func(ctx context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error)

// Config sizes a Cache.
type Config struct {
	// Memory bounds the cache and the loads under way, in bytes; at least 64 KiB.
	Memory int64
	// LoadTimeout bounds one load, its waiting for memory and for the store included; 0 = 60 s.
	LoadTimeout time.Duration
	// Registerer gets the metrics; nil keeps them to ourselves.
	Registerer prometheus.Registerer
	// Logger gets a line for files that are missing or damaged; may be nil.
	Logger *slog.Logger
}

const (
	minMemory = 64 << 10
	// maxLoads is how many loads at most run at a time. Their real number is what their reservations allow: 16 for
	// segments up to 190 MiB and 3 for 1 GiB at the default of 128 MiB.
	maxLoads = 16
)

// Cache gives entries. All methods may be called concurrently.
type Cache struct {
	load    Load
	log     *slog.Logger
	timeout time.Duration
	metrics *metrics
	loading *budget.Budget
	base    context.Context // of all loads
	stop    context.CancelFunc

	running sync.WaitGroup // loads; none begins once closed is set

	mu      sync.Mutex
	policy  *policy
	flights *flight.Group[tier.SegmentKey, loaded]
	largest int64 // cost of the largest entry lately loaded
	closed  bool
	ended   chan struct{} // closed when Close has nothing left to do
}

// New makes an empty cache; Close frees it.
func New(cfg Config, load Load) (*Cache, error) {
	if cfg.Memory < minMemory {
		return nil, fmt.Errorf("index cache of %d bytes: at least %d are needed", cfg.Memory, minMemory)
	}
	quarter := cfg.Memory / 4
	p, err := newPolicy(quarter, cfg.Memory-2*quarter)
	if err != nil {
		return nil, err
	}
	c := &Cache{
		load: load, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), timeout: cfg.LoadTimeout,
		loading: budget.New(quarter), policy: p, ended: make(chan struct{}),
	}
	c.flights = flight.NewGroup[tier.SegmentKey, loaded](&c.mu)
	if c.timeout <= 0 {
		c.timeout = time.Minute
	}
	c.base, c.stop = context.WithCancel(context.Background())
	c.metrics = newMetrics(cfg.Registerer, c)
	return c, nil
}

// Get gives the entry of a segment, and loads it if need be, once for all callers at a time. ctx bounds the caller's
// waiting, and its error is then returned; the load goes on. The cost is that of the load that this call began: zero
// for an entry that is cached or that another call is loading already. An error of the Load is returned as it is, the
// cache's own are *Error.
func (c *Cache) Get(ctx context.Context, seg *tier.Segment) (*Entry, readcost.Cost, error) {
	if err := ctx.Err(); err != nil {
		return nil, readcost.Cost{}, err
	}
	entry, f, begun, err := c.find(seg)
	if f == nil {
		return entry, readcost.Cost{}, err
	}
	l, err := f.Wait(ctx)
	if !begun {
		l.cost = readcost.Cost{}
	}
	return l.entry, l.cost, err
}

// find gives the entry, or the flight that will bring it.
func (c *Cache) find(seg *tier.Segment) (entry *Entry, f *loadFlight, begun bool, err error) {
	key := seg.Key()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, false, &Error{Kind: Closed, Segment: seg.ID.String()}
	}
	if entry, ok := c.policy.lookup(key); ok {
		c.metrics.hits.Inc()
		return entry, nil, false, nil
	}
	if f, begun = c.flights.JoinLocked(key); !begun {
		c.metrics.joins.Inc()
		return nil, f, false, nil
	}
	c.metrics.loads.Inc()
	c.startLocked(f, seg)
	return nil, f, true, nil
}

// startLocked runs the load of a new flight on a goroutine of its own.
func (c *Cache) startLocked(f *loadFlight, seg *tier.Segment) {
	ctx := f.ContextLocked(c.base)
	c.running.Go(func() { c.run(ctx, f, seg) })
}

// Contains says whether a segment's files are in memory.
func (c *Cache) Contains(seg *tier.Segment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.policy.lookup(seg.Key())
	return ok
}

// Drop forgets a segment, because it was deleted or its object is another one. What a load under way brings is returned
// to those that wait for it, and not kept.
func (c *Cache) Drop(seg *tier.Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.flights.ForgetLocked(seg.Key())
	c.policy.drop(seg.Key())
}

// Close fails all loads and waits for their ends until ctx ends. It may be called again, to wait longer.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.stop()
		go c.end()
	}
	c.mu.Unlock()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end closes ristretto when the last load has ended: it panics when a Set races with its Close.
func (c *Cache) end() {
	c.running.Wait()
	c.policy.frequent.Close()
	close(c.ended)
}
