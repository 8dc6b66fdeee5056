// Package budget bounds memory by weight: holders reserve bytes before they allocate, wait in order of arrival when
// the bound is reached, and give the bytes back. It is FIFO, so that a large request is not starved by small ones.
package budget

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Budget is a byte bound shared by many holders. All methods may be called concurrently.
type Budget struct {
	sem   *semaphore.Weighted
	size  int64
	inUse atomic.Int64
}

// New makes a budget of size bytes.
func New(size int64) *Budget {
	return &Budget{sem: semaphore.NewWeighted(size), size: size}
}

// Size is the bound in bytes.
func (b *Budget) Size() int64 { return b.size }

// InUse is how many bytes are reserved now.
func (b *Budget) InUse() int64 { return b.inUse.Load() }

// Acquire reserves n bytes, waiting in turn until they are free or ctx ends. More than Size fails at once.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if n > b.size {
		return fmt.Errorf("reserve %d bytes of a budget of %d", n, b.size)
	}
	if err := b.sem.Acquire(ctx, n); err != nil {
		return err
	}
	b.inUse.Add(n)
	return nil
}

// TryAcquire reserves n bytes if that needs no waiting.
func (b *Budget) TryAcquire(n int64) bool {
	if !b.sem.TryAcquire(n) {
		return false
	}
	b.inUse.Add(n)
	return true
}

// Release gives n reserved bytes back.
func (b *Budget) Release(n int64) {
	b.inUse.Add(-n)
	b.sem.Release(n)
}
