package rangeio_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/bench/simstore"
	"coldtap/internal/readcost"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"coldtap/internal/testing/faultstore"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

// faulty gives a client of an object "o" of 10,000 bytes behind faults.
func faulty(cfg rangeio.Config) (*rangeio.Client, *faultstore.Store, []byte) {
	content := rangeiotest.Bytes(1, 10_000)
	mem := simstore.NewMemory()
	mem.Set("o", content)
	s := faultstore.New(mem)
	return rangeio.NewClient(s, cfg), s, content
}

func get(times int, f faultstore.Fault) faultstore.Rule {
	return faultstore.Rule{Op: faultstore.Get, Times: times, Fault: f}
}

func TestReadRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			rules  []faultstore.Rule
			off, n int64
			etag   string
			size   int64
			kind   rangeio.Kind // 0 = success
			cost   readcost.Cost
		}{
			{name: "one GET", off: 100, n: 5000, size: -1, cost: readcost.Cost{Requests: 1, Bytes: 5000}},
			{name: "known version and size", off: 0, n: 10_000, etag: `"v1"`, size: 10_000, cost: readcost.Cost{Requests: 1, Bytes: 10_000}},
			{name: "last byte", off: 9_999, n: 1, size: 10_000, cost: readcost.Cost{Requests: 1, Bytes: 1}},
			{name: "nothing is asked for nothing", off: 10_000, n: 0, size: 10_000},
			{name: "past the end", off: 9_999, n: 2, size: -1, kind: rangeio.BadRange, cost: readcost.Cost{Requests: 1}},
			{name: "beyond the end", off: 20_000, n: 2, size: -1, kind: rangeio.BadRange, cost: readcost.Cost{Requests: 1}},
			{name: "negative", off: -1, n: 2, size: -1, kind: rangeio.BadRange},
			{name: "an end that wraps", off: math.MaxInt64 - 1, n: 2, size: -1, kind: rangeio.BadRange},
			{name: "another version", n: 10, etag: `"v0"`, size: -1, kind: rangeio.Changed, cost: readcost.Cost{Requests: 1}},
			{name: "another size, seen twice", n: 10, size: 9_999, kind: rangeio.BadAnswer, cost: readcost.Cost{Requests: 2}},
			{name: "a wrong size, once", rules: []faultstore.Rule{get(1, faultstore.Fault{SizeOff: 1})}, n: 10, size: 10_000,
				cost: readcost.Cost{Requests: 2, Bytes: 10}},
			{name: "an unknown size", rules: []faultstore.Rule{get(0, faultstore.Fault{SizeOff: -20_000})}, n: 10, size: -1, kind: rangeio.BadAnswer,
				cost: readcost.Cost{Requests: 2}},
			{name: "throttled twice", rules: []faultstore.Rule{get(2, faultstore.Fault{Kind: rangeio.Throttled})}, n: 10, size: -1,
				cost: readcost.Cost{Requests: 3, Bytes: 10, Throttled: 2}},
			{name: "throttled for ever", rules: []faultstore.Rule{get(0, faultstore.Fault{Kind: rangeio.Throttled})}, n: 10, size: -1, kind: rangeio.Throttled,
				cost: readcost.Cost{Requests: 3, Throttled: 3}},
			{name: "missing is final", rules: []faultstore.Rule{get(0, faultstore.Fault{Kind: rangeio.NotFound})}, n: 10, size: -1, kind: rangeio.NotFound,
				cost: readcost.Cost{Requests: 1}},
			{name: "forbidden is final", rules: []faultstore.Rule{get(0, faultstore.Fault{Kind: rangeio.Forbidden})}, n: 10, size: -1, kind: rangeio.Forbidden,
				cost: readcost.Cost{Requests: 1}},
			{name: "a broken body is resumed where it broke", rules: []faultstore.Rule{get(2, faultstore.Fault{CutAfter: 1500})}, off: 10, n: 5000, size: -1,
				cost: readcost.Cost{Requests: 3, Bytes: 5000}},
			{name: "a short body is not the end of the data", rules: []faultstore.Rule{get(2, faultstore.Fault{EndAfter: 1500})}, off: 10, n: 5000, size: -1,
				cost: readcost.Cost{Requests: 3, Bytes: 5000}},
			{name: "a body that breaks before its first byte", rules: []faultstore.Rule{get(1, faultstore.Fault{CutAfter: -1})}, n: 5000, size: -1,
				cost: readcost.Cost{Requests: 2, Bytes: 5000}},
			{name: "broken too often", rules: []faultstore.Rule{get(0, faultstore.Fault{CutAfter: 100})}, n: 5000, size: -1, kind: rangeio.Unavailable,
				cost: readcost.Cost{Requests: 3, Bytes: 300}},
			{name: "another version after the break", rules: []faultstore.Rule{
				{Op: faultstore.Get, Times: 1, Fault: faultstore.Fault{CutAfter: 100}},
				{Op: faultstore.Get, Fault: faultstore.Fault{ETag: `"v2"`}},
			}, n: 5000, size: -1, kind: rangeio.Changed, cost: readcost.Cost{Requests: 2, Bytes: 100}},
			{name: "a body that stalls is resumed", rules: []faultstore.Rule{get(1, faultstore.Fault{CutAfter: 1500, Hang: true})}, n: 5000, size: -1,
				cost: readcost.Cost{Requests: 2, Bytes: 5000}},
			{name: "an answer that never comes", rules: []faultstore.Rule{get(0, faultstore.Fault{Block: make(chan struct{})})}, n: 5000, size: -1,
				kind: rangeio.Unavailable, cost: readcost.Cost{Requests: 3}},
		} {
			client, s, content := faulty(rangeio.Config{})
			for _, r := range c.rules {
				s.Inject(r)
			}
			dst := make([]byte, c.n)
			info, cost, err := client.ReadRange(t.Context(), "o", dst, c.off, c.etag, c.size)
			if c.kind != 0 {
				rangeiotest.IsKind(t, err, c.kind)
				if final := err.(*rangeio.Error); final.Retriable() != (c.kind == rangeio.Throttled || c.kind == rangeio.Unavailable) {
					t.Errorf("%s: retriable %v", c.name, final.Retriable())
				}
			} else if err != nil {
				t.Errorf("%s: %v", c.name, err)
			} else if !bytes.Equal(dst, content[c.off:c.off+c.n]) {
				t.Errorf("%s: wrong bytes", c.name)
			} else if c.n > 0 && (info != rangeio.Info{Size: 10_000, ETag: `"v1"`}) {
				t.Errorf("%s: info %+v", c.name, info)
			}
			if cost != c.cost || s.Count(faultstore.Get, nil) != c.cost.Requests {
				t.Errorf("%s: cost %+v, want %+v; store saw %v", c.name, cost, c.cost, s.Calls())
			}
			s.WaitClosed()
		}
	})
}

