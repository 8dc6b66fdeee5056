package indexcache

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/internal/invariants"
	"coldtap/internal/readcost"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore loads what it is told to.
type fakeStore struct {
	mu    sync.Mutex
	loads int
	give  func(n int) (*segment.Files, error) // of the n-th load, from 1; nil = sound files
	gate  chan struct{}                       // a load takes one before it returns; nil = no gate
}

func (s *fakeStore) load(ctx context.Context, _ *tier.Segment) (*segment.Files, readcost.Cost, error) {
	s.mu.Lock()
	s.loads++
	n := s.loads
	s.mu.Unlock()
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return nil, readcost.Cost{Requests: 1}, ctx.Err()
		}
	}
	if s.give == nil {
		return soundFiles(0), readcost.Cost{Requests: 1, Bytes: 100}, nil
	}
	files, err := s.give(n)
	return files, readcost.Cost{Requests: 1, Bytes: 100}, err
}

func (s *fakeStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads
}

// soundFiles carries padding in a file that nobody parses.
func soundFiles(padding int) *segment.Files {
	return &segment.Files{OffsetIndex: offsetIndex(50, 40_000), Decided: true, Snapshot: make([]byte, padding)}
}

func newCache(t *testing.T, cfg Config, load Load) *Cache {
	t.Helper()
	if cfg.Memory == 0 {
		cfg.Memory = 1 << 20
	}
	c, err := New(cfg, load)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := c.loading.InUse(); n != 0 {
			t.Errorf("%d bytes of reservations never came back", n)
		}
	})
	return c
}

func mustGet(t *testing.T, c *Cache, seg *tier.Segment) (*Entry, readcost.Cost) {
	t.Helper()
	e, loaded, err := c.Get(context.Background(), seg)
	if err != nil {
		t.Fatal(err)
	}
	return e, loaded
}

func TestLoadedOnce(t *testing.T) {
	store := &fakeStore{}
	c := newCache(t, Config{}, store.load)
	first, loaded := mustGet(t, c, testSegment(1, 0))
	if want := (readcost.Cost{Requests: 1, Bytes: 100}); loaded != want {
		t.Errorf("the first read took %+v, want %+v", loaded, want)
	}
	again, loaded := mustGet(t, c, testSegment(1, 0))
	if again != first || loaded != (readcost.Cost{}) || store.count() != 1 {
		t.Errorf("the second read took %+v and %d loads", loaded, store.count())
	}
	if _, position := again.Offsets.Lookup(60); position != 40_000 {
		t.Errorf("position %d", position)
	}
	mustGet(t, c, testSegment(2, 0))
	reborn := testSegment(1, 0)
	reborn.Partition.Topic = segment.UUID{10}
	mustGet(t, c, reborn)
	if store.count() != 3 {
		t.Errorf("%d loads for three segments", store.count())
	}
}

func TestHitAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("with the race detector sync.Pool forgets at random, and ristretto counts look-ups in one")
	}
	c := newCache(t, Config{}, new(fakeStore).load)
	seg := testSegment(1, 0)
	mustGet(t, c, seg)
	if n := testing.AllocsPerRun(1000, func() { mustGet(t, c, seg) }); n != 0 {
		t.Errorf("a hit costs %v allocations", n)
	}
}

func TestHerdLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{gate: make(chan struct{})}
		c := newCache(t, Config{}, store.load)
		var wg sync.WaitGroup
		var requests atomic.Int64
		for range 300 {
			wg.Go(func() {
				_, loaded := mustGet(t, c, testSegment(1, 0))
				requests.Add(int64(loaded.Requests))
			})
		}
		synctest.Wait()
		close(store.gate)
		wg.Wait()
		if store.count() != 1 || requests.Load() != 1 {
			t.Errorf("300 readers made %d loads and account for %d requests", store.count(), requests.Load())
		}
	})
}

func TestLoadOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{gate: make(chan struct{})}
		c := newCache(t, Config{}, store.load)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := c.Get(ctx, testSegment(1, 0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the caller's own deadline", err)
		}
		close(store.gate)
		synctest.Wait()
		mustGet(t, c, testSegment(1, 0))
		if store.count() != 1 {
			t.Errorf("%d loads, the first was for nothing", store.count())
		}
	})
}

