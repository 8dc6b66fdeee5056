package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/segment"
)

// A sequential scan reads every chunk once and nothing that it does not serve.
func TestScanReadsChunksOnce(t *testing.T) {
	for _, chunk := range []int64{4 << 10, 10_000, 64 << 10} {
		for _, window := range []int{-1, 2, 8} {
			s := newHarness(t, shape{chunk: chunk, memory: 10 * chunk, window: window})
			s.plain()
			chunks := int(3 * ((100_000 + chunk - 1) / chunk))
			if a := s.raw(from(0)); len(a.offsets) != 300 || s.logGets() != chunks {
				t.Errorf("chunks of %d: %d reads for %d chunks, %v", chunk, s.logGets(), chunks, a.err)
			}
			if s.fetched != 300_000 {
				t.Errorf("chunks of %d: fetched %d bytes of 300000", chunk, s.fetched)
			}
		}
	}
}

// An answer with an end fetches no chunk beyond it, however it is named.
func TestNoOverfetch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Request)
		chunks int
	}{
		"bytes":     {func(r *Request) { r.MaxBytes = 3000 }, 1},
		"records":   {func(r *Request) { r.MaxRecords = 3 }, 1},
		"offset":    {func(r *Request) { r.EndOffset = 13 }, 1},
		"timestamp": {func(r *Request) { r.EndTimestamp = plainTime + 13 }, 1},
		// The entry after the end lies at offset 105, of the next segment.
		"end of segment": {func(r *Request) { r.Offset, r.EndOffset = 96, 100 }, 1},
		"two segments":   {func(r *Request) { r.Offset, r.EndOffset = 96, 102 }, 2},
		"nothing":        {func(r *Request) { r.EndOffset = 10 }, 0},
	} {
		for _, isolation := range []Isolation{ReadCommitted, ReadUncommitted} {
			s := newHarness(t, shape{chunk: 20_000, window: 4})
			s.plain()
			r := from(10)
			r.Isolation = isolation
			c.change(r)
			if a := s.raw(r); a.err != nil || s.logGets() != c.chunks {
				t.Errorf("%s, isolation %d: %d chunks read, want %d: %v", name, isolation, s.logGets(), c.chunks, a)
			}
		}
	}
}

// Hidden batches are free of MaxBytes, but not without bound, and then the answer shows progress.
func TestHiddenScanIsBounded(t *testing.T) {
	s := newHarness(t, shape{})
	s.freeScan = 10_000
	s.topic("t", 0)
	var log []byte
	for o := int64(0); o < 400; o++ {
		log = append(log, marker(o, 7, 1, 1000)...)
	}
	s.add(stored{base: 0, end: 409, log: joined(log, dense(400, 409, false)), files: segment.Files{Decided: true}})
	for _, view := range []func(*Request) *answer{s.raw, func(r *Request) *answer { return s.records(r) }} {
		r := committed(0)
		r.MaxBytes = 1000
		steps := 0
		a := view(r)
		for ; a.err == nil && a.end == EndLimit; a = view(r) {
			if a.next <= r.Offset {
				t.Fatalf("no progress: %v", a)
			}
			r.Offset = a.next
			steps++
		}
		if steps != 2 || fmt.Sprint(a.offsets) != fmt.Sprint(offsetsOf(400, 409)) {
			t.Errorf("%d steps, then %v", steps, a)
		}
	}
}

