// Package flight shares loads: of all callers that want the value of a key at a time, one loads it and the others wait
// for that load.
//
// A Group works under the mutex of the cache that it belongs to, as a sync.Cond works under its L. So looking for a
// kept value, joining the load that will bring it, and beginning that load are one step, and so are keeping a value and
// taking its load out of the group. A caller that looked just before a load ended would otherwise load once more.
//
// Invariants:
//   - A key has one flight at a time. A key that is forgotten may have a new one while the old one goes on, whose value
//     is then for its waiters only.
//   - The caller that begins a flight runs the load and lands the flight: on its own goroutine, under its own context,
//     or on another goroutine, under a context of the flight.
//   - A caller that waits may leave at any time. With the last one ends the context of the flight, unless the load is
//     committed.
//   - A failure is returned to all that wait and is not kept: the next caller begins a new flight.
//   - A load that fails because the context of the caller that runs it has ended says nothing about the key. It lands
//     as ErrAbandoned, and one of those that waited begins anew.
//   - A load that panics lands as well, when Land is deferred.
//
// Non-goals: keeping values, and limiting how many loads run at a time. There are never more flights than callers and
// committed loads.
package flight

import (
	"context"
	"errors"
	"sync"
)

var (
	// ErrAbandoned is for those that wait: the caller that ran the load gave up. Ask again.
	ErrAbandoned = errors.New("the load was abandoned by the caller that ran it")
	// ErrUnfinished is what a load lands with that ended without a value or an error, by a panic.
	ErrUnfinished = errors.New("the load that was waited for ended without a result")
)

// Group is the flights of a cache, by key. Methods that end in Locked are called with the mutex held.
type Group[K comparable, V any] struct {
	mu      *sync.Mutex
	flights map[K]*Flight[K, V]
}

// NewGroup makes a group under the mutex of a cache.
func NewGroup[K comparable, V any](mu *sync.Mutex) *Group[K, V] {
	return &Group[K, V]{mu: mu, flights: make(map[K]*Flight[K, V])}
}

// Flight is one load.
type Flight[K comparable, V any] struct {
	group *Group[K, V]
	key   K

	// Guarded by the group's mutex.
	waiters   int
	cancel    context.CancelFunc // of ContextLocked, else nil
	committed bool
	landed    bool

	done  chan struct{} // closed once value and err are set
	value V
	err   error
}

// JoinLocked gives the flight of a key. When the caller begins it, it has to land it; otherwise it has to Wait.
func (g *Group[K, V]) JoinLocked(key K) (f *Flight[K, V], begun bool) {
	if f = g.flights[key]; f == nil {
		f = &Flight[K, V]{group: g, key: key, done: make(chan struct{})}
		g.flights[key], begun = f, true
	}
	f.waiters++
	return f, begun
}

// ForgetLocked makes the next caller for the key begin anew. A flight under way serves those that wait for it.
func (g *Group[K, V]) ForgetLocked(key K) { delete(g.flights, key) }

// ForgetMatchesLocked is ForgetLocked for all keys that match.
func (g *Group[K, V]) ForgetMatchesLocked(match func(K) bool) {
	for key := range g.flights {
		if match(key) {
			delete(g.flights, key)
		}
	}
}

// LenLocked counts the flights that can be joined.
func (g *Group[K, V]) LenLocked() int { return len(g.flights) }

// Key is what the flight loads.
func (f *Flight[K, V]) Key() K { return f.key }

// ContextLocked is the context of a load that runs on a goroutine of its own. It ends with parent, with the flight, and
// when the last caller has left before Commit. The caller that begins the flight asks for it before it waits, once.
func (f *Flight[K, V]) ContextLocked(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	f.cancel = cancel
	return ctx
}

// Commit makes the load go on whether or not a caller still waits. It returns false when none does: then the load is
// not worth beginning, and has to land.
func (f *Flight[K, V]) Commit() bool {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.committed = f.waiters > 0
	return f.committed
}

// Wait returns what the flight lands with. When ctx ends before, it leaves the flight and returns the error of ctx.
func (f *Flight[K, V]) Wait(ctx context.Context) (V, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
	}
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	if f.waiters--; f.waiters == 0 && f.cancel != nil && !f.committed {
		f.unlistLocked()
		f.cancel()
	}
	var none V
	return none, ctx.Err()
}

// LandLocked ends the flight with a value or an error. It returns whether the cache may keep the value: there is one,
// and the key was not forgotten since the flight began. Only the first call counts.
func (f *Flight[K, V]) LandLocked(value V, err error) (keep bool) {
	if f.landed {
		return false
	}
	keep = f.unlistLocked() && err == nil
	f.landed, f.value, f.err = true, value, err
	if f.cancel != nil {
		f.cancel()
	}
	close(f.done)
	return keep
}

// unlistLocked takes the flight out of the group; false when it is out already.
func (f *Flight[K, V]) unlistLocked() bool {
	if f.group.flights[f.key] != f {
		return false
	}
	delete(f.group.flights, f.key)
	return true
}