func TestErrorsAreNotKept(t *testing.T) {
	broken := errors.New("store is broken")
	isKind := func(kind Kind) func(error) bool {
		return func(err error) bool {
			var e *Error
			return errors.As(err, &e) && e.Kind == kind
		}
	}
	tests := []struct {
		name  string
		first func(context.Context) (*segment.Files, readcost.Cost, error)
		want  func(error) bool
	}{
		{"store's error", func(context.Context) (*segment.Files, readcost.Cost, error) {
			return nil, readcost.Cost{Requests: 3}, broken
		}, func(err error) bool { return err == broken }},
		{"panic", func(context.Context) (*segment.Files, readcost.Cost, error) {
			panic("broken parser")
		}, isKind(Panicked)},
		{"neither files nor error", func(context.Context) (*segment.Files, readcost.Cost, error) {
			return nil, readcost.Cost{}, nil
		}, isKind(Panicked)},
		{"too slow", func(ctx context.Context) (*segment.Files, readcost.Cost, error) {
			<-ctx.Done()
			return nil, readcost.Cost{}, errors.New("get: canceled")
		}, isKind(TimedOut)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				loads := 0
				c := newCache(t, Config{LoadTimeout: time.Minute}, func(ctx context.Context, _ *tier.Segment) (*segment.Files, readcost.Cost, error) {
					if loads++; loads == 1 {
						time.Sleep(time.Second) // until all have joined
						return tt.first(ctx)
					}
					return soundFiles(0), readcost.Cost{}, nil
				})
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						if _, _, err := c.Get(t.Context(), testSegment(1, 0)); !tt.want(err) {
							t.Errorf("got %v", err)
						}
					})
				}
				wg.Wait()
				mustGet(t, c, testSegment(1, 0))
				if loads != 2 {
					t.Errorf("%d loads, want 2", loads)
				}
			})
		})
	}
}

func TestDamagedIsFetchedAgain(t *testing.T) {
	damaged := func() *segment.Files { return &segment.Files{OffsetIndex: []byte("random bytes!")} }
	t.Run("at once", func(t *testing.T) {
		store := &fakeStore{give: func(n int) (*segment.Files, error) {
			if n == 1 {
				return damaged(), nil
			}
			return soundFiles(0), nil
		}}
		c := newCache(t, Config{}, store.load)
		e, loaded := mustGet(t, c, testSegment(1, 0))
		if e.Offsets.Len() != 1 || loaded != (readcost.Cost{Requests: 2, Bytes: 200}) {
			t.Errorf("%d index entries, took %+v", e.Offsets.Len(), loaded)
		}
	})
	t.Run("after a while", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &fakeStore{give: func(n int) (*segment.Files, error) {
				switch n {
				case 1:
					return damaged(), nil
				case 2:
					return nil, errors.New("store is broken")
				}
				return soundFiles(0), nil
			}}
			c := newCache(t, Config{}, store.load)
			for range 100 {
				if e, _ := mustGet(t, c, testSegment(1, 0)); e.Offsets.Len() != 0 {
					t.Fatal("a damaged index was used")
				}
			}
			if store.count() != 2 {
				t.Errorf("100 reads of a damaged segment made %d loads", store.count())
			}
			time.Sleep(damagedFor)
			if e, _ := mustGet(t, c, testSegment(1, 0)); e.Offsets.Len() != 1 {
				t.Error("the repaired index is not used")
			}
			time.Sleep(damagedFor)
			mustGet(t, c, testSegment(1, 0))
			if store.count() != 3 {
				t.Errorf("%d loads, want 3: a sound entry stays", store.count())
			}
		})
	})
}

// TestPagingReaders is what ristretto alone is bad at: many readers, each of which comes back to its segment a few
// times while the others bring in theirs.
func TestPagingReaders(t *testing.T) {
	const readers, segments, pages = 8, 25, 4
	store := &fakeStore{give: func(int) (*segment.Files, error) { return soundFiles(15 << 10), nil }}
	// The window holds 16 entries, two for each reader.
	c := newCache(t, Config{Memory: 1 << 20}, store.load)
	for s := range segments {
		for range pages {
			for r := range readers {
				mustGet(t, c, testSegment(byte(r*segments+s), 0))
			}
		}
	}
	if want := readers * segments; store.count() != want {
		t.Errorf("%d loads for %d segments", store.count(), want)
	}
}

