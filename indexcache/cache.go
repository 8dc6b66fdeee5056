package indexcache

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"coldtap/internal/budget"
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
	// Logger hears of files that are missing or damaged; nil: nobody does.
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

	mu      sync.Mutex
	shelf   *shelf
	flights map[tier.SegmentKey]*flight
	busy    int   // flights that have not landed, those out of the table included
	largest int64 // cost of the largest entry lately loaded
	closed  bool
	idle    chan struct{} // closed once the cache is closed and no flight is under way

	shut sync.Once
}

// New makes an empty cache; Close frees it.
func New(cfg Config, load Load) (*Cache, error) {
	if cfg.Memory < minMemory {
		return nil, fmt.Errorf("index cache of %d bytes: at least %d are needed", cfg.Memory, minMemory)
	}
	quarter := cfg.Memory / 4
	s, err := newShelf(quarter, cfg.Memory-2*quarter)
	if err != nil {
		return nil, err
	}
	c := &Cache{
		load: load, log: cfg.Logger, timeout: cfg.LoadTimeout, loading: budget.New(quarter),
		shelf: s, flights: make(map[tier.SegmentKey]*flight), idle: make(chan struct{}),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.timeout <= 0 {
		c.timeout = time.Minute
	}
	c.base, c.stop = context.WithCancel(context.Background())
	c.metrics = newMetrics(cfg.Registerer, c)
	return c, nil
}

// Get gives the entry of a segment, loading it if need be, once whoever asks. ctx bounds the caller's waiting and its
// error is then returned; the load goes on. The cost is that of a load that this call began: zero for an entry that was
// there or that another call is loading already. An error of the Load is returned as it is, the cache's own are *Error.
func (c *Cache) Get(ctx context.Context, seg *tier.Segment) (*Entry, readcost.Cost, error) {
	if err := ctx.Err(); err != nil {
		return nil, readcost.Cost{}, err
	}
	entry, f, first, err := c.find(seg)
	if entry != nil || err != nil {
		return entry, readcost.Cost{}, err
	}
	defer c.leave(f)
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, readcost.Cost{}, ctx.Err()
	}
	if !first {
		return f.entry, readcost.Cost{}, f.err
	}
	return f.entry, f.cost, f.err
}

// Contains says that a segment's files are in memory.
func (c *Cache) Contains(seg *tier.Segment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.shelf.lookup(seg.Key())
	return ok
}

// find gives the entry, or the flight that will bring it and on which the caller now waits.
func (c *Cache) find(seg *tier.Segment) (entry *Entry, f *flight, first bool, err error) {
	k := seg.Key()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, false, &Error{Kind: Closed, Segment: seg.ID.String()}
	}
	if entry, ok := c.shelf.lookup(k); ok {
		c.metrics.hits.Inc()
		return entry, nil, false, nil
	}
	if f = c.flights[k]; f != nil {
		c.metrics.joins.Inc()
		f.waiters++
		return nil, f, false, nil
	}
	c.metrics.loads.Inc()
	ctx, cancel := context.WithTimeout(c.base, c.timeout)
	f = &flight{seg: seg, cancel: cancel, waiters: 1, done: make(chan struct{})}
	c.flights[k] = f
	c.busy++
	go c.fly(ctx, f)
	return nil, f, true, nil
}

// Drop forgets a segment, because it was deleted or its object is another one. A load under way serves those who wait
// for it and nobody else.
func (c *Cache) Drop(seg *tier.Segment) {
	k := seg.Key()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if f := c.flights[k]; f != nil {
		f.dropped = true
		delete(c.flights, k)
	}
	c.shelf.remove(k)
}

// Close fails all loads and waits for their ends until ctx ends. It may be called again, to wait longer.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.stop()
		if c.busy == 0 {
			close(c.idle)
		}
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
		// Only now, since ristretto panics when a Set races with its Close.
		c.shut.Do(c.shelf.frequent.Close)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
