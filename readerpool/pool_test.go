package readerpool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness drives a pool from one goroutine inside a synctest bubble: reads block until they are told to end.
type harness struct {
	t       *testing.T
	pool    *Pool
	mu      sync.Mutex
	started []string
	ends    map[string]chan error
	results map[string]chan error
}

func newHarness(t *testing.T, cfg Config) *harness {
	return &harness{t: t, pool: New(cfg), ends: map[string]chan error{}, results: map[string]chan error{}}
}

// read starts a read and returns once it runs, waits or was refused.
func (h *harness) read(ctx context.Context, name string, lane Lane) {
	end, result := make(chan error), make(chan error, 1)
	h.mu.Lock()
	h.ends[name], h.results[name] = end, result
	h.mu.Unlock()
	go func() {
		result <- h.pool.Do(ctx, lane, func(context.Context) error {
			h.mu.Lock()
			h.started = append(h.started, name)
			h.mu.Unlock()
			return <-end
		})
	}()
	synctest.Wait()
}

// end lets running reads end, one after the other, and returns once the pool has acted on the last.
func (h *harness) end(names ...string) {
	for _, name := range names {
		h.ends[name] <- nil
		synctest.Wait()
	}
}

// endAll ends reads in the order in which they start, until none runs.
func (h *harness) endAll() {
	for i := 0; ; i++ {
		h.mu.Lock()
		done := i == len(h.started)
		h.mu.Unlock()
		if done {
			return
		}
		h.mu.Lock()
		name := h.started[i]
		h.mu.Unlock()
		h.end(name)
	}
}

// result is what a read's Do returned; the read must have returned.
func (h *harness) result(name string) error {
	h.t.Helper()
	synctest.Wait()
	select {
	case err := <-h.results[name]:
		return err
	default:
		h.t.Fatalf("read %s has not returned", name)
		return nil
	}
}

func (h *harness) wantRefused(name string, kind Kind) *Error {
	h.t.Helper()
	var refused *Error
	if err := h.result(name); !errors.As(err, &refused) || refused.Kind != kind {
		h.t.Fatalf("read %s: got %v, want a refusal %v", name, err, kind)
	}
	return refused
}

func TestOrder(t *testing.T) {
	tests := []struct {
		name  string
		queue string // i, b, a: the lanes of the waiting reads in order of arrival
		want  string // positions in queue, in the order in which they start
	}{
		{"first come first served", "iiii", "0 1 2 3"},
		{"a client before a backfill before read-ahead", "abi", "2 1 0"},
		{"a backfill gets every fourth place", "bbiiiiiii", "2 3 4 0 5 6 7 1 8"},
		{"read-ahead gets every sixteenth place", "a" + strings.Repeat("i", 17),
			"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 16 17"},
		{"both guarantees hold together", "ab" + strings.Repeat("i", 16), "2 3 4 1 5 6 7 8 9 10 11 12 13 14 15 0 16 17"},
	}
	lane := map[rune]Lane{'i': Interactive, 'b': Bulk, 'a': Ahead}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, Config{Threads: 1, MaxPending: 100})
				h.read(t.Context(), "blocker", Interactive)
				for i, c := range tt.queue {
					h.read(t.Context(), fmt.Sprint(i), lane[c])
				}
				h.endAll()
				if got := strings.Join(h.started[1:], " "); got != tt.want {
					t.Errorf("started in order %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// A backfill sits out three grants from when it arrives: neither grants while no backfill waited nor those that an
// earlier one sat out, which gave up, bring its turn forward.
func TestGrantsAreSatOutFromArrival(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		t.Run(fmt.Sprintf("earlier=%v", earlier), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, Config{Threads: 1, MaxPending: 100})
				h.read(t.Context(), "0", Interactive)
				for i := range 8 {
					h.read(t.Context(), fmt.Sprint(i+1), Interactive)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if earlier {
					h.read(ctx, "gives up", Bulk)
				}
				h.end("0", "1", "2")
				cancel()
				synctest.Wait()
				h.read(t.Context(), "backfill", Bulk)
				for i := 3; i < len(h.started); i++ {
					h.end(h.started[i])
				}
				if got, want := strings.Join(h.started, " "), "0 1 2 3 4 5 6 backfill 7 8"; got != want {
					t.Errorf("started in order %s, want %s", got, want)
				}
			})
		})
	}
}

func TestCaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Config{Threads: 2, MaxPending: 1})
		for _, name := range []string{"first", "second", "third", "fourth"} {
			h.read(t.Context(), name, Interactive)
		}
		if want := []string{"first", "second"}; !slices.Equal(h.started, want) {
			t.Fatalf("running: %v, want %v", h.started, want)
		}
		if e := h.wantRefused("fourth", Full); e.RetryAfter < time.Second || !e.Retriable() {
			t.Errorf("refusal says retry after %v, retriable %v", e.RetryAfter, e.Retriable())
		}
		h.end("second")
		if h.started[2] != "third" {
			t.Errorf("the waiting read did not start: %v", h.started)
		}
		h.end("first", "third")
	})
}

func TestNobodyWaitsWithoutQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Config{Threads: 0, MaxPending: -1})
		h.read(t.Context(), "first", Bulk)
		h.read(t.Context(), "second", Interactive)
		h.wantRefused("second", Full)
		h.end("first")
	})
}

func TestReadAheadMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Config{Threads: 1, MaxPending: 3})
		h.read(t.Context(), "running", Interactive)
		h.read(t.Context(), "near", Ahead)
		h.read(t.Context(), "far", Ahead)
		h.read(t.Context(), "backfill", Bulk)

		h.read(t.Context(), "guess", Ahead)
		h.wantRefused("guess", Full)

		h.read(t.Context(), "client", Interactive)
		h.wantRefused("far", Full)
		h.read(t.Context(), "second backfill", Bulk)
		h.wantRefused("near", Full)
		h.read(t.Context(), "second client", Interactive)
		h.wantRefused("second client", Full)

		h.endAll()
		want := []string{"running", "client", "backfill", "second backfill"}
		if !slices.Equal(h.started, want) {
			t.Errorf("started %v, want %v", h.started, want)
		}
	})
}

func TestQueueTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Config{Threads: 1, MaxPending: 2, QueueTimeout: 10 * time.Second})
		h.read(t.Context(), "running", Interactive)
		h.read(t.Context(), "waiting", Interactive)
		time.Sleep(9 * time.Second)
		h.read(t.Context(), "late", Interactive)
		time.Sleep(time.Second)
		h.wantRefused("waiting", TimedOut)

		h.read(t.Context(), "replacement", Interactive)
		h.end("running", "late")
		if h.started[2] != "replacement" {
			t.Errorf("started %v", h.started)
		}
		h.end("replacement")
	})
}

func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Config{Threads: 1, MaxPending: 1})
		h.read(t.Context(), "running", Interactive)
		ctx, cancel := context.WithCancel(t.Context())
		h.read(ctx, "leaving", Interactive)
		cancel()
		if err := h.result("leaving"); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the context's error", err)
		}
		h.read(t.Context(), "next", Interactive)
		h.end("running")
		if h.started[1] != "next" {
			t.Errorf("the position of the read that left was not free: %v", h.started)
		}
		h.end("next")
		if err := h.pool.Do(ctx, Interactive, func(context.Context) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("a read of a caller that is gone: got %v", err)
		}
	})
}

func TestReadsError(t *testing.T) {
	p := New(Config{Threads: 1})
	broken := errors.New("broken")
	if err := p.Do(t.Context(), Bulk, func(context.Context) error { return broken }); err != broken {
		t.Errorf("got %v, want the read's own error", err)
	}
}

