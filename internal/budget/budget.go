// Package budget bounds memory by weight: holders reserve bytes before they allocate, wait in order of arrival when
// the bound is reached, and give the bytes back. It is FIFO, so that a large request is not starved by small ones.
//
// A budget may keep a reserve for small reservations, which have a queue of their own: they do not wait behind large
// ones, and larger ones cannot take all there is. Further shares bound what is held of one kind, so that one kind of
// holder leaves memory for the others however many there are: a reservation that waits for its own share keeps none
// of another share waiting. While reservations wait and none is granted, OnPressure is called.
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
	small      Share
	shares     [numShares]Share // all but small
	arrivals   uint64
	onPressure func(wanted Shares)
	pressing   bool      // a goroutine calls onPressure
	pressed    time.Time // it was called last
	grants     uint64    // of reservations that waited
	idle       chan struct{}
}

// Share is the reservations of one kind, with a queue of their own. Together they may take most bytes, or a single one
// more when there is no other. All methods may be called concurrently.
type Share struct {
	b       *Budget
	most    int64
	beside  *Share // its reservations count as well
	inUse   int64
	waiters []*waiter
}

// Shares is a set of shares.
type Shares uint8

type waiter struct {
	n       int64
	arrival uint64
	ready   chan struct{} // closed when the bytes are reserved
}

// Shares beside small reservations.
const (
	general = iota // what Acquire takes
	buffers
	streams
	batches
	numShares
	// small has its own place in a set.
	small = numShares
)

// allShares is every share of a budget.
const allShares Shares = 1<<(small+1) - 1

// New makes a budget of size bytes without a reserve.
func New(size int64) *Budget { return NewWithReserve(size, 0) }

// NewWithReserve makes a budget of size bytes, of which reserve are for small reservations only.
func NewWithReserve(size, reserve int64) *Budget {
	b := &Budget{size: size, reserve: reserve, idle: make(chan struct{}, 1)}
	b.small = Share{b: b, most: size}
	b.shares = [...]Share{
		general: {b: b, most: b.Large()},
		buffers: {b: b, most: size / 8 * 3},
		streams: {b: b, most: size / 8 * 5, beside: &b.shares[buffers]},
		batches: {b: b, most: size / 4},
	}
	return b
}

// General is the share of Acquire, TryAcquire and Release: all but the reserve.
func (b *Budget) General() *Share { return &b.shares[general] }

// Small is for reservations of at most Reserve bytes each, which come before all others.
func (b *Budget) Small() *Share { return &b.small }

// Buffers are what streams encode and compress into, each held as long as its answer takes: three eighths of the
// budget.
func (b *Budget) Buffers() *Share { return &b.shares[buffers] }

// Streams are the batches of streams, held while a client takes them: with the buffers five eighths of the budget. A
// stream may wait for one while it holds a buffer: buffers never take all.
func (b *Budget) Streams() *Share { return &b.shares[streams] }

// Batches are those of answers that are made whole: a quarter of the budget. What such an answer is made in may be
// waited for while a batch is held: streams and batches never take all.
func (b *Budget) Batches() *Share { return &b.shares[batches] }

// Set is the set of this share alone.
func (s *Share) Set() Shares {
	for i := range s.b.shares {
		if s == &s.b.shares[i] {
			return 1 << i
		}
	}
	return 1 << small
}

// OnPressure sets what is called, at most every 100 ms, while reservations wait and none is granted: it should make
// those let go that hold bytes of the wanted shares for long. It must be set before the budget is used.
func (b *Budget) OnPressure(f func(wanted Shares)) { b.onPressure = f }

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
	return b.small.inUse + b.largeLocked()
}

// largeLocked is how many bytes are reserved and not small.
func (b *Budget) largeLocked() (n int64) {
	for i := range b.shares {
		n += b.shares[i].inUse
	}
	return n
}

// Acquire reserves n bytes of no particular kind, waiting in turn until they are free or ctx ends. More than Large
// fails at once.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	return b.shares[general].Acquire(ctx, n)
}

// TryAcquire reserves n bytes of no particular kind if that needs no waiting.
func (b *Budget) TryAcquire(n int64) bool { return b.shares[general].TryAcquire(n) }

// Release gives n bytes back that Acquire or TryAcquire reserved.
func (b *Budget) Release(n int64) { b.shares[general].Release(n) }

