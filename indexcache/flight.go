package indexcache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"coldtap/internal/readcost"
	"coldtap/tier"
)

// damagedFor is how long an entry with damaged files is served before it is loaded anew: repairing an object shows
// within seconds, and a broken one costs two requests in 10 s and not two for every read.
const damagedFor = 10 * time.Second

// flight is one load that callers share.
type flight struct {
	seg    *tier.Segment
	cancel context.CancelFunc

	// Guarded by the cache's mutex.
	waiters int
	started bool // the load was called: it goes on without waiters
	dropped bool // the segment was dropped: the result is for the waiters only

	done  chan struct{} // closed once the rest is set
	entry *Entry
	cost  readcost.Cost
	err   error
}

// finish gives the result to those who wait. A failed flight is out of the table before, so that whoever asks after one
// of them begins anew.
func (c *Cache) finish(f *flight, entry *Entry, cost readcost.Cost, err error) {
	f.entry, f.cost, f.err = entry, cost, err
	if err != nil {
		c.mu.Lock()
		c.untableLocked(f)
		c.mu.Unlock()
	}
	close(f.done)
}

// fly carries a flight out, on a goroutine of its own.
func (c *Cache) fly(ctx context.Context, f *flight) {
	defer c.land(f)
	n := c.reservation(f.seg)
	if err := c.loading.Acquire(ctx, n); err != nil {
		c.finish(f, nil, readcost.Cost{}, c.explain(ctx, f.seg, err))
		return
	}
	// The reservation covers the entry until the shelf's own bounds do.
	defer c.loading.Release(n)
	if !c.begin(f) {
		c.finish(f, nil, readcost.Cost{}, context.Canceled)
		return
	}
	begin := time.Now()
	entry, cost, err := c.loadEntry(ctx, f.seg)
	c.metrics.seconds.Observe(time.Since(begin).Seconds())
	if err != nil {
		c.metrics.failures.Inc()
	}
	c.finish(f, entry, cost, err)
	if err == nil {
		c.keep(f)
	}
}

// begin marks the point from which the flight goes on without waiters; false when they have all left already.
func (c *Cache) begin(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.started = f.waiters > 0
	return f.started
}

// leave counts a waiter off. A flight that still waits for memory is not worth keeping without one.
func (c *Cache) leave(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiters--; f.waiters == 0 && !f.started {
		c.untableLocked(f)
		f.cancel()
	}
}

// land ends a flight: from here on a caller finds the entry on the shelf, or loads anew.
func (c *Cache) land(f *flight) {
	f.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.untableLocked(f)
	c.busy--
	if c.closed && c.busy == 0 {
		close(c.idle)
	}
}

func (c *Cache) untableLocked(f *flight) {
	if k := f.seg.Key(); c.flights[k] == f {
		delete(c.flights, k)
	}
}

// keep puts a flight's entry on the shelf.
func (c *Cache) keep(f *flight) {
	it := &item{key: f.seg.Key(), entry: f.entry, cost: f.entry.cost()}
	if len(f.entry.damaged) > 0 {
		it.until = time.Now().Add(damagedFor)
	}
	c.mu.Lock()
	c.largest = max(it.cost, c.largest/4*3)
	if f.dropped || c.closed {
		c.mu.Unlock()
		return
	}
	leaving, ok := c.shelf.add(it)
	c.mu.Unlock()
	if !ok {
		c.metrics.tooLarge.Inc()
	}
	if len(leaving) > 0 {
		c.shelf.settle()
		c.mu.Lock()
		c.shelf.forget(leaving)
		c.mu.Unlock()
	}
}

// loadEntry loads and parses, and loads once more when a file is damaged, since the damage may have come about on the
// way.
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
		c.log.Warn("index files are missing or damaged", "segment", seg.ID.String(), "topic", seg.Topic, "partition", seg.Partition.Partition,
			"files", entry.damaged)
	}
	return entry, cost, nil
}

// explain names the end of the load's own context, which its callers would take for the end of theirs.
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