// Many readers with memory for four chunks, batches that straddle chunks, and decode memory for a few batches:
// everybody gets everything, in the end.
func TestLittleMemory(t *testing.T) {
	s := newHarness(t, shape{chunk: 1 << 10, memory: 4 << 10, decode: 48 << 10})
	s.topic("t", 0)
	var log []byte
	for o := int64(0); o < 60; o += 3 {
		log = append(log, one(o, 1000, 700)...)
		b := batchOf{base: o + 1, zip: true}
		for i := range 2 {
			b.records = append(b.records, rec{delta: i, time: 1000, value: string(make([]byte, 3000))})
		}
		log = append(log, b.encode()...)
		if o == 30 {
			log = log[:len(log)-len(b.encode())]
			log = append(log, one(31, 1000, 5000)...)
			log = append(log, one(32, 1000, 100)...)
		}
	}
	s.add(stored{base: 0, end: 59, log: log, files: segment.Files{Decided: true}})
	var wg sync.WaitGroup
	for i := range 16 {
		view := s.raw
		if i%2 == 0 {
			view = func(r *Request) *answer { return s.records(r) }
		}
		wg.Go(func() {
			got := int64(0)
			r := committed(0)
			for tries := 0; got < 60; tries++ {
				r.Offset = got
				a := view(r)
				for _, o := range a.offsets {
					if o != got {
						t.Errorf("offset %d, want %d", o, got)
						return
					}
					got++
				}
				if k := a.kind(); a.err != nil && k != Busy || tries > 1000 {
					t.Error(a.err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestStreamTimeout: an answer that is sent while it is read may wait for its next chunk as long as for the one before,
// however long all of them take. Where one does not come in time, the stream breaks and says where to go on.
func TestStreamTimeout(t *testing.T) {
	for view, read := range map[string]func(*harness, *Request) *answer{"records": func(s *harness, r *Request) *answer { return s.records(r) }, "raw": (*harness).raw} {
		synctest.Test(t, func(t *testing.T) {
			s := newHarness(t, shape{chunk: 10_000, window: -1})
			s.plain()
			var delay atomic.Int64
			s.loadLog = func(segment.UUID, int64) error { time.Sleep(time.Duration(delay.Load())); return nil }
			r := from(0)
			r.Timeout, r.Stream = 3*time.Second, true
			delay.Store(int64(2 * time.Second))
			a := read(s, r)
			want(t, view, a, offsetsOf(0, 299), EndTier, 300)
			if a.stats.Store != 60*time.Second {
				t.Errorf("%s: waited %v", view, a.stats.Store)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			s := newHarness(t, shape{chunk: 10_000, window: -1})
			s.plain()
			s.loadLog = func(id segment.UUID, off int64) error {
				if id == idOf(2) && off == 20_000 {
					time.Sleep(4 * time.Second)
				}
				return nil
			}
			r := from(0)
			r.Timeout, r.Stream = 3*time.Second, true
			a := read(s, r)
			if e := wantKind(t, view, a, TimedOut); e.NextOffset != 120 || a.next != 120 || a.end != 0 {
				t.Errorf("%s: next %d in the error, %v", view, e.NextOffset, a)
			}
			time.Sleep(10 * time.Second)
		})
	}
}

// TestStreamTimeoutWithinABatch: a batch of many chunks may take as long as they take, one after the other.
func TestStreamTimeoutWithinABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, shape{chunk: 10_000, window: -1})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 1, log: joined(one(0, 1000, 1000), one(1, 2000, 100_000))})
		s.loadLog = func(segment.UUID, int64) error { time.Sleep(2 * time.Second); return nil }
		r := from(0)
		r.Timeout, r.Stream = 3*time.Second, true
		want(t, "a batch over eleven chunks", s.records(r), offsetsOf(0, 1), EndTier, 2)
	})
}

// TestStreamWaitsOutRefusals: what refuses for the moment does not end an answer that is to go on to its end, until the
// time for waiting is used up.
func TestStreamWaitsOutRefusals(t *testing.T) {
	for _, refusals := range []int{4, 1000} {
		synctest.Test(t, func(t *testing.T) {
			s := newHarness(t, shape{chunk: 10_000, window: -1})
			s.plain()
			left := refusals
			refuse := func(id segment.UUID) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if left--; id != idOf(2) || left < 0 {
					return nil
				}
				return failure(Busy, nil, "queue full")
			}
			s.loadLog = func(id segment.UUID, off int64) error {
				if off != 20_000 {
					return nil
				}
				return refuse(id)
			}
			s.loadFile = refuse // when the segment is entered
			r := committed(0)
			r.Timeout, r.Stream = 5*time.Second, true
			a := s.records(r)
			if refusals == 4 {
				want(t, "four refusals", a, offsetsOf(0, 299), EndTier, 300)
			} else if e := wantKind(t, "refused for ever", a, Busy); e.NextOffset != 100 || len(a.offsets) != 100 {
				t.Errorf("%v", a)
			}
		})
	}
	for _, held := range []time.Duration{10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := newHarness(t, shape{chunk: 64 << 10, decode: 1 << 20, window: -1})
			s.topic("t", 0)
			s.add(stored{base: 0, end: 19, log: joined(dense(0, 9, false), compressed(10, segment.Gzip, 200_000, 10), dense(11, 19, true))})
			r := from(0)
			r.Timeout, r.Stream = 20*time.Second, true
			a := s.records(r, func(rec *segment.Record) {
				if rec.Offset == 5 {
					n := s.decode.Size() - s.decode.InUse() - 1000
					s.decode.TryAcquire(n)
					time.AfterFunc(held, func() { s.decode.Release(n) })
				}
			})
			if held < r.Timeout {
				want(t, "memory comes back", a, offsetsOf(0, 19), EndTier, 20)
			} else if e := wantKind(t, "memory does not come back", a, Busy); e.NextOffset != 10 || len(a.offsets) != 10 {
				t.Errorf("%v", a)
			}
			time.Sleep(held)
		})
	}
}

