package cache

import (
	"context"
	"slices"
	"time"
)

// pressureInterval is how often readers are asked to let go while loads wait: a stalled client is cut off in
// milliseconds, and a second one only if that did not help.
const pressureInterval = 100 * time.Millisecond

// claim is a load that waits for a slab. Claims are served in order of arrival; only the first takes places.
type claim struct {
	small bool
	wake  chan struct{} // capacity 1: look again
}

// tryReserve finds a place now or not at all. It does not overtake those who wait.
func (c *Cache) tryReserve(n int, ahead bool) (place, bool) {
	small := c.arena.fits(n)
	c.mu.Lock()
	if len(c.claims) > 0 {
		c.mu.Unlock()
		return place{}, false
	}
	p, ok := c.takeLocked(small)
	c.mu.Unlock()
	if ok {
		return p, true
	}
	return c.makeRoom(small, ahead)
}

// reserve waits for a place until ctx ends.
func (c *Cache) reserve(ctx context.Context, n int) (place, error) {
	started := time.Now()
	cl := &claim{small: c.arena.fits(n), wake: make(chan struct{}, 1)}
	c.mu.Lock()
	c.claims = append(c.claims, cl)
	c.waiting.Store(int32(len(c.claims)))
	c.startPressureLocked()
	c.wakeFirstLocked()
	c.mu.Unlock()
	c.metrics.waits.Inc()
	defer func() { c.metrics.waitSeconds.Observe(time.Since(started).Seconds()) }()
	defer c.withdraw(cl)
	for {
		select {
		case <-cl.wake:
			if p, ok := c.makeRoom(cl.small, false); ok {
				return p, nil
			}
		case <-ctx.Done():
			return place{}, ctx.Err()
		}
	}
}

// withdraw ends a claim, served or not, and lets the next one look.
func (c *Cache) withdraw(cl *claim) {
	c.mu.Lock()
	c.claims = slices.DeleteFunc(c.claims, func(other *claim) bool { return other == cl })
	c.waiting.Store(int32(len(c.claims)))
	c.wakeFirstLocked()
	c.mu.Unlock()
}

// wakeFirst makes the first claim look for a place.
func (c *Cache) wakeFirst() {
	c.mu.Lock()
	c.wakeFirstLocked()
	c.mu.Unlock()
}

func (c *Cache) wakeFirstLocked() {
	if len(c.claims) > 0 {
		select {
		case c.claims[0].wake <- struct{}{}:
		default:
		}
	}
}

// giveBack returns the place of a load that failed.
func (c *Cache) giveBack(p place) {
	c.mu.Lock()
	c.reserved -= c.arena.size(p)
	c.arena.put(p)
	c.wakeFirstLocked()
	c.unmapLocked()
	c.mu.Unlock()
}

// startPressureLocked makes sure that somebody asks readers to let go while loads wait. The caller is counted in
// c.running.
func (c *Cache) startPressureLocked() {
	if c.onPressure == nil || c.pressing {
		return
	}
	c.pressing = true
	c.running.Go(c.press)
}

// press calls onPressure as long as loads wait and nothing moves. Loads in flight come back by themselves, so while
// there are some, only an interval without a single place granted counts as standing still.
func (c *Cache) press() {
	timer := time.NewTicker(pressureInterval)
	defer timer.Stop()
	var grants uint64
	for first := true; ; first = false {
		c.mu.Lock()
		if len(c.claims) == 0 || c.closed {
			c.pressing = false
			c.mu.Unlock()
			return
		}
		due := c.reserved == 0 || !first && c.grants == grants
		grants = c.grants
		since := time.Since(c.pressed)
		due = due && since >= pressureInterval
		if due {
			c.pressed = time.Now()
		}
		c.mu.Unlock()
		if due {
			c.metrics.pressure.Inc()
			c.onPressure()
		}
		select {
		case <-timer.C:
		case <-c.base.Done():
		}
	}
}
