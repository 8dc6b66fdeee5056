package indexcache

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"coldtap/internal/readcost"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// How many loads run at a time follows from what the segments' indexes will take.
func TestLoadsAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		memory, size int64
		want         int
	}{
		"small segments":        {128 << 20, 1 << 20, 16},
		"segments of 190 MiB":   {128 << 20, 190 << 20, 16},
		"segments of 1 GiB":     {128 << 20, 1 << 30, 3},
		"little memory":         {1 << 20, 0, 2},
		"a segment above bound": {1 << 20, 1 << 30, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{gate: make(chan struct{})}
				cache := newCache(t, Config{Memory: c.memory}, store.load)
				defer cache.Close(context.Background())
				var wg sync.WaitGroup
				for n := range byte(40) {
					seg := testSegment(n, 0)
					seg.Size = c.size
					wg.Go(func() { cache.Get(context.Background(), seg) })
				}
				synctest.Wait()
				if got := store.count(); got != c.want {
					t.Errorf("%d loads at a time, want %d", got, c.want)
				}
				close(store.gate)
				wg.Wait()
			})
		})
	}
}

// Entries that just fit are kept: in the window, or where only frequently used ones stay.
func TestEntriesOfJustTheBound(t *testing.T) {
	const memory, window = 1 << 20, 1 << 18
	sized := func(cost int64) *segment.Files {
		empty := newEntry(testSegment(1, 0), soundFiles(0)).cost()
		return soundFiles(int(cost - empty))
	}
	for name, c := range map[string]struct{ cost, window int64 }{
		"the window":           {window, window},
		"the frequently used":  {2 * window, 0},
		"more than the window": {window + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache := newCache(t, Config{Memory: memory}, func(context.Context, *tier.Segment) (*segment.Files, readcost.Cost, error) {
					return sized(c.cost), readcost.Cost{}, nil
				})
				defer cache.Close(context.Background())
				mustGet(t, cache, testSegment(1, 0))
				synctest.Wait()
				if !cache.Contains(testSegment(1, 0)) || cache.windowBytes() != c.window {
					t.Errorf("kept: %t, %d bytes in the window, want %d", cache.Contains(testSegment(1, 0)), cache.windowBytes(), c.window)
				}
				cache.Drop(testSegment(1, 0))
				if cache.Contains(testSegment(1, 0)) || cache.windowBytes() != 0 {
					t.Errorf("dropped, but %d bytes are in the window", cache.windowBytes())
				}
			})
		})
	}
}

// What was offered to ristretto is listed beside it only until it has decided.
func TestOffersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Config{Memory: 1 << 20}, func(context.Context, *tier.Segment) (*segment.Files, readcost.Cost, error) {
			return soundFiles(100 << 10), readcost.Cost{}, nil
		})
		defer c.Close(context.Background())
		for n := range byte(50) {
			mustGet(t, c, testSegment(n, 0))
		}
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.policy.offered); n != 0 {
			t.Errorf("%d offers are still listed", n)
		}
	})
}

// One small object does not make a large one forgotten.
func TestReservationFallsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Config{Memory: 16 << 20}, func(_ context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
			return soundFiles(int(seg.ID[0]) << 20), readcost.Cost{}, nil
		})
		defer c.Close(context.Background())
		mustGet(t, c, testSegment(1, 0))
		mustGet(t, c, testSegment(0, 0))
		synctest.Wait()
		if got := c.reservation(testSegment(2, 0)); got < 3<<19 || got >= 2<<20 {
			t.Errorf("reserves %d bytes after an object of 1 MiB and a small one", got)
		}
	})
}

func TestOnlyDamageIsLogged(t *testing.T) {
	var log bytes.Buffer
	damaged := false
	c := newCache(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(context.Context, *tier.Segment) (*segment.Files, readcost.Cost, error) {
			files := soundFiles(0)
			files.TxnDamaged = damaged
			return files, readcost.Cost{}, nil
		})
	mustGet(t, c, testSegment(1, 0))
	if log.Len() > 0 {
		t.Errorf("of sound files: %s", &log)
	}
	damaged = true
	mustGet(t, c, testSegment(2, 0))
	if !strings.Contains(log.String(), "files=[txnindex]") {
		t.Errorf("of damaged files: %s", &log)
	}
	if n := testutil.ToFloat64(c.metrics.failures); n != 0 {
		t.Errorf("%v of two loads that succeeded count as failed", n)
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("bad bytes")
	for _, c := range []struct {
		err       Error
		text      string
		retriable bool
	}{
		{Error{Kind: TimedOut, Segment: "s"}, "indexes of segment s: timed out", true},
		{Error{Kind: Damaged, Segment: "s", Err: cause}, "indexes of segment s: damaged transaction index: bad bytes", false},
		{Error{Kind: Closed, Segment: "s"}, "indexes of segment s: closed", false},
	} {
		if c.err.Error() != c.text || c.err.Retriable() != c.retriable {
			t.Errorf("%q, retriable %t", c.err.Error(), c.err.Retriable())
		}
	}
}
