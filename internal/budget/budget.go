// Package budget bounds memory by weight: holders reserve bytes before they allocate, wait in order of arrival when
// the bound is reached, and give the bytes back. It is FIFO, so that a large request is not starved by small ones.
//
// A budget may keep a reserve for small reservations, which have a queue of their own: they do not wait behind large
// ones, and larger ones cannot take all there is. While somebody waits and nothing moves, OnPressure is called.
package budget

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// pressureInterval is how often holders are asked to let go while others wait, as in package cache.
const pressureInterval = 100 * time.Millisecond

// Budget is a byte bound shared by many holders. All methods may be called concurrently.
type Budget struct {
	size    int64
	reserve int64

	mu         sync.Mutex
	large      queue
	small      queue
	onPressure func()
	pressing   bool      // a goroutine calls onPressure
	pressed    time.Time // it was called last
	grants     uint64    // to those who waited
	idle       chan struct{}
}

// queue is the reservations of one kind.
type queue struct {
	inUse   int64
	waiters []*waiter
}

type waiter struct {
	n     int64
	ready chan struct{} // closed when the bytes are reserved
}

// New makes a budget of size bytes without a reserve.
func New(size int64) *Budget { return NewWithReserve(size, 0) }

// NewWithReserve makes a budget of size bytes, of which reserve are for small reservations only.
func NewWithReserve(size, reserve int64) *Budget {
	return &Budget{size: size, reserve: reserve, idle: make(chan struct{}, 1)}
}

// OnPressure sets what is called, at most every 100 ms, while somebody waits and nothing moves: it should make those let
// go that hold bytes for long. It must be set before the budget is used.
func (b *Budget) OnPressure(f func()) { b.onPressure = f }

// Size is the bound in bytes.
func (b *Budget) Size() int64 { return b.size }

// Large is the most that Acquire can ever give.
func (b *Budget) Large() int64 { return b.size - b.reserve }

// Reserve is how many bytes are kept for small reservations; none may ask for more of them.
func (b *Budget) Reserve() int64 { return b.reserve }

// InUse is how many bytes are reserved now.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.large.inUse + b.small.inUse
}

// Acquire reserves n bytes, waiting in turn until they are free or ctx ends. More than Large fails at once.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if n > b.Large() {
		return fmt.Errorf("reserve %d bytes of a budget of %d", n, b.Large())
	}
	return b.acquire(ctx, &b.large, n)
}

// AcquireSmall is Acquire for at most Reserve bytes, to be given back with ReleaseSmall.
func (b *Budget) AcquireSmall(ctx context.Context, n int64) error {
	if n > b.reserve {
		return fmt.Errorf("reserve %d bytes of the %d for small reservations", n, b.reserve)
	}
	return b.acquire(ctx, &b.small, n)
}

func (b *Budget) acquire(ctx context.Context, q *queue, n int64) error {
	b.mu.Lock()
	if len(q.waiters) == 0 && b.fitsLocked(q, n) {
		q.inUse += n
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	q.waiters = append(q.waiters, w)
	if b.onPressure != nil && !b.pressing {
		b.pressing = true
		go b.press()
	}
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
	}
	q.waiters = slices.DeleteFunc(q.waiters, func(other *waiter) bool { return other == w })
	b.serveLocked() // it may have stood before one that fits
	return ctx.Err()
}

// TryAcquire reserves n bytes if that needs no waiting.
func (b *Budget) TryAcquire(n int64) bool { return b.try(&b.large, n) }

// TryAcquireSmall is TryAcquire for at most Reserve bytes, to be given back with ReleaseSmall.
func (b *Budget) TryAcquireSmall(n int64) bool { return n <= b.reserve && b.try(&b.small, n) }

func (b *Budget) try(q *queue, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(q.waiters) > 0 || !b.fitsLocked(q, n) {
		return false
	}
	q.inUse += n
	return true
}

// fitsLocked says whether n more bytes may be reserved now. While large reservations wait, small ones have the reserve
// and no more: what they took beside it would keep coming before them.
func (b *Budget) fitsLocked(q *queue, n int64) bool {
	if b.large.inUse+b.small.inUse+n > b.size {
		return false
	}
	if q == &b.small {
		return len(b.large.waiters) == 0 || q.inUse+n <= b.reserve
	}
	return q.inUse+n <= b.Large()
}

// Release gives n reserved bytes back.
func (b *Budget) Release(n int64) { b.release(&b.large, n) }

// ReleaseSmall gives back n bytes that were reserved as small.
func (b *Budget) ReleaseSmall(n int64) { b.release(&b.small, n) }

func (b *Budget) release(q *queue, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.inUse -= n; q.inUse < 0 {
		panic("budget: more was released than reserved")
	}
	b.serveLocked()
}

// serveLocked gives what is free to those who wait, in order of arrival, small reservations first.
func (b *Budget) serveLocked() {
	for _, q := range [...]*queue{&b.small, &b.large} {
		for len(q.waiters) > 0 && b.fitsLocked(q, q.waiters[0].n) {
			w := q.waiters[0]
			q.waiters[0] = nil
			q.waiters = q.waiters[1:]
			q.inUse += w.n
			b.grants++
			close(w.ready)
		}
	}
	if b.pressing && len(b.small.waiters)+len(b.large.waiters) == 0 {
		select {
		case b.idle <- struct{}{}:
		default:
		}
	}
}

// press calls onPressure at once, and then whenever nothing moved for an interval, as long as somebody waits.
func (b *Budget) press() {
	ticker := time.NewTicker(pressureInterval)
	defer ticker.Stop()
	var grants uint64
	for first := true; ; first = false {
		b.mu.Lock()
		if len(b.small.waiters)+len(b.large.waiters) == 0 {
			b.pressing = false
			b.mu.Unlock()
			return
		}
		due := first || b.grants == grants
		grants = b.grants
		b.mu.Unlock()
		if due {
			b.Press()
		}
		select {
		case <-ticker.C:
		case <-b.idle:
		}
	}
}

// Press calls what OnPressure set, unless that was done within the last 100 ms. A holder that makes do with less than
// it wants, instead of waiting, calls it.
func (b *Budget) Press() {
	b.mu.Lock()
	now := time.Now()
	due := b.onPressure != nil && now.Sub(b.pressed) >= pressureInterval
	if due {
		b.pressed = now
	}
	b.mu.Unlock()
	if due {
		b.onPressure()
	}
}
