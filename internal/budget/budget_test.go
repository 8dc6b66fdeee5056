package budget

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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

// TestReserve: what is kept for small reservations is there for them, and for them only.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewWithReserve(100, 20)
		if b.TryAcquire(81) || b.Small().TryAcquire(21) || b.Acquire(t.Context(), 81) == nil || b.Small().Acquire(t.Context(), 21) == nil {
			t.Fatal("more than there ever is was reserved")
		}
		if !b.TryAcquire(80) || b.TryAcquire(1) {
			t.Fatal("large reservations have 80 bytes")
		}
		large := make(chan error, 1)
		go func() { large <- b.Acquire(t.Context(), 80) }()
		synctest.Wait()
		// A small one does not wait behind it, up to the reserve.
		if err := b.Small().Acquire(t.Context(), 15); err != nil {
			t.Fatal(err)
		}
		small := make(chan error, 1)
		go func() { small <- b.Small().Acquire(t.Context(), 10) }()
		synctest.Wait()
		if len(small) > 0 || b.Small().TryAcquire(1) || b.InUse() != 95 {
			t.Fatalf("%d bytes in use", b.InUse())
		}
		// Small ones have what the large ones leave, but do not keep one waiting with more than the reserve.
		b.Release(80)
		synctest.Wait()
		if len(large) != 1 || len(small) != 0 {
			t.Fatalf("%d bytes in use, large %d, small %d", b.InUse(), len(large), len(small))
		}
		b.Small().Release(15)
		synctest.Wait()
		if len(small) != 1 {
			t.Fatal("the small one still waits")
		}
		b.Release(80)
		if first, second := b.Small().TryAcquire(20), b.Small().TryAcquire(20); !first || !second || b.InUse() != 50 {
			t.Errorf("%d bytes in use", b.InUse())
		}
		b.Small().Release(50)
	})
}

// TestShares: one kind of holder leaves memory for the others, and who waits for a share keeps nobody of another
// waiting.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewWithReserve(800, 50)
		wait := func(s *Share, n int64) chan error {
			done := make(chan error, 1)
			go func() { done <- s.Acquire(t.Context(), n) }()
			synctest.Wait()
			return done
		}
		if !b.Buffers().TryAcquire(300) || b.Buffers().TryAcquire(1) || !b.Streams().TryAcquire(200) || b.Streams().TryAcquire(1) {
			t.Fatal("buffers have three eighths, streams with them five")
		}
		buffer, stream := wait(b.Buffers(), 10), wait(b.Streams(), 700)
		if len(buffer)+len(stream) > 0 || !b.Batches().TryAcquire(200) || b.Batches().TryAcquire(1) {
			t.Fatal("batches have a quarter, whoever waits for another share")
		}
		if !b.TryAcquire(50) || b.TryAcquire(1) || !b.Small().TryAcquire(50) || b.InUse() != 800 {
			t.Fatalf("%d in use", b.InUse())
		}
		b.Buffers().Release(10)
		synctest.Wait()
		if len(buffer) != 1 || len(stream) > 0 {
			t.Fatal("the first buffer to come back goes to the one that waits for it")
		}
		// With none beside it, a stream's batch may be larger than the share. While it waits for the budget as a whole,
		// what came later waits behind it.
		b.Streams().Release(200)
		later := wait(b.General(), 1)
		b.Batches().Release(200)
		b.Release(50)
		b.Buffers().Release(240)
		synctest.Wait()
		if len(stream)+len(later) > 0 || b.Batches().TryAcquire(1) || b.Small().TryAcquire(1) {
			t.Fatalf("%d in use, %d %d", b.InUse(), len(stream), len(later))
		}
		b.Buffers().Release(20)
		synctest.Wait()
		if len(stream) != 1 || len(later) != 1 {
			t.Fatalf("%d in use, %d %d", b.InUse(), len(stream), len(later))
		}
		if <-stream != nil || <-later != nil || b.InUse() != 791 {
			t.Errorf("%d in use", b.InUse())
		}
	})
}

// TestPressure: holders are asked to let go while somebody waits and nothing moves, at once and every interval.
func TestPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewWithReserve(100, 20)
		var calls atomic.Int64
		b.OnPressure(func(wanted Shares) {
			if calls.Add(1); wanted&b.General().Set() == 0 {
				t.Errorf("%b wanted, not what holds all there is", wanted)
			}
		})
		b.TryAcquire(80)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- b.Acquire(ctx, 10) }()
		synctest.Wait()
		if calls.Load() != 1 {
			t.Fatalf("%d calls at once", calls.Load())
		}
		go func() { done <- b.Acquire(ctx, 5) }()
		time.Sleep(10*pressureInterval + time.Millisecond)
		if calls.Load() != 11 {
			t.Errorf("%d calls in ten intervals", calls.Load())
		}
		b.Press()
		if calls.Load() != 11 {
			t.Error("asked twice within an interval")
		}
		b.Release(10) // the first goes on, which is a movement
		time.Sleep(pressureInterval)
		if calls.Load() != 11 || len(done) != 1 {
			t.Errorf("%d calls although something moved", calls.Load())
		}
		time.Sleep(pressureInterval)
		if calls.Load() != 12 {
			t.Errorf("%d calls", calls.Load())
		}
		cancel()
		synctest.Wait()
		time.Sleep(time.Second)
		if calls.Load() != 12 || len(done) != 2 {
			t.Errorf("%d calls after the last one went away", calls.Load())
		}
		// One that makes do with less asks as well.
		b.Press()
		if calls.Load() != 13 {
			t.Errorf("%d calls", calls.Load())
		}
		b.Release(80)
	})
}