// Acquire is Budget.Acquire for the share, to be given back to it. More than there ever is fails at once.
func (s *Share) Acquire(ctx context.Context, n int64) error {
	b := s.b
	if most := s.largest(); n > most {
		return fmt.Errorf("reserve %d bytes of a budget that gives at most %d", n, most)
	}
	b.mu.Lock()
	if b.freeLocked(s, n) {
		s.inUse += n
		b.mu.Unlock()
		return nil
	}
	b.arrivals++
	w := &waiter{n: n, arrival: b.arrivals, ready: make(chan struct{})}
	s.waiters = append(s.waiters, w)
	if b.onPressure != nil && !b.pressing {
		b.pressing = true
		go b.pressWhileWaiting()
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
	s.waiters = slices.DeleteFunc(s.waiters, func(other *waiter) bool { return other == w })
	b.serveLocked() // it may have stood before one that fits
	return ctx.Err()
}

// largest is the largest reservation that the share can ever give.
func (s *Share) largest() int64 {
	if s == &s.b.small {
		return s.b.reserve
	}
	return s.b.Large()
}

// TryAcquire reserves n bytes if that needs no waiting.
func (s *Share) TryAcquire(n int64) bool {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if n > s.largest() || !s.b.freeLocked(s, n) {
		return false
	}
	s.inUse += n
	return true
}

// freeLocked says whether n more bytes may be reserved without getting ahead of one that waits. While others wait for
// more memory than there is, small reservations have the reserve and no more: what they took beside it would keep
// coming before them.
func (b *Budget) freeLocked(s *Share, n int64) bool {
	if len(s.waiters) > 0 || !b.fitsLocked(s, n) {
		return false
	}
	return b.nextLocked() == nil || s == &b.small && s.inUse+n <= b.reserve
}

// allowsLocked says whether the share, apart from the budget, has room for n more bytes.
func (s *Share) allowsLocked(n int64) bool {
	inUse := s.inUse
	if s.beside != nil {
		inUse += s.beside.inUse
	}
	return inUse+n <= s.most || s.inUse == 0
}

func (b *Budget) fitsLocked(s *Share, n int64) bool {
	large := b.largeLocked()
	return s.allowsLocked(n) && large+b.small.inUse+n <= b.size && (s == &b.small || large+n <= b.Large())
}

// nextLocked gives the share whose first waiter comes next, nil when none waits for more than its share: the one that
// has waited the longest, small reservations left out.
func (b *Budget) nextLocked() (next *Share) {
	for i := range b.shares {
		s := &b.shares[i]
		if len(s.waiters) == 0 || !s.allowsLocked(s.waiters[0].n) {
			continue
		}
		if next == nil || s.waiters[0].arrival < next.waiters[0].arrival {
			next = s
		}
	}
	return next
}

// Release gives n reserved bytes back.
func (s *Share) Release(n int64) {
	if n == 0 {
		return
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.inUse -= n; s.inUse < 0 {
		panic("budget: more was released than reserved")
	}
	s.b.serveLocked()
}

// serveLocked grants what fits of the reservations that wait, small ones first, then in order of arrival.
func (b *Budget) serveLocked() {
	for s := &b.small; len(s.waiters) > 0; {
		n := s.waiters[0].n
		if !b.fitsLocked(s, n) || b.nextLocked() != nil && s.inUse+n > b.reserve {
			break
		}
		b.grantLocked(s)
	}
	for s := b.nextLocked(); s != nil && b.fitsLocked(s, s.waiters[0].n); s = b.nextLocked() {
		b.grantLocked(s)
	}
	if b.pressing && !b.waitingLocked() {
		select {
		case b.idle <- struct{}{}:
		default:
		}
	}
}

func (b *Budget) grantLocked(s *Share) {
	w := s.waiters[0]
	s.waiters[0] = nil
	s.waiters = s.waiters[1:]
	s.inUse += w.n
	b.grants++
	close(w.ready)
}

func (b *Budget) waitingLocked() bool {
	for i := range b.shares {
		if len(b.shares[i].waiters) > 0 {
			return true
		}
	}
	return len(b.small.waiters) > 0
}

// pressWhileWaiting calls onPressure at once, and then whenever nothing was granted for an interval, as long as
// reservations wait.
func (b *Budget) pressWhileWaiting() {
	ticker := time.NewTicker(pressureInterval)
	defer ticker.Stop()
	var grants uint64
	for first := true; ; first = false {
		b.mu.Lock()
		if !b.waitingLocked() {
			b.pressing = false
			b.mu.Unlock()
			return
		}
		due := first || b.grants == grants
		grants = b.grants
		wanted := b.wantedLocked()
		b.mu.Unlock()
		if due {
			b.press(wanted)
		}
		select {
		case <-ticker.C:
		case <-b.idle:
		}
	}
}

// wantedLocked gives the shares of which bytes would serve those who are next to be served.
func (b *Budget) wantedLocked() (wanted Shares) {
	for i := range b.shares {
		if s := &b.shares[i]; len(s.waiters) > 0 {
			wanted |= s.blockedByLocked(s.waiters[0].n)
		}
	}
	if len(b.small.waiters) > 0 {
		wanted |= allShares
	}
	return wanted
}

// blockedByLocked gives the shares of which bytes would serve n more bytes of s: its own when that is full, whatever
// else is free, and all when the budget is.
func (s *Share) blockedByLocked(n int64) Shares {
	if s.allowsLocked(n) {
		return allShares
	}
	blocked := s.Set()
	if s.beside != nil {
		blocked |= s.beside.Set()
	}
	return blocked
}

// Press calls what OnPressure set, unless that was done within the last 100 ms, for a holder that makes do with less
// instead of waiting for n more bytes of the share.
func (s *Share) Press(n int64) {
	s.b.mu.Lock()
	wanted := s.blockedByLocked(n)
	s.b.mu.Unlock()
	s.b.press(wanted)
}

// Press is Share.Press for one that makes do with less because the budget as a whole is nearly used up.
func (b *Budget) Press() { b.press(allShares) }

func (b *Budget) press(wanted Shares) {
	b.mu.Lock()
	now := time.Now()
	due := b.onPressure != nil && now.Sub(b.pressed) >= pressureInterval
	if due {
		b.pressed = now
	}
	b.mu.Unlock()
	if due {
		b.onPressure(wanted)
	}
}
