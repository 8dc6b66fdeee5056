package fetch

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// repaired gives a harness over plain segments whose log is damaged in transit: reads of segment 1 flip a bit at
// position at, the first times times.
func repaired(t *testing.T, sh shape, at int64, times int) (*harness, func(times int)) {
	s := newHarness(t, sh)
	segs := s.plain()
	s.logs[segs[0].ID].spoil = func(off int64, chunk []byte) {
		if in := at - off; in >= 0 && in < int64(len(chunk)) && times > 0 {
			times--
			chunk[in] ^= 0x40
		}
	}
	return s, func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		times = n
	}
}

func (s *harness) refetches(result int) float64 {
	return testutil.ToFloat64(s.metrics.refetches[result])
}

// Damage that is not in the store heals within the request, at the cost of one GET for each chunk that the batch lies
// in; what is damaged there as well is an error, and once the object is repaired the next request gets the truth.
func TestDamageIsReadOnceMore(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     int64 // in the batch at position 50,000
		chunk  int64
		chunks int // that the damaged batch lies in
		next   int64
	}{
		{"a value", 50_500, 10_000, 1, 51},
		{"the length", 50_010, 10_000, 1, 55}, // where the index leads next
		{"the offset", 50_002, 10_000, 1, 51},
		{"the magic", 50_016, 10_000, 1, 51},
		{"in the first of two chunks", 50_100, 10_100, 0, 51},
		{"across two chunks", 50_700, 50_600, 2, 51},
		{"a header across two chunks", 50_005, 50_010, 2, 51},
		{"over many chunks, assembled", 50_500, 300, 4, 51},
	} {
		views := map[string]func(*harness, *Request) *answer{
			"raw":     func(s *harness, r *Request) *answer { return s.raw(r) },
			"records": func(s *harness, r *Request) *answer { return s.records(r) },
		}
		for view, read := range views {
			t.Run(c.name+", "+view, func(t *testing.T) {
				sh := shape{chunk: c.chunk, memory: 1 << 20, window: -1}
				s, _ := repaired(t, sh, c.at, 1)
				healthy := newHarness(t, sh)
				healthy.plain()
				r := from(45)
				r.EndOffset = 60
				want(t, "healthy", read(healthy, r), offsetsOf(45, 59), EndRange, 60)
				if healthy.refetches(healed)+healthy.refetches(stillDamaged) != 0 {
					t.Error("healthy data was read again")
				}
				want(t, "damaged in transit", read(s, r), offsetsOf(45, 59), EndRange, 60)
				if more := s.logGets() - healthy.logGets(); more < 1 || c.chunks > 0 && more > c.chunks+1 {
					t.Errorf("%d more GETs for a batch of %d chunks", more, c.chunks)
				}
				gets := s.logGets()
				want(t, "afterwards", read(s, r), offsetsOf(45, 59), EndRange, 60)
				if s.logGets() != gets || s.refetches(healed) != 1 || s.refetches(stillDamaged) != 0 {
					t.Errorf("%d more GETs, healed %v, damaged %v", s.logGets()-gets, s.refetches(healed), s.refetches(stillDamaged))
				}

				s, damage := repaired(t, sh, c.at, 1000)
				var log bytes.Buffer
				s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				r.Offset = 50
				for i := range 2 {
					gets := s.logGets()
					e := wantKind(t, "damaged in the store", read(s, from(45)), Damaged)
					if e.Position != 50_000 || e.NextOffset != c.next || e.Segment != idOf(1) {
						t.Errorf("%+v", e)
					}
					if more := s.logGets() - gets; i > 0 && more > 2*max(c.chunks, 2)+1 {
						t.Errorf("%d GETs for damage that was met before", more)
					}
				}
				if n := strings.Count(log.String(), "damaged log bytes"); n != 2 || !strings.Contains(log.String(), "position=50000") ||
					!strings.Contains(log.String(), "segment="+idOf(1).String()) {
					t.Errorf("%d lines for two requests:\n%s", n, log.String())
				}
				if s.refetches(healed) != 0 || s.refetches(stillDamaged) != 2 {
					t.Errorf("healed %v, damaged %v", s.refetches(healed), s.refetches(stillDamaged))
				}
				damage(0)
				want(t, "repaired", read(s, r), offsetsOf(50, 59), EndRange, 60)
				if s.refetches(healed) != 0 {
					t.Error("damage was left in memory")
				}
			})
		}
	}
}

// Readers that meet the same damaged chunk together ask the store for it once more, or about that.
func TestDamageHerd(t *testing.T) {
	s, _ := repaired(t, shape{chunk: 20_000, memory: 1 << 20, window: -1}, 50_500, 1)
	r := from(45)
	r.EndOffset = 55
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if a := s.raw(r); a.err != nil || len(a.offsets) != 10 {
				t.Error(a)
			}
		})
	}
	wg.Wait()
	if n := s.logGets(); n != 2 {
		t.Errorf("%d GETs", n)
	}
}

// A header whose damage claims more offsets than the batch has must not leave a trace in what is hidden afterwards.
func TestDamageLeavesNoAbortedTransaction(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	log := joined(txn(7, 0, 9), marker(10, 7, 1, 1), txn(7, 11, 19), marker(20, 7, 0, 1))
	seg := s.add(stored{base: 0, end: 20, log: log, files: segment.Files{Decided: true,
		Aborted: []segment.AbortedTxn{{ProducerID: 7, FirstOffset: 11, LastOffset: 20}}}})
	n := 0
	s.logs[seg.ID].spoil = func(_ int64, chunk []byte) {
		if n++; n == 1 {
			chunk[26] = 15 // last offset delta
		}
	}
	want(t, "committed", s.records(committed(0)), offsetsOf(0, 9), EndTier, 21)
	if n != 2 {
		t.Errorf("%d GETs", n)
	}
}

// Records that cannot be decoded although the checksum is right are as they were written: nobody reads them again.
func TestUndecodableIsNotReadAgain(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	b := dense(0, 9, true)
	b[len(b)-12] ^= 0xff
	b[70] ^= 0xff
	seal(b)
	s.add(stored{base: 0, end: 9, log: b})
	for range 2 {
		wantKind(t, "undecodable", s.records(from(0)), Damaged)
	}
	if s.logGets() != 1 || s.refetches(stillDamaged) != 0 {
		t.Error(fmt.Sprint(s.logGets(), " GETs"))
	}
}