// TestPressureNamesTheSharesThatAreFull: where a share is full and the budget is not, only what is held of that share
// helps the one that waits.
func TestPressureNamesTheSharesThatAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewWithReserve(800, 50)
		buffers, streams, batches := b.Buffers().Set(), b.Streams().Set(), b.Batches().Set()
		sets := []Shares{b.Small().Set(), b.General().Set(), buffers, streams, batches}
		for i, set := range sets {
			if set == 0 || set&allShares != set || slices.ContainsFunc(sets[:i], func(other Shares) bool { return other&set != 0 }) {
				t.Errorf("sets %b", sets)
			}
		}
		asked := make(chan Shares, 100)
		b.OnPressure(func(wanted Shares) { asked <- wanted })
		ask := func(s *Share, n int64) Shares {
			time.Sleep(2 * pressureInterval)
			s.Press(n)
			byPress := <-asked
			ctx, cancel := context.WithTimeout(t.Context(), 2*pressureInterval)
			defer cancel()
			time.Sleep(pressureInterval)
			if s.Acquire(ctx, n) == nil {
				t.Error("nothing was full")
			}
			if byWaiting := <-asked; byWaiting != byPress {
				t.Errorf("waiting asks for %b, making do for %b", byWaiting, byPress)
			}
			for len(asked) > 0 {
				<-asked
			}
			return byPress
		}
		b.Buffers().TryAcquire(300)
		b.Batches().TryAcquire(200)
		if got := ask(b.Buffers(), 1); got != buffers {
			t.Errorf("buffers are full: %b", got)
		}
		if got := ask(b.Batches(), 1); got != batches {
			t.Errorf("batches are full: %b", got)
		}
		b.Streams().TryAcquire(200)
		if got := ask(b.Streams(), 1); got != streams|buffers {
			t.Errorf("streams are full, beside buffers: %b", got)
		}
		if got := ask(b.General(), 100); got != allShares {
			t.Errorf("the budget is full: %b", got)
		}
		b.Streams().Release(200)
		b.Batches().Release(200)
		b.Buffers().Release(300)
	})
}

// TestWhoGivesUpLetsOthersPass: what stood behind one that was too large goes on.
func TestWhoGivesUpLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		b.TryAcquire(5)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- b.Acquire(ctx, 10) }()
		synctest.Wait()
		go func() { done <- b.Acquire(t.Context(), 5) }()
		synctest.Wait()
		cancel()
		if first, second := <-done, <-done; !errors.Is(first, context.Canceled) && !errors.Is(second, context.Canceled) || b.InUse() != 10 {
			t.Errorf("%v, %v, %d in use", first, second, b.InUse())
		}
		b.Release(10)
	})
}

// TestBoundHolds has many holders; what they hold together must never exceed the bound, and all comes back.
func TestBoundHolds(t *testing.T) {
	const size, reserve = 100, 20
	b := NewWithReserve(size, reserve)
	var held atomic.Int64
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 500 {
				most, try, acquire, release := int64(size-reserve), b.TryAcquire, b.Acquire, b.Release
				switch r.IntN(5) {
				case 0:
					most, try, acquire, release = reserve, b.Small().TryAcquire, b.Small().Acquire, b.Small().Release
				case 1:
					try, acquire, release = b.Buffers().TryAcquire, b.Buffers().Acquire, b.Buffers().Release
				case 2:
					try, acquire, release = b.Streams().TryAcquire, b.Streams().Acquire, b.Streams().Release
				case 3:
					try, acquire, release = b.Batches().TryAcquire, b.Batches().Acquire, b.Batches().Release
				}
				n := 1 + r.Int64N(most)
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(8) == 0 {
					cancel()
				}
				defer cancel()
				if r.IntN(2) == 0 {
					if !try(n) {
						continue
					}
				} else if err := acquire(ctx, n); errors.Is(err, context.Canceled) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				if now := held.Add(n); now > size {
					t.Errorf("%d bytes held of %d", now, size)
				}
				held.Add(-n)
				release(n)
			}
		})
	}
	wg.Wait()
	if b.InUse() != 0 {
		t.Errorf("%d bytes never came back", b.InUse())
	}
}
