package flight

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

var errLoad = errors.New("load failed")

// memory is a cache as its users write one: it keeps everything.
type memory struct {
	mu      sync.Mutex
	kept    map[string]int
	flights *Group[string, int]
}

func newMemory() *memory {
	m := &memory{kept: map[string]int{}}
	m.flights = NewGroup[string, int](&m.mu)
	return m
}

// join is a caller that finds nothing.
func (m *memory) join(key string) (*Flight[string, int], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flights.JoinLocked(key)
}

// begin begins a flight whose load runs under a context of its own.
func (m *memory) begin(t *testing.T, key string, parent context.Context) (*Flight[string, int], context.Context) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	f, begun := m.flights.JoinLocked(key)
	if !begun {
		t.Fatalf("a flight for %s is under way", key)
	}
	return f, f.ContextLocked(parent)
}

func (m *memory) land(f *Flight[string, int], value int, err error) (kept bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept = f.LandLocked(value, err); kept {
		m.kept[f.Key()] = value
	}
	return kept
}

func (m *memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, key)
	m.flights.ForgetLocked(key)
}

func (m *memory) underWay() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flights.LenLocked()
}

func TestResultsAreShared(t *testing.T) {
	for name, want := range map[string]struct {
		value int
		err   error
		kept  bool
	}{"value": {7, nil, true}, "failure": {0, errLoad, false}, "given up": {0, ErrAbandoned, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				f, begun := m.join("a")
				if !begun {
					t.Fatal("the first caller begins nothing")
				}
				var waited atomic.Int32
				for range 10 {
					joined, begun := m.join("a")
					if begun || joined != f {
						t.Fatal("a caller begins a second flight")
					}
					go func() {
						if v, err := joined.Wait(t.Context()); v != want.value || err != want.err {
							t.Errorf("one that waits gets %d, %v", v, err)
						}
						waited.Add(1)
					}()
				}
				if other, begun := m.join("b"); !begun || other == f {
					t.Error("another key has the same flight")
				} else {
					m.land(other, 1, nil)
				}
				synctest.Wait()
				if n := waited.Load(); n != 0 {
					t.Errorf("%d have a result before there is one", n)
				}
				if kept := m.land(f, want.value, want.err); kept != want.kept {
					t.Errorf("kept: %v", kept)
				}
				synctest.Wait()
				if n := waited.Load(); n != 10 {
					t.Errorf("%d of 10 have the result", n)
				}
				if m.underWay() != 0 {
					t.Error("a flight that has landed is joined")
				}
				if m.land(f, 9, nil) {
					t.Error("a flight lands twice")
				}
				if v, err := f.Wait(t.Context()); v != want.value || err != want.err {
					t.Errorf("a later landing changes the result to %d, %v", v, err)
				}
			})
		})
	}
}

// Whether the load goes on when its callers leave, one after the other.
func TestCallersLeave(t *testing.T) {
	for name, tt := range map[string]struct {
		own, committed bool
		ends, listed   bool // after the last one has left
	}{
		"before the load is committed": {own: true, ends: true},
		"from a committed load":        {own: true, committed: true, listed: true},
		"from the load of a caller":    {listed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				var (
					f   *Flight[string, int]
					ctx = t.Context()
				)
				if tt.own {
					f, ctx = m.begin(t, "a", context.Background())
				} else {
					f, _ = m.join("a")
				}
				if tt.committed && !f.Commit() {
					t.Fatal("a load with a caller is not worth beginning")
				}
				first, leaveFirst := context.WithCancel(t.Context())
				second, leaveSecond := context.WithTimeout(t.Context(), time.Minute)
				defer leaveSecond()
				joined, _ := m.join("a")
				ended := make(chan error, 2)
				go func() { _, err := f.Wait(first); ended <- err }()
				go func() { _, err := joined.Wait(second); ended <- err }()
				synctest.Wait()
				leaveFirst()
				if err := <-ended; err != context.Canceled {
					t.Errorf("the first that leaves gets %v", err)
				}
				if ctx.Err() != nil || m.underWay() != 1 {
					t.Fatal("the load ends while a caller waits")
				}
				if err := <-ended; err != context.DeadlineExceeded {
					t.Errorf("the second that leaves gets %v", err)
				}
				if ended := ctx.Err() != nil; ended != tt.ends {
					t.Errorf("the load ended: %v, want %v", ended, tt.ends)
				}
				if listed := m.underWay() == 1; listed != tt.listed {
					t.Errorf("the flight can be joined: %v, want %v", listed, tt.listed)
				}
				if tt.own && !tt.committed && f.Commit() {
					t.Error("a load that no caller waits for is worth beginning")
				}
				if kept := m.land(f, 1, nil); kept != tt.listed {
					t.Errorf("kept: %v, want %v", kept, tt.listed)
				}
			})
		})
	}
}