func TestPanicGivesPlaceBack(t *testing.T) {
	p := New(Config{Threads: 1})
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			p.Do(t.Context(), Interactive, func(context.Context) error { panic("broken read") })
		}()
	}
	if err := p.Do(t.Context(), Interactive, func(context.Context) error { return nil }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		took    time.Duration
		threads int
		waiting int
		want    time.Duration
	}{
		{10 * time.Millisecond, 1, 4, time.Second},
		{2 * time.Second, 1, 4, 10 * time.Second},
		{2 * time.Second, 2, 3, 4 * time.Second},
		{time.Minute, 1, 0, 30 * time.Second},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, Config{Threads: tt.threads, MaxPending: tt.waiting})
			h.read(t.Context(), "measured", Interactive)
			time.Sleep(tt.took)
			h.end("measured")
			for i := range tt.threads + tt.waiting {
				h.read(t.Context(), fmt.Sprint(i), Interactive)
			}
			h.read(t.Context(), "refused", Interactive)
			if got := h.wantRefused("refused", Full).RetryAfter; got != tt.want {
				t.Errorf("%d threads, %d waiting, reads of %v: retry after %v, want %v",
					tt.threads, tt.waiting, tt.took, got, tt.want)
			}
			for i := range tt.threads + tt.waiting {
				h.end(fmt.Sprint(i))
			}
		})
	}
}

// The estimate follows the store: each read moves it an eighth of the way to what that read took.
func TestRetryAfterFollowsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Config{Threads: 1})
		for _, took := range []time.Duration{16 * time.Second, 8 * time.Second} {
			h.read(t.Context(), "measured", Interactive)
			time.Sleep(took)
			h.end("measured")
		}
		h.read(t.Context(), "running", Interactive)
		h.read(t.Context(), "refused", Interactive)
		if got := h.wantRefused("refused", Full).RetryAfter; got != 15*time.Second {
			t.Errorf("after reads of 16 s and 8 s: retry after %v, want 15 s", got)
		}
		h.end("running")
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Config{Threads: 1, MaxPending: 2})
		h.read(t.Context(), "running", Interactive)
		h.read(t.Context(), "waiting", Bulk)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.pool.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("close while a read runs: got %v", err)
		}
		if e := h.wantRefused("waiting", Closed); e.Retriable() || e.RetryAfter != 0 {
			t.Errorf("a closed pool says retriable %v after %v", e.Retriable(), e.RetryAfter)
		}
		h.read(t.Context(), "new", Interactive)
		h.wantRefused("new", Closed)

		closed := make(chan error, 1)
		go func() { closed <- h.pool.Close(context.Background()) }()
		h.end("running")
		if err := <-closed; err != nil {
			t.Fatalf("close after the last read: %v", err)
		}
		if err := h.pool.Close(context.Background()); err != nil {
			t.Fatalf("closing again: %v", err)
		}
	})
}