func TestMemoryBound(t *testing.T) {
	const memory = 1 << 20
	reg := prometheus.NewRegistry()
	c := newCache(t, Config{Memory: memory, Registerer: reg}, func(_ context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
		return soundFiles(int(seg.ID[0]) << 10), readcost.Cost{}, nil
	})
	held := func() int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.policy.windowBytes + c.policy.frequentBytes()
	}
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 500 {
				mustGet(t, c, testSegment(byte(r.IntN(256)), 0))
				if n := held(); n > memory-memory/4 {
					t.Errorf("%d bytes are cached, %d are allowed", n, memory-memory/4)
				}
			}
		})
	}
	wg.Wait()
	if n := held(); n < memory/4 {
		t.Errorf("only %d of %d bytes are used after 4,000 loads", n, memory)
	}
}

func TestLargerThanTheCache(t *testing.T) { synctest.Test(t, testLargerThanTheCache) }

func testLargerThanTheCache(t *testing.T) {
	reg := prometheus.NewRegistry()
	store := &fakeStore{give: func(int) (*segment.Files, error) { return soundFiles(1 << 20), nil }}
	c := newCache(t, Config{Memory: 1 << 20, Registerer: reg}, store.load)
	for range 2 {
		mustGet(t, c, testSegment(1, 0))
		synctest.Wait() // until the first load serves nobody any more
	}
	if store.count() != 2 || testutil.ToFloat64(c.metrics.tooLarge) != 2 {
		t.Errorf("%d loads, %v counted as too large", store.count(), testutil.ToFloat64(c.metrics.tooLarge))
	}
	mustGet(t, newCache(t, Config{Memory: 4 << 20}, store.load), testSegment(1, 0))
}

// TestLargerThanTheWindow is an entry that only ristretto has room for.
func TestLargerThanTheWindow(t *testing.T) {
	store := &fakeStore{give: func(int) (*segment.Files, error) { return soundFiles(300 << 10), nil }}
	c := newCache(t, Config{Memory: 1 << 20}, store.load)
	for range 100 {
		mustGet(t, c, testSegment(1, 0))
	}
	if store.count() != 1 {
		t.Errorf("%d loads", store.count())
	}
}

func TestLoadsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{gate: make(chan struct{})}
		// A quarter of 48 MiB is room for one load of a 1 GiB segment's indexes, at some 10 MiB.
		c := newCache(t, Config{Memory: 48 << 20}, store.load)
		big := func(n byte) *tier.Segment {
			seg := testSegment(n, 0)
			seg.Size = 1 << 30
			return seg
		}
		var wg sync.WaitGroup
		wg.Go(func() { mustGet(t, c, big(1)) })
		synctest.Wait()
		wg.Go(func() { mustGet(t, c, big(2)) })
		ctx, cancel := context.WithCancel(t.Context())
		var left error
		wg.Go(func() { _, _, left = c.Get(ctx, big(3)) })
		synctest.Wait()
		if store.count() != 1 {
			t.Fatalf("%d loads run, there is memory for one", store.count())
		}
		cancel()
		synctest.Wait()
		if !errors.Is(left, context.Canceled) {
			t.Errorf("the caller that left got %v", left)
		}
		close(store.gate)
		wg.Wait()
		if store.count() != 2 {
			t.Errorf("%d loads, want 2: nobody waits for the third any more", store.count())
		}
	})
}

// Of two callers that wait for one load, one leaves while the load waits for memory: the other gets its entry.
func TestLoadThatWaitsForMemoryKeepsItsOtherCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{gate: make(chan struct{})}
		c := newCache(t, Config{Memory: 48 << 20}, store.load)
		first, second := testSegment(1, 0), testSegment(2, 0)
		first.Size, second.Size = 1<<30, 1<<30
		var wg sync.WaitGroup
		wg.Go(func() { mustGet(t, c, first) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { c.Get(ctx, second) })
		wg.Go(func() { mustGet(t, c, second) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(store.gate)
		wg.Wait()
		if store.count() != 2 {
			t.Errorf("%d loads of two segments", store.count())
		}
	})
}