func TestContextOfALoad(t *testing.T) {
	m := newMemory()
	parent, cancel := context.WithCancel(context.Background())
	f, ctx := m.begin(t, "a", parent)
	cancel()
	if ctx.Err() == nil {
		t.Error("the load outlives its parent")
	}
	m.land(f, 0, errLoad)
	if f, ctx = m.begin(t, "a", context.Background()); ctx.Err() != nil {
		t.Error("the load has ended before it landed")
	}
	if m.land(f, 0, nil); ctx.Err() == nil {
		t.Error("the context is left behind by a load that landed")
	}
}

// What a load brings whose key was forgotten meanwhile goes to those that wait, and to no one else.
func TestForgottenKey(t *testing.T) {
	m := newMemory()
	f, _ := m.join("a")
	other, _ := m.join("b")
	m.forget("a")
	again, begun := m.join("a")
	if !begun || again == f {
		t.Fatal("a flight whose key was forgotten is joined")
	}
	if m.land(f, 1, nil) {
		t.Error("a value is kept that was loaded before its key was forgotten")
	}
	if v, err := f.Wait(t.Context()); v != 1 || err != nil {
		t.Errorf("one that waited gets %d, %v", v, err)
	}
	if joined, begun := m.join("a"); begun || joined != again {
		t.Error("the end of the old flight is the end of the new one")
	}
	m.mu.Lock()
	m.flights.ForgetMatchesLocked(func(key string) bool { return key == "a" })
	m.mu.Unlock()
	if m.land(again, 2, nil) || !m.land(other, 3, nil) {
		t.Error("not those that match were forgotten")
	}
}

// Callers that come and go, loads that fail, panic and are forgotten: no caller waits for ever, and a kept value was
// loaded once.
func TestStress(t *testing.T) {
	m := newMemory()
	var loads, results atomic.Int64
	load := func(ctx context.Context, f *Flight[string, int]) {
		result := ErrUnfinished
		defer func() { m.land(f, 1, result); _ = recover() }()
		if !f.Commit() {
			result = ctx.Err()
			return
		}
		loads.Add(1)
		switch rand.IntN(4) {
		case 0:
			result = errLoad
		case 1:
			panic("a bug")
		case 2:
			result = ErrAbandoned
		default:
			result = nil
		}
	}
	get := func(ctx context.Context, key string) error {
		m.mu.Lock()
		if _, ok := m.kept[key]; ok {
			m.mu.Unlock()
			return nil
		}
		f, begun := m.flights.JoinLocked(key)
		if begun {
			go load(f.ContextLocked(context.Background()), f)
		}
		m.mu.Unlock()
		v, err := f.Wait(ctx)
		if err == nil && v != 1 {
			t.Errorf("a value of %d", v)
		}
		results.Add(1)
		return err
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(4) == 0 {
					cancel()
				}
				key := string(rune('a' + rand.IntN(3)))
				err := get(ctx, key)
				if err != nil && err != errLoad && err != ErrAbandoned && err != ErrUnfinished && err != context.Canceled {
					t.Errorf("a caller gets %v", err)
				}
				if rand.IntN(20) == 0 {
					m.forget(key)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if loads.Load() == 0 || results.Load() == 0 {
		t.Errorf("%d loads, %d results: nothing was tried", loads.Load(), results.Load())
	}
}