// noVersions is a store that gives no ETags.
type noVersions struct{ rangeio.Backend }

func (b noVersions) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
	body, info, err := b.Backend.Open(ctx, key, off, n, "")
	info.ETag = ""
	return body, info, err
}

func TestReadRangeWithoutVersionsStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, content := faulty(rangeio.Config{})
		s.Inject(get(1, faultstore.Fault{CutAfter: 100}))
		client := rangeio.NewClient(noVersions{s}, rangeio.Config{})
		dst := make([]byte, 1000)
		_, cost, err := client.ReadRange(t.Context(), "o", dst, 7, "", -1)
		if err != nil || !bytes.Equal(dst, content[7:1007]) || cost.Bytes != 1100 {
			t.Errorf("%+v, %v", cost, err)
		}
		if calls := s.Calls(); calls[1].Off != 7 {
			t.Errorf("resumed without a version: %v", calls)
		}
	})
}

// slowBody gives one byte every pause.
type slowBody struct {
	rangeio.Backend
	pause time.Duration
}

func (b slowBody) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
	body, info, err := b.Backend.Open(ctx, key, off, n, etag)
	return struct {
		io.Reader
		io.Closer
	}{readerFunc(func(p []byte) (int, error) {
		select {
		case <-time.After(b.pause):
			return body.Read(p[:1])
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}), body}, info, err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestStallWatchSparesSlowBodies: a body that takes ten minutes is fine as long as bytes come.
func TestStallWatchSparesSlowBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, content := faulty(rangeio.Config{})
		client := rangeio.NewClient(slowBody{s, 6 * time.Second}, rangeio.Config{StallTimeout: 10 * time.Second})
		dst := make([]byte, 100)
		_, cost, err := client.ReadRange(t.Context(), "o", dst, 0, "", -1)
		if err != nil || cost.Requests != 1 || !bytes.Equal(dst, content[:100]) {
			t.Errorf("%+v, %v", cost, err)
		}
		client = rangeio.NewClient(slowBody{s, 11 * time.Second}, rangeio.Config{StallTimeout: 10 * time.Second})
		_, cost, err = client.ReadRange(t.Context(), "o", dst, 0, "", -1)
		rangeiotest.IsKind(t, err, rangeio.Unavailable)
		if cost.Requests != 3 || !strings.Contains(err.Error(), "no byte for 10s") {
			t.Errorf("%+v, %v", cost, err)
		}
	})
}

