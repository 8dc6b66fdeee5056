package refresh

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// looks runs a Queue whose looks take a second and come to the time at which they began, and notes them.
type looks struct {
	*Queue[int, time.Time]
	mu   sync.Mutex
	keys [][]int // of each look
	at   []time.Time
}

func run(t *testing.T, parallel, most int, rest func(l *Look[int, time.Time], began time.Time)) *looks {
	q := &looks{Queue: New[int, time.Time]()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Run(ctx, parallel, most, func(_ context.Context, l *Look[int, time.Time]) {
			began := time.Now()
			q.mu.Lock()
			q.keys, q.at = append(q.keys, slices.Sorted(slices.Values(l.Keys))), append(q.at, began)
			q.mu.Unlock()
			time.Sleep(time.Second)
			if rest != nil {
				rest(l, began)
			}
			l.End(began)
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return q
}

// done gives the keys of the looks that began so far, and when they did.
func (q *looks) done() (keys [][]int, at []time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.keys), slices.Clone(q.at)
}

// ask wants an answer from a look that began after the call.
func (q *looks) ask(t *testing.T, keys ...int) {
	called := time.Now()
	if began, err := q.Ask(t.Context(), keys...); err != nil || began.Before(called) {
		t.Errorf("about %v, asked at %v: a look of %v, %v", keys, called, began, err)
	}
}

// TestCallsShareTheLookAfterThem, and those that come during a look share the next one.
func TestCallsShareTheLookAfterThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := run(t, 1, math.MaxInt, nil)
		var calls sync.WaitGroup
		for range 3 {
			for n := range 20 {
				calls.Go(func() { q.ask(t, n%4) })
			}
			time.Sleep(time.Second / 4)
		}
		calls.Wait()
		keys, at := q.done()
		if all := []int{0, 1, 2, 3}; len(keys) > 3 || !slices.Equal(keys[len(keys)-1], all) {
			t.Errorf("looks at %v", keys)
		}
		if took := at[len(at)-1].Sub(at[0]); took > 2*time.Second {
			t.Errorf("the last one begins %v after the first", took)
		}
	})
}

// TestAKeyRests: who asks again waits, who asks about another key does not.
func TestAKeyRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause := 10 * time.Second
		q := run(t, 1, math.MaxInt, func(l *Look[int, time.Time], began time.Time) {
			for _, key := range l.Keys {
				if key < 100 {
					l.Rest(key, func() time.Time { return began.Add(pause) })
				}
			}
		})
		start := time.Now()
		q.ask(t, 1)
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() { q.ask(t, 1) })
		}
		calls.Go(func() { q.ask(t, 1, 100) }) // waits for all its keys
		synctest.Wait()
		q.ask(t, 100)
		q.ask(t, 100)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("what does not rest is answered after %v", took)
		}
		calls.Wait()
		if keys, _ := q.done(); time.Since(start) != 11*time.Second || !slices.Equal(keys[len(keys)-1], []int{1, 100}) {
			t.Errorf("what rests is answered after %v, by looks at %v", time.Since(start), keys)
		}
		// until is asked each time.
		calls.Go(func() { q.ask(t, 1) })
		synctest.Wait()
		pause = time.Second
		q.ask(t, 100)
		calls.Wait()
		if took := time.Since(start); took != 12*time.Second {
			t.Errorf("after the pause was cut short it is answered after %v", took)
		}
		time.Sleep(time.Hour)
		q.Queue.mu.Lock()
		defer q.Queue.mu.Unlock()
		if len(q.resting)+len(q.looking)+len(q.calls) > 0 {
			t.Errorf("it remembers %d, %d and %d", len(q.resting), len(q.looking), len(q.calls))
		}
	})
}

// TestLooksSideBySide: so many at a time, each about so many keys, and never two about one.
func TestLooksSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := run(t, 4, 1, nil)
		start := time.Now()
		var calls sync.WaitGroup
		for n := range 10 {
			calls.Go(func() { q.ask(t, n) })
		}
		synctest.Wait()
		calls.Go(func() { q.ask(t, 0) })
		if keys, _ := q.done(); len(keys) != 4 {
			t.Errorf("looks at %v at a time", keys)
		}
		calls.Wait()
		if keys, _ := q.done(); time.Since(start) != 3*time.Second || len(keys) > 11 {
			t.Errorf("%d looks took %v", len(keys), time.Since(start))
		}
		q.ask(t, 1, 2, 3) // more than one look is for, but one call's
		if keys, _ := q.done(); !slices.Equal(keys[len(keys)-1], []int{1, 2, 3}) {
			t.Errorf("the last look was at %v", keys[len(keys)-1])
		}
	})
}

// TestALookThatEndsLater than its function returns leaves the turn to others.
func TestALookThatEndsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int, int]()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			q.Run(ctx, 1, 1, func(_ context.Context, l *Look[int, int]) {
				if l.Keys[0] != 1 {
					l.End(l.Keys[0])
					return
				}
				running.Go(func() {
					time.Sleep(time.Minute)
					l.End(1)
				})
			})
		})
		start := time.Now()
		first := make(chan int, 2)
		for range 2 {
			go func() { n, _ := q.Ask(t.Context(), 1); first <- n }()
			synctest.Wait()
		}
		if n, err := q.Ask(t.Context(), 2); n != 2 || err != nil || time.Since(start) > 0 {
			t.Errorf("%d, %v after %v", n, err, time.Since(start))
		}
		<-first
		<-first
		if took := time.Since(start); took != 2*time.Minute {
			t.Errorf("two looks at one key took %v", took)
		}
		cancel()
		running.Wait()
	})
}

// TestCallsEnd with their context, and when the Queue is closed.
func TestCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int, int]()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Ask(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		enough := errors.New("enough")
		outcomes := make(chan error, 2)
		ask := func() { _, err := q.Ask(t.Context(), 1); outcomes <- err }
		go ask()
		synctest.Wait()
		l, _ := q.Take(1)
		go ask()
		synctest.Wait()
		q.Close(enough)
		if err := <-outcomes; err != enough {
			t.Error(err)
		}
		if _, err := q.Ask(t.Context(), 2); err != enough {
			t.Error(err)
		}
		l.End(7) // the call that it is for hears of it all the same
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
		l, next := q.Take(1)
		if l != nil || !next.IsZero() {
			t.Errorf("%v is left, %v", l, next)
		}
		l.End(8)
	})
}

// TestWantedIsOfCallsThatTakeHasNotSeen: no loop goes round for a call that was taken.
func TestWantedIsOfCallsThatTakeHasNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int, int]()
		ask := func() { q.Ask(t.Context(), 1) }
		go ask()
		synctest.Wait()
		l, _ := q.Take(1)
		if len(q.Wanted()) > 0 {
			t.Error("wanted, though it was taken")
		}
		l.End(0)
		if len(q.Wanted()) > 0 {
			t.Error("wanted, though none waits")
		}
		go ask()
		synctest.Wait()
		<-q.Wanted()
		l, _ = q.Take(1)
		l.End(0)
	})
}