func TestCloseOfIdlePool(t *testing.T) {
	if err := New(Config{Threads: 1}).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestNoPlaceIsLost mixes every way in which a read can end, then needs all places at once.
func TestNoPlaceIsLost(t *testing.T) { synctest.Test(t, testNoPlaceIsLost) }

func testNoPlaceIsLost(t *testing.T) {
	const threads = 4
	reg := prometheus.NewRegistry()
	p := New(Config{Threads: threads, MaxPending: 8, QueueTimeout: 200 * time.Microsecond, Registerer: reg})
	var mu sync.Mutex
	running, most := 0, 0
	read := func(r *rand.Rand) {
		defer func() { _ = recover() }()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if r.IntN(3) == 0 {
			go cancel()
		}
		p.Do(ctx, Lane(r.IntN(lanes)), func(ctx context.Context) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			defer func() {
				mu.Lock()
				running--
				mu.Unlock()
			}()
			switch r.IntN(4) {
			case 0:
				panic("broken read")
			case 1:
				return errors.New("broken store")
			case 2:
				time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
			}
			return nil
		})
	}
	var wg sync.WaitGroup
	for seed := range uint64(32) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 300 {
				read(r)
			}
		})
	}
	wg.Wait()
	if most > threads {
		t.Errorf("%d reads ran at a time, allowed are %d", most, threads)
	}

	var together sync.WaitGroup
	together.Add(threads)
	for range threads {
		wg.Go(func() {
			err := p.Do(context.Background(), Interactive, func(context.Context) error {
				together.Done()
				together.Wait()
				return nil
			})
			if err != nil {
				t.Errorf("a place is gone: %v", err)
				together.Done()
			}
		})
	}
	wg.Wait()
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
		# HELP coldtap_readerpool_running Reads of the object store that run now.
		# TYPE coldtap_readerpool_running gauge
		coldtap_readerpool_running 0
		# HELP coldtap_readerpool_pending Reads that wait for a place, by lane.
		# TYPE coldtap_readerpool_pending gauge
		coldtap_readerpool_pending{lane="ahead"} 0
		coldtap_readerpool_pending{lane="bulk"} 0
		coldtap_readerpool_pending{lane="interactive"} 0
	`), "coldtap_readerpool_running", "coldtap_readerpool_pending"); err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		h := newHarness(t, Config{Threads: 1, MaxPending: 1, QueueTimeout: time.Second, Registerer: reg})
		h.read(t.Context(), "running", Interactive)
		h.read(t.Context(), "waiting", Bulk)
		h.read(t.Context(), "refused", Ahead)
		const pending = `
			# HELP coldtap_readerpool_running Reads of the object store that run now.
			# TYPE coldtap_readerpool_running gauge
			coldtap_readerpool_running 1
			# HELP coldtap_readerpool_pending Reads that wait for a place, by lane.
			# TYPE coldtap_readerpool_pending gauge
			coldtap_readerpool_pending{lane="ahead"} 0
			coldtap_readerpool_pending{lane="bulk"} 1
			coldtap_readerpool_pending{lane="interactive"} 0
		`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(pending),
			"coldtap_readerpool_running", "coldtap_readerpool_pending"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		h.wantRefused("waiting", TimedOut)
		ctx, cancel := context.WithCancel(t.Context())
		h.read(ctx, "leaving", Interactive)
		cancel()
		synctest.Wait()
		h.end("running")
		const totals = `
			# HELP coldtap_readerpool_admitted_total Reads that got a place, by lane.
			# TYPE coldtap_readerpool_admitted_total counter
			coldtap_readerpool_admitted_total{lane="ahead"} 0
			coldtap_readerpool_admitted_total{lane="bulk"} 0
			coldtap_readerpool_admitted_total{lane="interactive"} 1
			# HELP coldtap_readerpool_refused_total Reads that did not get a place, by lane and reason; canceled: the caller went away while it waited.
			# TYPE coldtap_readerpool_refused_total counter
			coldtap_readerpool_refused_total{lane="ahead",reason="canceled"} 0
			coldtap_readerpool_refused_total{lane="ahead",reason="closed"} 0
			coldtap_readerpool_refused_total{lane="ahead",reason="full"} 1
			coldtap_readerpool_refused_total{lane="ahead",reason="timeout"} 0
			coldtap_readerpool_refused_total{lane="bulk",reason="canceled"} 0
			coldtap_readerpool_refused_total{lane="bulk",reason="closed"} 0
			coldtap_readerpool_refused_total{lane="bulk",reason="full"} 0
			coldtap_readerpool_refused_total{lane="bulk",reason="timeout"} 1
			coldtap_readerpool_refused_total{lane="interactive",reason="canceled"} 1
			coldtap_readerpool_refused_total{lane="interactive",reason="closed"} 0
			coldtap_readerpool_refused_total{lane="interactive",reason="full"} 0
			coldtap_readerpool_refused_total{lane="interactive",reason="timeout"} 0
		`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(totals),
			"coldtap_readerpool_admitted_total", "coldtap_readerpool_refused_total"); err != nil {
			t.Error(err)
		}
	})
}