// Only the time spent waiting counts, and what is there by then is an answer.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, shape{chunk: 10_000, window: -1})
		s.plain()
		var delay atomic.Int64
		s.loadLog = func(segment.UUID, int64) error { time.Sleep(time.Duration(delay.Load())); return nil }
		r := from(0)
		r.Timeout = 3 * time.Second
		delay.Store(int64(4 * time.Second))
		e := wantKind(t, "too slow", s.records(r), TimedOut)
		if e.NextOffset != 0 {
			t.Errorf("next offset %d", e.NextOffset)
		}
		// The flight went on: its chunk is there now.
		time.Sleep(2 * time.Second)
		a := s.records(r)
		want(t, "one chunk", a, offsetsOf(0, 9), EndLimit, 10)
		if a.stats.Store != 3*time.Second || a.stats.ChunksMem != 1 {
			t.Errorf("stats %+v", a.stats)
		}
		// A client that takes its time does not spend it.
		delay.Store(int64(260 * time.Millisecond)) // eleven chunks, and not a twelfth
		r.Offset = 100
		st, err := s.Open(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var run Run
		n := 0
		for err = nil; err == nil; err = st.NextRun(t.Context(), &run) {
			time.Sleep(time.Minute)
			n++
		}
		if reason, _ := st.End(); err != io.EOF || reason != EndLimit || st.NextOffset() != 210 {
			t.Errorf("%v, end %v, next %d after %d runs", err, reason, st.NextOffset(), n)
		}
		st.Close()

		s.loadFile = func(segment.UUID) error { time.Sleep(time.Minute); return nil }
		r.Offset = 250
		wantKind(t, "a slow index", s.records(r), TimedOut)
		time.Sleep(time.Minute)
	})
}

func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, shape{chunk: 10_000})
		s.plain()
		s.loadLog = func(segment.UUID, int64) error { time.Sleep(time.Minute); return nil }
		for _, c := range []struct {
			with func(context.Context) (context.Context, context.CancelFunc)
			kind Kind
		}{
			{func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			}, Canceled},
			{func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			}, TimedOut},
		} {
			st, err := s.Open(t.Context(), from(0))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := c.with(t.Context())
			if err := st.NextRun(ctx, new(Run)); kindOf(err) != c.kind {
				t.Errorf("%v, want %v", err, c.kind)
			}
			cancel()
			st.Close()
		}
		time.Sleep(2 * time.Minute)
	})
}

// Memory that nobody gives back is a refusal, not a hang.
func TestNoMemoryIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, shape{chunk: 10_000, decode: 1 << 20})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 9, log: dense(0, 9, true)})
		if !s.decode.TryAcquire(1 << 20) {
			t.Fatal("decode memory is in use")
		}
		wantKind(t, "no decode memory", s.records(from(0)), Busy)
		if a := s.raw(from(0)); len(a.batches) != 1 {
			t.Errorf("raw needs none: %v", a)
		}
		s.decode.Release(1 << 20)
		want(t, "with memory", s.records(from(0)), offsetsOf(0, 9), EndTier, 10)
	})
}

func TestErrorsOfLoaders(t *testing.T) {
	for cause, kind := range map[error]Kind{
		failure(Busy, nil, "queue full"): Busy, context.DeadlineExceeded: Unreachable, context.Canceled: Unreachable,
		errors.New("odd"): Internal, failure(Unreachable, nil, "503"): Unreachable,
	} {
		s := newHarness(t, shape{})
		s.plain()
		s.loadLog = func(segment.UUID, int64) error { return cause }
		e := wantKind(t, cause.Error(), s.records(from(42)), kind)
		if e.NextOffset != 42 || e.Segment != idOf(1) || e.Position < 0 {
			t.Errorf("%v: %+v", cause, e)
		}
	}
}

// A hit costs next to nothing: a stream is reused, and nothing is allocated for a batch or a run.
func TestAllocations(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("sync.Pool drops things under the race detector")
	}
	s := newHarness(t, shape{chunk: 64 << 10, memory: 4 << 20})
	s.plain()
	r := committed(105)
	r.EndOffset = 290
	r.Timeout = time.Minute
	ctx := t.Context()
	n := 0
	var run Run
	read := func() {
		st, err := s.Open(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for {
			if err := st.NextRun(ctx, &run); err != nil {
				if err != io.EOF {
					t.Fatal(err)
				}
				break
			}
			n += len(run.Bytes())
		}
		st.Close()
	}
	read()
	if n != 185_000 {
		t.Fatalf("%d bytes", n)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// Two segments, six chunks.
	if allocs := testing.AllocsPerRun(100, read); allocs > 2 {
		t.Errorf("%v allocations for a read of 6 chunks in memory, want at most 2", allocs)
	} else {
		t.Logf("%v allocations", allocs)
	}
}
