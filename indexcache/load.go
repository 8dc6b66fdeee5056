package indexcache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"coldtap/internal/flight"
	"coldtap/internal/readcost"
	"coldtap/tier"
)

// damagedFor is how long an entry with damaged files is served before it is loaded anew: repairing an object shows
// within seconds, and a broken one costs two requests in 10 s and not two for every read.
const damagedFor = 10 * time.Second

// loaded is what a load ends with.
type loaded struct {
	entry *Entry
	cost  readcost.Cost // also of a load that failed
}

type loadFlight = flight.Flight[tier.SegmentKey, loaded]

// run loads a segment's files on a goroutine of its own, and lands the flight.
func (c *Cache) run(ctx context.Context, f *loadFlight, seg *tier.Segment) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	n := c.reservation(seg)
	if err := c.loading.Acquire(ctx, n); err != nil {
		c.land(f, loaded{}, c.explain(ctx, seg, err))
		return
	}
	// The reservation covers the entry until the policy's own bounds do.
	defer c.loading.Release(n)
	if !f.Commit() {
		c.land(f, loaded{}, context.Canceled)
		return
	}
	begin := time.Now()
	entry, cost, err := c.loadEntry(ctx, seg)
	c.metrics.seconds.Observe(time.Since(begin).Seconds())
	if err != nil {
		c.metrics.failures.Inc()
	}
	c.land(f, loaded{entry, cost}, err)
}

// land gives the result to the callers that wait, and keeps an entry.
func (c *Cache) land(f *loadFlight, l loaded, err error) {
	c.mu.Lock()
	keep := f.LandLocked(l, err)
	if err != nil {
		c.mu.Unlock()
		return
	}
	it := &item{key: f.Key(), entry: l.entry, cost: l.entry.cost()}
	if len(l.entry.damaged) > 0 {
		it.until = time.Now().Add(damagedFor)
	}
	c.largest = max(it.cost, c.largest/4*3)
	if !keep || c.closed {
		c.mu.Unlock()
		return
	}
	offered, ok := c.policy.add(it)
	c.mu.Unlock()
	if !ok {
		c.metrics.tooLarge.Inc()
	}
	if len(offered) > 0 {
		c.policy.waitDecided()
		c.mu.Lock()
		c.policy.decided(offered)
		c.mu.Unlock()
	}
}

// loadEntry loads and parses. When a file is damaged it loads once more: the object may be sound, and the damage may
// come from its way here.
func (c *Cache) loadEntry(ctx context.Context, seg *tier.Segment) (entry *Entry, cost readcost.Cost, err error) {
	defer func() {
		if v := recover(); v != nil {
			entry = nil
			err = &Error{Kind: Panicked, Segment: seg.ID.String(), Err: fmt.Errorf("%v", v), Stack: debug.Stack()}
		}
	}()
	files, cost, err := c.load(ctx, seg)
	if err != nil {
		return nil, cost, c.explain(ctx, seg, err)
	}
	entry = newEntry(seg, files)
	if len(entry.damaged) > 0 {
		again, more, err := c.load(ctx, seg)
		cost.Add(more)
		if err == nil {
			entry = newEntry(seg, again)
		}
	}
	if len(entry.damaged) > 0 {
		c.metrics.countDamaged(entry.damaged)
		c.log.Warn("index files are missing or damaged", "segment", seg.ID.String(), "topic", seg.Topic,
			"partition", seg.Partition.Partition, "files", entry.damaged)
	}
	return entry, cost, nil
}

// explain replaces the error of a load whose own context ended, which callers would take for the error of theirs.
func (c *Cache) explain(ctx context.Context, seg *tier.Segment, err error) error {
	switch {
	case c.base.Err() != nil:
		return &Error{Kind: Closed, Segment: seg.ID.String()}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Error{Kind: TimedOut, Segment: seg.ID.String()}
	}
	return err
}

// reservation estimates how much memory a load takes, in bytes: the object as it arrives and the files cut out of it.
func (c *Cache) reservation(seg *tier.Segment) int64 {
	const (
		interval = 4096     // index.interval.bytes: an entry in both indexes for so many bytes of log
		entries  = 8 + 12   // their size
		rest     = 64 << 10 // manifest, snapshot, transactions
	)
	c.mu.Lock()
	largest := c.largest
	c.mu.Unlock()
	size := c.loading.Size()
	n := 2 * max(max(seg.Size, 0)/interval*entries+rest, largest)
	return min(max(n, size/maxLoads), size)
}
