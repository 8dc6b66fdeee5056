// Package refresh lets callers that want the newest state of something share looks at it: rounds of requests to a
// cluster, listings of a bucket.
//
// Invariants:
//   - A call is answered by a look that began after it, never by one that was under way.
//   - Calls that wait together share one look.
//   - A key is part of one look at a time, and a look may keep its keys from the next one for a while (Look.Rest), so
//     that callers who ask again and again cost the other side no more than that.
//
// The package knows nothing of what a look does, and starts no look by itself: Queue.Run does, or a loop of the owner's
// that calls Queue.Take.
package refresh

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// Queue collects calls until a look takes them. K is what a call may be about, A what a look comes to. Its methods may
// be called concurrently; make it with New.
type Queue[K comparable, A any] struct {
	wanted chan struct{} // holds one

	mu      sync.Mutex
	calls   []call[K, A]           // that wait, in order
	looking map[K]*Look[K, A]      // the look that runs, by key
	resting map[K]func() time.Time // when the next look at a key may begin
	closed  error
}

type call[K comparable, A any] struct {
	keys   []K
	answer chan outcome[A] // holds one
}

type outcome[A any] struct {
	answer A
	err    error
}

// New makes a Queue.
func New[K comparable, A any]() *Queue[K, A] {
	return &Queue[K, A]{wanted: make(chan struct{}, 1), looking: map[K]*Look[K, A]{}, resting: map[K]func() time.Time{}}
}

// Ask waits for a look at the keys, all in one, that begins after the call. The error is ctx's or that of Close.
func (q *Queue[K, A]) Ask(ctx context.Context, keys ...K) (answer A, err error) {
	c := call[K, A]{keys, make(chan outcome[A], 1)}
	q.mu.Lock()
	if q.closed != nil {
		defer q.mu.Unlock()
		return answer, q.closed
	}
	q.calls = append(q.calls, c)
	q.wake()
	q.mu.Unlock()
	select {
	case o := <-c.answer:
		return o.answer, o.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// Wanted has a value once calls wait that Take has not seen.
func (q *Queue[K, A]) Wanted() <-chan struct{} { return q.wanted }

// Waiting is how many calls no look has taken yet.
func (q *Queue[K, A]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.calls)
}

func (q *Queue[K, A]) wake() {
	select {
	case q.wanted <- struct{}{}:
	default:
	}
}

// Take begins a look, for the calls about at most so many keys whose keys may be looked at now; those of one call are
// taken whatever their number. nil: there is none. next is when to call Take again if Wanted does not say so before,
// zero: never.
func (q *Queue[K, A]) Take(most int) (l *Look[K, A], next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.wanted:
	default:
	}
	now := time.Now()
	for key, until := range q.resting {
		switch at := until(); {
		case !at.After(now):
			delete(q.resting, key)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	taken := &Look[K, A]{queue: q}
	q.calls = slices.DeleteFunc(q.calls, func(c call[K, A]) bool {
		more := 0
		for _, key := range c.keys {
			_, rests := q.resting[key]
			by := q.looking[key]
			if rests || by != nil && by != taken {
				return false
			}
			if by == nil {
				more++
			}
		}
		if len(taken.calls) > 0 && len(taken.Keys)+more > most {
			return false
		}
		taken.calls = append(taken.calls, c)
		for _, key := range c.keys {
			if q.looking[key] == nil {
				q.looking[key] = taken
				taken.Keys = append(taken.Keys, key)
			}
		}
		return true
	})
	if len(taken.calls) == 0 {
		return nil, next
	}
	return taken, next
}

// Close fails the calls that wait and all later ones with err. Calls of looks that run are answered by those.
func (q *Queue[K, A]) Close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = err
	for _, c := range q.calls {
		c.answer <- outcome[A]{err: err}
	}
	q.calls = nil
}

// Run looks whenever calls wait, until ctx ends: at most parallel looks at a time, each about at most so many keys.
// look may leave Look.End to another goroutine; the next look may begin when look returns. Run returns when all have.
// It leaves the calls that still wait to Close.
func (q *Queue[K, A]) Run(ctx context.Context, parallel, most int, look func(context.Context, *Look[K, A])) {
	var running sync.WaitGroup
	defer running.Wait()
	turns := make(chan struct{}, parallel)
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		l, next := q.Take(most)
		for l == nil {
			timer.Reset(math.MaxInt64)
			if !next.IsZero() {
				timer.Reset(time.Until(next))
			}
			select {
			case <-q.wanted:
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			l, next = q.Take(most)
		}
		running.Go(func() {
			defer func() { <-turns }()
			look(ctx, l)
		})
	}
}

// Look is one look, for the calls that share it. It is one goroutine's.
type Look[K comparable, A any] struct {
	Keys []K // each once, in the order of the calls

	queue *Queue[K, A]
	calls []call[K, A]
	rests map[K]func() time.Time
}

// Rest says when the next look at a key may begin, after this one has ended. until is called under the Queue's lock
// whenever the question comes up; its answers may differ.
func (l *Look[K, A]) Rest(key K, until func() time.Time) {
	if l.rests == nil {
		l.rests = map[K]func() time.Time{}
	}
	l.rests[key] = until
}

// End answers the calls. A nil Look has none.
func (l *Look[K, A]) End(answer A) {
	if l == nil {
		return
	}
	for _, c := range l.calls {
		c.answer <- outcome[A]{answer: answer}
	}
	q := l.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range l.Keys {
		delete(q.looking, key)
		if until := l.rests[key]; until != nil {
			q.resting[key] = until
		}
	}
	if len(q.calls) > 0 || len(l.rests) > 0 {
		q.wake()
	}
}