// TestReadsEndWithTheirContext: wherever a read waits, the end of its context ends it at once, and it is nobody's
// fault.
func TestReadsEndWithTheirContext(t *testing.T) {
	for name, fault := range map[string]func() faultstore.Fault{
		"waiting for the answer": func() faultstore.Fault { return faultstore.Fault{Block: make(chan struct{})} },
		"waiting for the body":   func() faultstore.Fault { return faultstore.Fault{CutAfter: 100, Hang: true} },
		"between attempts":       func() faultstore.Fault { return faultstore.Fault{Kind: rangeio.Throttled} },
	} {
		synctest.Test(t, func(t *testing.T) {
			client, s, _ := faulty(rangeio.Config{Attempts: 1 << 20, MaxBackoff: time.Hour})
			s.Inject(get(0, fault()))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			start := time.Now()
			_, _, err := client.ReadRange(ctx, "o", make([]byte, 1000), 0, "", -1)
			rangeiotest.IsKind(t, err, rangeio.Canceled)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
			s.WaitClosed()
			n := s.Count(faultstore.Any, nil)
			_, _, err = client.ReadRange(ctx, "o", make([]byte, 1000), 0, "", -1)
			rangeiotest.IsKind(t, err, rangeio.Canceled)
			if s.Count(faultstore.Any, nil) != n {
				t.Errorf("%s: asked on behalf of somebody who had left", name)
			}
		})
	}
}

// TestBackoffGrowsAndSpreads: 64 readers that fail together must not come back together, and less often the longer it
// lasts.
func TestBackoffGrowsAndSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s, _ := faulty(rangeio.Config{Attempts: 8})
		start := time.Now()
		var second, late []time.Duration
		s.Inject(faultstore.Rule{Op: faultstore.Get, Fault: faultstore.Fault{Kind: rangeio.Throttled, Do: func() { late = append(late, time.Since(start)) }}})
		for range 64 {
			late = nil
			start = time.Now()
			client.ReadRange(t.Context(), "o", make([]byte, 10), 0, "", -1)
			second = append(second, late[1])
			for i := 1; i < len(late); i++ {
				if d := late[i] - late[i-1]; d > min(200*time.Millisecond<<(i-1), 2*time.Second)+time.Millisecond {
					t.Errorf("pause %d was %v", i, d)
				}
			}
		}
		slices.Sort(second)
		if spread := second[60] - second[3]; spread < 50*time.Millisecond || len(slices.Compact(second)) < 50 {
			t.Errorf("second attempts within %v of each other", spread)
		}
	})
}

func TestReadObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s, content := faulty(rangeio.Config{})
		got, info, cost, err := client.ReadObject(t.Context(), "o", 10_000)
		if err != nil || !bytes.Equal(got, content) || info.Size != 10_000 || cost != (readcost.Cost{Requests: 1, Bytes: 10_000}) {
			t.Errorf("%+v, %+v, %v", info, cost, err)
		}
		_, _, cost, err = client.ReadObject(t.Context(), "o", 9_999)
		rangeiotest.IsKind(t, err, rangeio.BadAnswer)
		if cost.Requests != 1 || cost.Bytes != 0 || err.(*rangeio.Error).Retriable() {
			t.Errorf("too large an object cost %+v", cost)
		}
		s.Inject(get(1, faultstore.Fault{CutAfter: 4000}))
		got, _, cost, err = client.ReadObject(t.Context(), "o", math.MaxInt64)
		if err != nil || !bytes.Equal(got, content) || cost != (readcost.Cost{Requests: 2, Bytes: 10_000}) {
			t.Errorf("%+v, %v", cost, err)
		}
		if last := s.Calls()[len(s.Calls())-1]; last.Off != 4000 || last.N != 6000 {
			t.Errorf("resumed with %+v", last)
		}
		// A size that lies upwards allocates within the limit and ends as a broken body.
		s.Inject(get(0, faultstore.Fault{SizeOff: 5000}))
		_, _, _, err = client.ReadObject(t.Context(), "o", 1<<20)
		if err == nil {
			t.Error("an object shorter than its size was given out")
		}
		s.Clear()
		if _, err := client.Put(t.Context(), "empty", bytes.NewReader(nil)); err != nil {
			t.Fatal(err)
		}
		got, info, _, err = client.ReadObject(t.Context(), "empty", 0)
		if err != nil || len(got) != 0 || info.Size != 0 {
			t.Errorf("empty object: %d bytes, %v", len(got), err)
		}
		s.WaitClosed()
	})
}

func TestWritesAreRetriedWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for kind, want := range map[rangeio.Kind]int{
			rangeio.Unavailable: 3, rangeio.Throttled: 3, rangeio.BadAnswer: 2,
			rangeio.Full: 1, rangeio.Forbidden: 1, rangeio.NoBucket: 1, rangeio.BadKey: 1, rangeio.BadContent: 1, rangeio.Changed: 1,
		} {
			client, s, _ := faulty(rangeio.Config{})
			s.Inject(faultstore.Rule{Fault: faultstore.Fault{Kind: kind}})
			_, err := client.Put(t.Context(), "p", strings.NewReader("x"))
			rangeiotest.IsKind(t, err, kind)
			rangeiotest.IsKind(t, client.Delete(t.Context(), "p"), kind)
			_, err = client.Stat(t.Context(), "p")
			rangeiotest.IsKind(t, err, kind)
			rangeiotest.IsKind(t, client.List(t.Context(), "p", nil), kind)
			for _, op := range []faultstore.Op{faultstore.Put, faultstore.Delete, faultstore.Stat, faultstore.List} {
				if n := s.Count(op, nil); n != want {
					t.Errorf("%v: %d times %s, want %d", kind, n, op, want)
				}
			}
		}
		client, s, _ := faulty(rangeio.Config{})
		s.Inject(faultstore.Rule{Op: faultstore.Put, Times: 2, Fault: faultstore.Fault{Kind: rangeio.Unavailable, After: true}})
		if info, err := client.Put(t.Context(), "p", strings.NewReader("content")); err != nil || info.Size != 7 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

func TestHangingStatAndDeleteEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s, _ := faulty(rangeio.Config{Attempts: 2, StallTimeout: 5 * time.Second})
		s.Inject(faultstore.Rule{Fault: faultstore.Fault{Block: make(chan struct{})}})
		start := time.Now()
		_, err := client.Stat(t.Context(), "o")
		rangeiotest.IsKind(t, err, rangeio.Unavailable)
		rangeiotest.IsKind(t, client.Delete(t.Context(), "o"), rangeio.Unavailable)
		if d := time.Since(start); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("two operations of two attempts of 5 s took %v", d)
		}
	})
}

// brokenList fails after some entries, the first times.
type brokenList struct {
	rangeio.Backend
	failures *int
	after    int
}

func (b brokenList) List(ctx context.Context, prefix string, fn func(rangeio.Object) error) error {
	n := 0
	return b.Backend.List(ctx, prefix, func(o rangeio.Object) error {
		if *b.failures > 0 && n == b.after {
			*b.failures--
			return &rangeio.Error{Kind: rangeio.Unavailable, Op: "list"}
		}
		n++
		return fn(o)
	})
}

func TestListGivesEachObjectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := simstore.NewMemory()
		for _, key := range []string{"a", "b", "c", "d"} {
			mem.Set(key, nil)
		}
		failures := 2
		client := rangeio.NewClient(brokenList{mem, &failures, 3}, rangeio.Config{StallTimeout: time.Second})
		var got []string
		if err := client.List(t.Context(), "", func(o rangeio.Object) error {
			time.Sleep(time.Minute) // the caller's own time is no stall
			got = append(got, o.Key)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, mem.Keys()) || failures != 0 {
			t.Errorf("got %q", got)
		}
		// An error of the function is neither retried nor wrapped, whatever it is.
		mine := &rangeio.Error{Kind: rangeio.Unavailable}
		calls := 0
		if err := client.List(t.Context(), "", func(rangeio.Object) error { calls++; return mine }); err != error(mine) || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		client, s, _ := faulty(rangeio.Config{Registerer: reg})
		if n := testutil.CollectAndCount(reg, "coldtap_rangeio_requests_total"); n != 5*15 {
			t.Errorf("%d series before the first request; a dashboard should see zeros", n)
		}
		s.Inject(get(1, faultstore.Fault{CutAfter: 400}))
		if _, _, err := client.ReadRange(t.Context(), "o", make([]byte, 1000), 0, "", -1); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := client.ReadObject(t.Context(), "o", 1<<20); err != nil {
			t.Fatal(err)
		}
		s.Inject(get(3, faultstore.Fault{CutAfter: 10}))
		if _, _, err := client.ReadRange(t.Context(), "o", make([]byte, 50), 0, "", -1); err == nil {
			t.Fatal("succeeded")
		}
		if _, err := client.Put(t.Context(), "p", strings.NewReader("content")); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Stat(t.Context(), "none"); err == nil {
			t.Fatal("found")
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP coldtap_rangeio_requested_bytes_total Bytes that callers asked to read, each counted once however often it was fetched.
# TYPE coldtap_rangeio_requested_bytes_total counter
coldtap_rangeio_requested_bytes_total 11050
# HELP coldtap_rangeio_fetched_bytes_total Body bytes received from the store.
# TYPE coldtap_rangeio_fetched_bytes_total counter
coldtap_rangeio_fetched_bytes_total 11030
# HELP coldtap_rangeio_refetched_bytes_total Body bytes received in vain: thrown away with a failed read or fetched once more.
# TYPE coldtap_rangeio_refetched_bytes_total counter
coldtap_rangeio_refetched_bytes_total 30
# HELP coldtap_rangeio_written_bytes_total Bytes of objects whose writing was confirmed.
# TYPE coldtap_rangeio_written_bytes_total counter
coldtap_rangeio_written_bytes_total 7
# HELP coldtap_rangeio_requests_in_flight Attempts at store operations now running.
# TYPE coldtap_rangeio_requests_in_flight gauge
coldtap_rangeio_requests_in_flight 0
# HELP coldtap_rangeio_retries_total Attempts beyond the first of an operation, resumed bodies included.
# TYPE coldtap_rangeio_retries_total counter
coldtap_rangeio_retries_total{op="delete"} 0
coldtap_rangeio_retries_total{op="get"} 3
coldtap_rangeio_retries_total{op="list"} 0
coldtap_rangeio_retries_total{op="put"} 0
coldtap_rangeio_retries_total{op="stat"} 0
`), "coldtap_rangeio_requested_bytes_total", "coldtap_rangeio_fetched_bytes_total", "coldtap_rangeio_refetched_bytes_total",
			"coldtap_rangeio_written_bytes_total", "coldtap_rangeio_requests_in_flight", "coldtap_rangeio_retries_total"); err != nil {
			t.Error(err)
		}
	})
}

func TestErrorText(t *testing.T) {
	cause := errors.New("connection refused")
	err := error(&rangeio.Error{Kind: rangeio.Unavailable, Op: "get", Key: "a b", Err: cause})
	if got := err.Error(); got != `get "a b": unavailable: connection refused` {
		t.Error(got)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
}
