package offload

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// The operator puts the good file back, after the tier has gone on behind the hole, or has ended with it.
func TestRepairedSegmentFillsItsHole(t *testing.T) {
	for _, bad := range [][]int64{{191}, {191, 287}, {0}, {460}, {0, 191, 460}} {
		clean := newFakeTier()
		dir := extract(t, "plain-0")
		clean.offload(t, clean.config(dir))
		w, sound := newFakeTier(), make(map[int64][]byte)
		cfg := w.config(dir)
		cfg.SkipDamaged = true
		path := func(base int64) string { return filepath.Join(dir, "plain-0", segment.FileName(base, ".log")) }
		for _, base := range bad {
			sound[base] = onDisk(t, path(base))
			edit(t, path(base), flip(5000))
		}
		if r := of(t, w.offload(t, cfg), "plain", 0); len(r.Holes) != len(bad) || !slices.Equal(r.Holes, w.partition(t, "plain", 0).Holes()) {
			t.Fatalf("%v: report %+v", bad, r)
		}
		// While they are damaged, nothing happens, with the option or without.
		for _, cfg.SkipDamaged = range []bool{true, false} {
			w.steps = 0
			report := w.offload(t, cfg)
			r := of(t, report, "plain", 0)
			known := 0
			for _, l := range r.Left {
				if l.Reason == KnownHole && strings.Contains(l.Detail, "checksum") {
					known++
				}
			}
			if report.Failed() || w.steps != 0 || known != len(bad) || len(r.Holes) != len(bad) {
				t.Errorf("%v: %d steps, report %+v", bad, w.steps, r)
			}
		}
		for n, base := range bad {
			if err := os.WriteFile(path(base), sound[base], 0o644); err != nil {
				t.Fatal(err)
			}
			report := w.offload(t, cfg)
			r, p := of(t, report, "plain", 0), w.partition(t, "plain", 0)
			s, ok := p.Find(base)
			if report.Failed() || r.Segments != 1 || !ok || s.BaseOffset != base || len(r.Holes) != len(bad)-n-1 {
				t.Errorf("%v: repaired at %d, found %+v, report %+v", bad, base, s, r)
			}
		}
		if got, want := w.describe(), clean.describe(); got != want {
			t.Errorf("%v: in the end\n%s\nwithout damage\n%s", bad, got, want)
		}
	}
}

// Filling a hole is a copy like any other: a store that fails is told, and the copy goes on under its id.
func TestFillingAHoleIsResumed(t *testing.T) {
	dir, w := extract(t, "txn-0"), newFakeTier()
	path := filepath.Join(dir, "txn-0", segment.FileName(174, ".log"))
	sound := onDisk(t, path)
	edit(t, path, cut(1))
	cfg := w.config(dir)
	cfg.SkipDamaged = true
	// The markers of transactions with data before it are out of reach, so that the hole is larger than the damage.
	if r := of(t, w.offload(t, cfg), "txn", 0); len(r.Holes) != 3 {
		t.Fatalf("holes %v", r.Holes)
	}
	if err := os.WriteFile(path, sound, 0o644); err != nil {
		t.Fatal(err)
	}
	w.putError = func(seg *tier.Segment) error {
		if seg.BaseOffset < 174 {
			return nil
		}
		return &rangeio.Error{Kind: rangeio.Forbidden, Op: "put", Err: errors.New("no")}
	}
	report := w.offload(t, cfg)
	r := of(t, report, "txn", 0)
	unfinished := w.partition(t, "txn", 0).Segments(true)
	if !report.Failed() || !strings.Contains(r.reasons(), "174..257 "+string(StoreFailed)) || len(r.Holes) != 1 || len(unfinished) != 9 {
		t.Fatalf("report %+v", r)
	}
	w.putError = nil
	report = w.offload(t, cfg)
	s, ok := w.partition(t, "txn", 0).Find(180)
	if report.Failed() || !ok || s.BaseOffset != 174 || s.ID != unfinished[2].ID || len(of(t, report, "txn", 0).Holes) != 0 {
		t.Errorf("found %+v, report %+v", s, of(t, report, "txn", 0))
	}
	clean := newFakeTier()
	clean.offload(t, clean.config(dir))
	if got, want := w.describe(), clean.describe(); got != want {
		t.Errorf("in the end\n%s\nwithout damage\n%s", got, want)
	}
}

