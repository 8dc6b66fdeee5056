package cache

import (
	"context"
	"slices"
	"time"
)

// pressureInterval is how often readers are asked to release chunks while loads wait: a stalled client is cut off in
// milliseconds, and a second one only if that did not help.
const pressureInterval = 100 * time.Millisecond

// slabWaiter is a load that waits for a slot. They get one in order of arrival: only the first in the queue looks for
// one.
type slabWaiter struct {
	small bool
	wake  chan struct{} // capacity 1: look again
}

// tryReserve reserves a slot for a chunk of n bytes without waiting. It fails while loads wait in the queue.
func (c *Cache) tryReserve(n int, ahead bool) (slot, bool) {
	small := c.arena.isSmall(n)
	c.mu.Lock()
	if len(c.queue) > 0 {
		c.mu.Unlock()
		return slot{}, false
	}
	s, ok := c.reserveLocked(small)
	c.mu.Unlock()
	if ok {
		return s, true
	}
	return c.makeRoom(small, ahead)
}

// reserveLocked reserves a free slot for a load.
func (c *Cache) reserveLocked(small bool) (slot, bool) {
	s, ok := c.arena.allocate(small)
	if ok {
		c.reserved += c.arena.size(s)
		c.grants++
	}
	return s, ok
}

// reserve waits for a slot until ctx ends.
func (c *Cache) reserve(ctx context.Context, n int) (slot, error) {
	started := time.Now()
	w := &slabWaiter{small: c.arena.isSmall(n), wake: make(chan struct{}, 1)}
	c.mu.Lock()
	c.queue = append(c.queue, w)
	c.waiting.Store(int32(len(c.queue)))
	c.startPressureLocked()
	c.wakeFirstLocked()
	c.mu.Unlock()
	c.metrics.waits.Inc()
	defer func() { c.metrics.waitSeconds.Observe(time.Since(started).Seconds()) }()
	defer c.leaveQueue(w)
	for {
		select {
		case <-w.wake:
			if s, ok := c.makeRoom(w.small, false); ok {
				return s, nil
			}
		case <-ctx.Done():
			return slot{}, ctx.Err()
		}
	}
}

// leaveQueue takes a load out of the queue, with or without a slot, and makes the next one look.
func (c *Cache) leaveQueue(w *slabWaiter) {
	c.mu.Lock()
	c.queue = slices.DeleteFunc(c.queue, func(other *slabWaiter) bool { return other == w })
	c.waiting.Store(int32(len(c.queue)))
	c.wakeFirstLocked()
	c.mu.Unlock()
}

// wakeFirst makes the first load in the queue look for a slot.
func (c *Cache) wakeFirst() {
	c.mu.Lock()
	c.wakeFirstLocked()
	c.mu.Unlock()
}

func (c *Cache) wakeFirstLocked() {
	if len(c.queue) > 0 {
		select {
		case c.queue[0].wake <- struct{}{}:
		default:
		}
	}
}

// unreserve returns the slot of a load that failed.
func (c *Cache) unreserve(s slot) {
	c.mu.Lock()
	c.reserved -= c.arena.size(s)
	c.arena.release(s)
	c.wakeFirstLocked()
	c.unmapLocked()
	c.mu.Unlock()
}

// startPressureLocked starts the goroutine that asks readers to release chunks while loads wait, unless it runs. The
// caller is counted in c.running.
func (c *Cache) startPressureLocked() {
	if c.onPressure == nil || c.pressing {
		return
	}
	c.pressing = true
	c.running.Go(c.press)
}

// press calls onPressure while loads wait and none of them gets a slot. Loads in flight end by themselves, so while
// there are some, it waits for an interval in which no slot was given to a load.
func (c *Cache) press() {
	timer := time.NewTicker(pressureInterval)
	defer timer.Stop()
	var grants uint64
	for first := true; ; first = false {
		c.mu.Lock()
		if len(c.queue) == 0 || c.closed {
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