// A caller that got an entry finds it again; one that got an error begins anew, however soon it asks.
func TestAskingAgainAtOnce(t *testing.T) {
	broken := errors.New("store is broken")
	store := &fakeStore{give: func(n int) (*segment.Files, error) {
		if n%3 > 0 {
			return nil, broken
		}
		return soundFiles(0), nil
	}}
	c := newCache(t, Config{}, store.load)
	for n := range 1000 {
		seg := testSegment(1, 0)
		seg.ID[2], seg.ID[3] = byte(n>>8), byte(n)
		for attempt := range 4 {
			if _, _, err := c.Get(t.Context(), seg); (err != nil) != (attempt < 2) {
				t.Fatalf("attempt %d: %v", attempt, err)
			}
		}
		if got, want := store.count(), 3*(n+1); got != want {
			t.Fatalf("%d loads, want %d", got, want)
		}
	}
}

// TestLargeObjectsTeach: what objects turn out to be, the next loads reserve.
func TestLargeObjectsTeach(t *testing.T) { synctest.Test(t, testLargeObjectsTeach) }

func testLargeObjectsTeach(t *testing.T) {
	c := newCache(t, Config{Memory: 16 << 20}, func(_ context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
		return soundFiles(int(seg.ID[0]) << 20), readcost.Cost{}, nil
	})
	seg := testSegment(0, 0)
	small := c.reservation(seg)
	mustGet(t, c, testSegment(1, 0))
	synctest.Wait()
	if got := c.reservation(seg); got < 2<<20 {
		t.Errorf("reserves %d bytes after an object of 1 MiB", got)
	}
	mustGet(t, c, testSegment(3, 0))
	synctest.Wait()
	if got := c.reservation(seg); got != 4<<20 {
		t.Errorf("reserves %d bytes of 4 MiB after an object of 3 MiB", got)
	}
	for n := range byte(20) {
		small := testSegment(0, 0)
		small.ID[1] = n + 100
		mustGet(t, c, small)
	}
	synctest.Wait()
	if got := c.reservation(seg); got != small {
		t.Errorf("reserves %d bytes long after, %d at first", got, small)
	}
}

func TestDrop(t *testing.T) {
	t.Run("cached", func(t *testing.T) {
		store := &fakeStore{give: func(int) (*segment.Files, error) { return soundFiles(60 << 10), nil }}
		c := newCache(t, Config{Memory: 1 << 20}, store.load)
		for n := range byte(6) { // the first ones have moved on to ristretto
			mustGet(t, c, testSegment(n, 0))
		}
		for n := range byte(6) {
			c.Drop(testSegment(n, 0))
			mustGet(t, c, testSegment(n, 0))
		}
		if store.count() != 12 {
			t.Errorf("%d loads, want 12: dropped entries were served", store.count())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if want := int64(c.policy.recent.Len()) * (60<<10 + entryOverhead + 8); c.policy.windowBytes != want {
			t.Errorf("the window counts %d bytes, its entries have %d", c.policy.windowBytes, want)
		}
	})
	t.Run("under way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &fakeStore{gate: make(chan struct{})}
			c := newCache(t, Config{}, store.load)
			var wg sync.WaitGroup
			wg.Go(func() { mustGet(t, c, testSegment(1, 0)) })
			synctest.Wait()
			c.Drop(testSegment(1, 0))
			close(store.gate)
			wg.Wait()
			synctest.Wait()
			mustGet(t, c, testSegment(1, 0))
			if store.count() != 2 {
				t.Errorf("%d loads, want 2: what was loaded before the drop was kept", store.count())
			}
		})
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := newCache(t, Config{}, func(context.Context, *tier.Segment) (*segment.Files, readcost.Cost, error) {
			<-gate // deaf to its context
			return soundFiles(0), readcost.Cost{}, nil
		})
		closed := func(err error) bool {
			var e *Error
			return errors.As(err, &e) && e.Kind == Closed
		}
		var wg sync.WaitGroup
		wg.Go(func() { mustGet(t, c, testSegment(1, 0)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close during a load: %v", err)
		}
		if _, _, err := c.Get(t.Context(), testSegment(2, 0)); !closed(err) {
			t.Errorf("get after close: %v", err)
		}
		c.Drop(testSegment(1, 0))
		close(gate)
		wg.Wait()
		for range 2 {
			if err := c.Close(t.Context()); err != nil {
				t.Errorf("close after the load: %v", err)
			}
		}
	})
}

func TestCloseEndsLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{gate: make(chan struct{})}
		c := newCache(t, Config{}, store.load)
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, _, err = c.Get(context.Background(), testSegment(1, 0)) })
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		var e *Error
		if !errors.As(err, &e) || e.Kind != Closed {
			t.Errorf("the waiter got %v", err)
		}
	})
}

// TestStress mixes everything, for the race detector and for places and entries that get lost.
func TestStress(t *testing.T) {
	var loading sync.Map
	c := newCache(t, Config{Memory: 256 << 10}, func(ctx context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
		if _, twice := loading.LoadOrStore(seg.ID, true); twice {
			t.Errorf("segment %v is loaded twice at a time", seg.ID)
		}
		defer loading.Delete(seg.ID)
		switch rand.IntN(8) {
		case 0:
			return nil, readcost.Cost{}, errors.New("store is broken")
		case 1:
			panic("broken parser")
		}
		f := soundFiles(int(seg.ID[0]) << 9)
		f.Snapshot = append(f.Snapshot, seg.ID[0])
		return f, readcost.Cost{}, nil
	})
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 2_000 {
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(4) == 0 {
					go cancel()
				}
				n := byte(r.IntN(64))
				if e, _, err := c.Get(ctx, testSegment(n, 0)); err == nil && e.Files.Snapshot[len(e.Files.Snapshot)-1] != n {
					t.Error("another segment's entry")
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

func TestTooLittleMemory(t *testing.T) {
	if _, err := New(Config{Memory: 1 << 10}, nil); err == nil {
		t.Error("a cache of 1 KiB was made")
	}
	newCache(t, Config{Memory: 64 << 10}, nil)
}

func TestMetrics(t *testing.T) { synctest.Test(t, testMetrics) }

func testMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	store := &fakeStore{give: func(n int) (*segment.Files, error) {
		if n == 1 {
			return nil, errors.New("store is broken")
		}
		return &segment.Files{TxnDamaged: true, IndexDamaged: []string{"snapshot", "unheard of"}}, nil
	}}
	c := newCache(t, Config{Registerer: reg}, store.load)
	c.Get(t.Context(), testSegment(1, 0))
	for range 2 {
		mustGet(t, c, testSegment(1, 0))
		synctest.Wait()
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
		# HELP coldtap_indexcache_damaged_files_total Damaged small files of segments, by file. A damaged index makes reads slower, a damaged txnindex makes read_committed fail.
		# TYPE coldtap_indexcache_damaged_files_total counter
		coldtap_indexcache_damaged_files_total{file="index"} 0
		coldtap_indexcache_damaged_files_total{file="leader-epoch-checkpoint"} 0
		coldtap_indexcache_damaged_files_total{file="other"} 1
		coldtap_indexcache_damaged_files_total{file="snapshot"} 1
		coldtap_indexcache_damaged_files_total{file="timeindex"} 0
		coldtap_indexcache_damaged_files_total{file="txnindex"} 1
		# HELP coldtap_indexcache_load_failures_total Loads of a segment's indexes that failed.
		# TYPE coldtap_indexcache_load_failures_total counter
		coldtap_indexcache_load_failures_total 1
		# HELP coldtap_indexcache_requests_total Requests for a segment's indexes: hit = they were cached, joined = another request was loading them, loaded = this request began to load them.
		# TYPE coldtap_indexcache_requests_total counter
		coldtap_indexcache_requests_total{result="hit"} 1
		coldtap_indexcache_requests_total{result="joined"} 0
		coldtap_indexcache_requests_total{result="loaded"} 2
	`), "coldtap_indexcache_damaged_files_total", "coldtap_indexcache_load_failures_total", "coldtap_indexcache_requests_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, "coldtap_indexcache_bytes"); n != 3 || err != nil {
		t.Errorf("%d series of bytes, %v", n, err)
	}
}
