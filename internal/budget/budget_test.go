package budget

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMoreThanThereIsFailsAtOnce(t *testing.T) {
	b := New(10)
	if err := b.Acquire(t.Context(), 11); err == nil {
		t.Error("11 bytes of 10 were reserved")
	}
	if b.TryAcquire(11) {
		t.Error("11 bytes of 10 were reserved without waiting")
	}
	if err := b.Acquire(t.Context(), 10); err != nil {
		t.Errorf("a failed reservation took something: %v", err)
	}
	if b.Size() != 10 || b.InUse() != 10 {
		t.Errorf("size %d, in use %d, want 10 and 10", b.Size(), b.InUse())
	}
}

// TestLargeRequestIsNotStarved keeps small requests coming behind a large one.
func TestLargeRequestIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		if !b.TryAcquire(8) {
			t.Fatal("an empty budget refused")
		}
		var order []string
		var mu sync.Mutex
		acquire := func(name string, n int64) {
			go func() {
				if err := b.Acquire(t.Context(), n); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
			}()
			synctest.Wait()
		}
		acquire("large", 10)
		acquire("small", 1)
		if len(order) != 0 || b.TryAcquire(1) {
			t.Fatalf("a small request overtook the large one that waits: %v", order)
		}
		b.Release(8)
		synctest.Wait()
		b.Release(10)
		synctest.Wait()
		if len(order) != 2 || order[0] != "large" {
			t.Errorf("served in order %v", order)
		}
		b.Release(1)
	})
}

func TestWaitingEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1)
		b.TryAcquire(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Acquire(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the context's error", err)
		}
		b.Release(1)
		if !b.TryAcquire(1) || b.InUse() != 1 {
			t.Errorf("the one that gave up holds something: %d in use", b.InUse())
		}
	})
}

// TestBoundHolds has many holders; what they hold together must never exceed the bound, and all comes back.
func TestBoundHolds(t *testing.T) {
	const size = 100
	b := New(size)
	var held atomic.Int64
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 500 {
				n := 1 + r.Int64N(size)
				if r.IntN(2) == 0 {
					if !b.TryAcquire(n) {
						continue
					}
				} else if err := b.Acquire(context.Background(), n); err != nil {
					t.Error(err)
					return
				}
				if now := held.Add(n); now > size {
					t.Errorf("%d bytes held of %d", now, size)
				}
				held.Add(-n)
				b.Release(n)
			}
		})
	}
	wg.Wait()
	if b.InUse() != 0 {
		t.Errorf("%d bytes never came back", b.InUse())
	}
}