// A run killed anywhere while it fills holes ends in the same state as one that was not.
func TestFillingHolesSurvivesKills(t *testing.T) {
	for limit := 1; ; limit++ {
		dir, w := extract(t, "plain-0"), newFakeTier()
		paths := []string{filepath.Join(dir, "plain-0", segment.FileName(92, ".log")), filepath.Join(dir, "plain-0", segment.FileName(460, ".log"))}
		var sound [][]byte
		for _, path := range paths {
			sound = append(sound, onDisk(t, path))
			edit(t, path, flip(100))
		}
		cfg := w.config(dir)
		cfg.SkipDamaged = true
		w.offload(t, cfg)
		for i, path := range paths {
			if err := os.WriteFile(path, sound[i], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w.steps, w.limit = 0, limit
		killed := w.offload(t, cfg).Failed()
		w.limit = 0
		report := w.offload(t, cfg)
		p := w.partition(t, "plain", 0)
		if report.Failed() || len(p.Holes()) != 0 || len(p.Segments(true)) != 6 || len(w.objects) != 12 {
			t.Errorf("killed after %d steps: holes %v, %d segments, report %+v", limit, p.Holes(), len(p.Segments(true)), report.Partitions)
		}
		if !killed {
			break
		}
	}
}

// The broker deleted what was not copied; another replica's directory still has it, with other segment borders.
func TestAnotherReplicaFillsAGap(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(10).roll().data(10).roll().data(1).done()
	w := newFakeTier()
	l.highWatermark(10)
	w.offload(t, w.config(l.dir))
	later := newLog(t, "a", 20).data(10).roll().data(1).done()
	cfg := w.config(later.dir)
	cfg.SkipDamaged = true
	w.offload(t, cfg)
	p := w.partition(t, "a", 0)
	if p.TieredEnd() > 30 || len(p.Holes()) != 1 {
		t.Fatalf("end %d, holes %v", p.TieredEnd(), p.Holes())
	}
	other := newLog(t, "a", 0).data(6).roll().data(9).roll().data(15).roll().data(1).done()
	report := w.offload(t, w.config(other.dir))
	p = w.partition(t, "a", 0)
	for offset := range int64(30) {
		if s, ok := p.Find(offset); !ok || s.BaseOffset > offset || s.EndOffset < offset {
			t.Errorf("offset %d is in %+v", offset, s)
		}
	}
	if report.Failed() || len(p.Holes()) != 0 {
		t.Errorf("holes %v, report %+v", p.Holes(), report.Partitions)
	}
}

// What a replica that lags behind has of a hole is not known to be committed.
func TestHoleIsNotFilledFromBeyondTheHighWatermark(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(10).roll().data(10).roll().data(1).done()
	sound := onDisk(t, l.path(segment.FileName(10, ".log")))
	edit(t, l.path(segment.FileName(10, ".log")), flip(-1))
	w := newFakeTier()
	cfg := w.config(l.dir)
	cfg.SkipDamaged = true
	w.offload(t, cfg)
	l.file(segment.FileName(10, ".log"), sound)
	for _, c := range []struct {
		highWatermark, logStart int64
		reasons                 string
		holes                   int
	}{
		{19, -1, "0..9 already copied; 10..19 in a recorded hole; 20..29 already copied; 30..-1 active segment", 1},
		{31, 20, "0..9 already copied; 10..19 in a recorded hole; 20..29 already copied; 30..-1 active segment", 1},
		{20, -1, "0..9 already copied; 20..29 already copied; 30..-1 active segment", 0},
	} {
		l.highWatermark(c.highWatermark).logStart(c.logStart)
		report := w.offload(t, w.config(l.dir))
		if r := of(t, report, "a", 0); report.Failed() || r.reasons() != c.reasons || len(r.Holes) != c.holes {
			t.Errorf("high watermark %d, log start %d: holes %v, left %s", c.highWatermark, c.logStart, r.Holes, r.reasons())
		}
	}
}
