package offload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/testkit"
	"coldtap/segment"
	"coldtap/tier"
)

// sampleEnds are the high watermarks of the sample's partitions, which are the ends of their logs.
var sampleEnds = map[string]int64{"plain-0": 558, "txn-0": 853, "txn-1": 974, "gaps-0": 2330, "codecs-0": 1547}

func byProducer(states []segment.ProducerState) []segment.ProducerState {
	slices.SortFunc(states, func(a, b segment.ProducerState) int { return int(a.ProducerID - b.ProducerID) })
	return states
}

// What the offloader computes for the end of a segment is what the broker itself wrote there.
func TestProducersAreThoseOfTheBrokersSnapshots(t *testing.T) {
	for _, name := range []string{"plain-0", "txn-0", "txn-1", "codecs-0"} {
		dir := extract(t, name)
		root, err := os.OpenRoot(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		p, local := &localLog{root: root}, bases(t, filepath.Join(dir, name))
		for i, base := range local[:len(local)-1] {
			known, err := p.producersAt(base)
			if err != nil {
				t.Fatal(err)
			}
			log := onDisk(t, dir, name, segment.FileName(base, ".log"))
			r := newBatchReader(t.Context(), name, bytes.NewReader(log), int64(len(log)), base, local[i+1])
			for {
				b, err := r.read()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := known.apply(&b); err != nil {
					t.Fatal(err)
				}
			}
			_, want, err := p.readSnapshot(local[i+1])
			if err != nil {
				t.Fatal(err)
			}
			if got := known.states(); !slices.Equal(got, byProducer(want)) {
				t.Errorf("%s at %d:\n%+v\nthe broker has\n%+v", name, local[i+1], got, want)
			}
		}
	}
}

func TestLastSequenceWrapsAround(t *testing.T) {
	for _, c := range []struct{ base, delta, want int32 }{
		{0, 0, 0}, {5, 3, 8}, {1<<31 - 1, 0, 1<<31 - 1}, {1<<31 - 1, 1, 0}, {1<<31 - 3, 9, 6}, {-1, 4, -1},
	} {
		if got := lastSequence(&segment.Header{BaseSequence: c.base, LastOffsetDelta: c.delta}); got != c.want {
			t.Errorf("sequence %d and %d more: %d, want %d", c.base, c.delta, got, c.want)
		}
	}
}

func TestSealedSampleReachesTheLogsEnd(t *testing.T) {
	dir, w := extract(t), newFakeTier()
	cfg := w.config(dir)
	cfg.SealActive = true
	report := w.offload(t, cfg)
	if report.Failed() {
		t.Fatalf("report %+v", report.Partitions)
	}
	for name, end := range sampleEnds {
		topic, n, _ := segment.ParsePartitionDir(name)
		p, r := w.partition(t, topic, n), of(t, report, topic, n)
		local := bases(t, filepath.Join(dir, name))
		segments := p.Segments(false)
		last := segments[len(segments)-1]
		log := onDisk(t, dir, name, segment.FileName(last.BaseOffset, ".log"))
		if p.TieredEnd() != end || len(r.Left) != 0 || len(r.Rebuilt) != 0 || len(segments) != len(local) || last.Size != int64(len(log)) {
			t.Fatalf("%s: tiered end %d, report %+v", name, p.TieredEnd(), r)
		}
		checkIndexes(t, last, log, w.files(t, last))
		// Every record, and which of them read_committed hides.
		want, shown := make(map[int64]bool), 0
		for _, r := range testkit.Expected(t, name, "read_uncommitted") {
			want[r.Offset] = true
		}
		for _, r := range testkit.Expected(t, name, "read_committed") {
			delete(want, r.Offset)
			shown++
		}
		got, records := make(map[int64]bool), 0
		for i, s := range segments {
			log := onDisk(t, dir, name, segment.FileName(local[i], ".log"))
			for _, o := range hidden(t, log, w.files(t, s).Aborted) {
				got[o] = true
			}
			for b := range segment.Batches(log) {
				if !b.Header.IsControl() {
					records += int(b.Header.Count)
				}
			}
		}
		if !maps.Equal(got, want) || records != shown+len(want) {
			t.Errorf("%s: %d records, hidden are %v, want %v", name, records, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		if name == "txn-1" {
			if raw := onDisk(t, dir, name, segment.FileName(last.BaseOffset, ".txnindex")); !bytes.Equal(w.files(t, last).TxnIndex, raw) {
				t.Errorf("txn-1: transaction index %x, the broker's %x", w.files(t, last).TxnIndex, raw)
			}
		}
	}
	before := w.describe()
	w.steps = 0
	for _, cfg.SealActive = range []bool{true, false} {
		if w.offload(t, cfg).Failed() || w.steps != 0 || w.describe() != before {
			t.Errorf("another run took %d steps", w.steps)
		}
	}
}

// The log of a broker that died when one of the sample's closed segments was active. Sealed, it has what the broker
// wrote when it closed it.
func TestSealedSegmentIsLikeTheClosedOne(t *testing.T) {
	for _, name := range []string{"txn-0", "txn-1", "codecs-0"} {
		topic, n, _ := segment.ParsePartitionDir(name)
		local := bases(t, filepath.Join(extract(t, name), name))
		for i, base := range local[:len(local)-1] {
			dir, w := extract(t, name), newFakeTier()
			end := local[i+1]
			entries, err := os.ReadDir(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			var snapshot []segment.ProducerState
			for _, e := range entries {
				offset, suffix, ok := segment.ParseFileName(e.Name())
				if !ok || offset < end {
					continue
				}
				if offset == end && suffix == ".snapshot" {
					if snapshot, err = segment.ParseSnapshot(onDisk(t, dir, name, e.Name())); err != nil {
						t.Fatal(err)
					}
				}
				removeFile(t, filepath.Join(dir, name, e.Name()))
			}
			text := fmt.Sprintf("0\n1\n%s %d %d\n", topic, n, end)
			if err := os.WriteFile(filepath.Join(dir, "replication-offset-checkpoint"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			cfg := w.config(dir)
			cfg.SealActive = true
			report := w.offload(t, cfg)
			// Transactions that are open at the end keep it, and maybe earlier segments, from being sealed whole.
			if open := slices.ContainsFunc(snapshot, func(s segment.ProducerState) bool { return s.TxnFirstOffset >= 0 }); open {
				stable := end
				for _, s := range snapshot {
					if s.TxnFirstOffset >= 0 {
						stable = min(stable, s.TxnFirstOffset)
					}
				}
				if p := w.tier.Snapshot(); stable > base && w.partition(t, topic, n).TieredEnd() != stable || report.Failed() {
					t.Errorf("%s to %d: want the tier to end at %d; %d segments, report %+v", name, end, stable, p.Segments(), report.Partitions)
				}
				continue
			}
			s, ok := w.partition(t, topic, n).Find(base)
			if report.Failed() || !ok || s.EndOffset != end-1 {
				t.Errorf("%s to %d: found %+v, report %+v", name, end, s, report.Partitions)
				continue
			}
			f := w.files(t, s)
			got, err := segment.ParseSnapshot(f.Snapshot)
			if err != nil || !slices.Equal(got, byProducer(snapshot)) {
				t.Errorf("%s to %d: snapshot %+v, the broker's %+v, %v", name, end, got, snapshot, err)
			}
			if raw := onDisk(t, dir, name, segment.FileName(base, ".txnindex")); !bytes.Equal(f.TxnIndex, raw) || (f.TxnIndex == nil) != (raw == nil) {
				t.Errorf("%s to %d: transaction index %x, the broker's %x", name, end, f.TxnIndex, raw)
			}
		}
	}
}

// walkAll reads a tier from its start as a reader does, and gives where each segment was entered.
func walkAll(t *testing.T, p *tier.Partition) string {
	t.Helper()
	var steps []string
	for offset := p.Bounds().Start; offset < p.TieredEnd(); {
		s, ok := p.Find(offset)
		if !ok || s.BaseOffset > offset || s.EndOffset < offset {
			t.Fatalf("offset %d of %d is in %+v", offset, p.TieredEnd(), s)
		}
		steps = append(steps, fmt.Sprintf("%d..%d", offset, s.EndOffset))
		offset = s.EndOffset + 1
	}
	return strings.Join(steps, " ")
}

// A cluster that was to be retired and was not: the log goes on behind the sealed part.
func TestLogThatGrowsAfterItWasSealed(t *testing.T) {
	tests := []struct {
		name  string
		grow  func(l *logBuilder)
		seal  bool // the second run does so too
		walk  string
		total int // segments, the shorter copy included
	}{
		{"longer, sealed again", func(l *logBuilder) { l.data(4) }, true, "0..9 10..18", 3},
		{"longer, not sealed", func(l *logBuilder) { l.data(4) }, false, "0..9 10..14", 2},
		{"closed", func(l *logBuilder) { l.data(4).roll().data(3) }, false, "0..9 10..18", 3},
		{"closed without another record", func(l *logBuilder) { l.roll().data(3) }, false, "0..9 10..14", 2},
		{"closed, the next one sealed", func(l *logBuilder) { l.data(4).roll().data(3) }, true, "0..9 10..18 19..21", 4},
		{"closed, and more behind", func(l *logBuilder) { l.data(4).roll().data(3).roll().data(2).roll().data(1) }, false, "0..9 10..18 19..21 22..23", 5},
		{"another leader", func(l *logBuilder) { l.lead(3).data(4).roll().data(3) }, true, "0..9 10..18 19..21", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLog(t, "a", 0).data(10).roll().data(5).done()
			w := newFakeTier()
			cfg := w.config(l.dir)
			cfg.SealActive = true
			if r := of(t, w.offload(t, cfg), "a", 0); r.Segments != 2 || r.TieredEnd != 15 || len(r.Left) != 0 {
				t.Fatalf("report %+v", r)
			}
			w.steps = 0
			if r := of(t, w.offload(t, cfg), "a", 0); w.steps != 0 || r.reasons() != "0..14 already copied" {
				t.Fatalf("%d steps, left %s", w.steps, r.reasons())
			}
			tt.grow(l)
			l.done()
			cfg.SealActive = tt.seal
			for range 2 {
				report, p := w.offload(t, cfg), w.partition(t, "a", 0)
				if got := walkAll(t, p); report.Failed() || got != tt.walk || len(p.Segments(true)) != tt.total {
					t.Errorf("%d segments, read %s, report %+v", len(p.Segments(true)), got, report.Partitions)
				}
			}
			for _, s := range w.partition(t, "a", 0).Segments(false) {
				if s.EndOffset == 14 || tt.seal && s.EndOffset == l.next-1 {
					continue
				}
				if f := w.files(t, s); !bytes.Equal(f.Snapshot, onDisk(t, l.path(segment.FileName(s.EndOffset+1, ".snapshot")))) {
					t.Errorf("at %d: the snapshot is not the broker's", s.BaseOffset)
				}
			}
		})
	}
}

func TestWhatBoundsTheSealedPart(t *testing.T) {
	// Offsets: 0..9 closed; 10..12 data, 13 and 14 one batch, 15 begins a transaction, 16 data.
	build := func(t *testing.T) *logBuilder {
		return newLog(t, "a", 0).data(10).roll().data(3).add(batchSpec{offsets: 2, timestamp: 2000}).txn(7).data(1)
	}
	tests := []struct {
		name          string
		highWatermark int64
		open          bool
		end           int64
		left          string
	}{
		{"nothing", 18, false, 18, ""},
		{"a batch border", 13, false, 13, "13..-1 above the high watermark"},
		{"the middle of a batch", 14, false, 13, "13..-1 above the high watermark"},
		{"the active segment's base", 10, false, 10, "10..-1 above the high watermark"},
		{"a closed segment", 5, false, 0, "0..-1 above the high watermark"},
		{"an open transaction", 17, true, 15, "15..-1 at or beyond the last stable offset"},
		{"the high watermark before the marker", 17, false, 15, "15..-1 at or beyond the last stable offset"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := build(t)
			if !tt.open {
				l.end(7, false)
			}
			l.done().highWatermark(tt.highWatermark)
			w := newFakeTier()
			cfg := w.config(l.dir)
			cfg.SealActive = true
			report := w.offload(t, cfg)
			r := of(t, report, "a", 0)
			if report.Failed() || r.TieredEnd != tt.end || r.reasons() != tt.left {
				t.Fatalf("tiered end %d, left %q", r.TieredEnd, r.reasons())
			}
			if tt.end <= 10 {
				return
			}
			s, _ := w.partition(t, "a", 0).Find(10)
			log := onDisk(t, l.path(segment.FileName(10, ".log")))[:s.Size]
			next := int64(10)
			for b, err := range segment.Batches(log) {
				if err != nil {
					t.Fatal(err)
				}
				next = b.Header.LastOffset() + 1
			}
			if next != tt.end || s.EndOffset != tt.end-1 {
				t.Errorf("%d bytes were copied, which end at %d; the segment at %d", s.Size, next, s.EndOffset)
			}
			checkIndexes(t, s, log, w.files(t, s))
		})
	}
}

// A transaction reaches over the sealed end, and its marker decides what was copied before: it has data on both sides
// of another one that never ends.
func TestSealedPartKnowsHowItsTransactionsEnd(t *testing.T) {
	l := newLog(t, "a", 0).data(2).roll().txn(7).txn(9).txn(8).end(7, false).end(9, true).data(1).done()
	w := newFakeTier()
	cfg := w.config(l.dir)
	cfg.SealActive = true
	w.offload(t, cfg)
	s, ok := w.partition(t, "a", 0).Find(2)
	if !ok || s.EndOffset != 3 {
		t.Fatalf("sealed %+v, want it to end before the open transaction at 4", s)
	}
	f := w.files(t, s)
	states, err := segment.ParseSnapshot(f.Snapshot)
	if want := []segment.AbortedTxn{{ProducerID: 7, FirstOffset: 2, LastOffset: 5, LastStableOffset: 3}}; err != nil || !slices.Equal(f.Aborted, want) || f.TxnIndex != nil {
		t.Errorf("aborted %+v, transaction index %x, %v", f.Aborted, f.TxnIndex, err)
	}
	if len(states) != 2 || states[0].TxnFirstOffset != 2 || states[1].TxnFirstOffset != 3 || states[0].LastOffset != 2 {
		t.Errorf("producers at the end: %+v", states)
	}
	// The cluster comes back, and the transaction is aborted.
	l.end(8, false).roll().data(1).done()
	cfg.SealActive = false
	if report := w.offload(t, cfg); report.Failed() {
		t.Fatalf("report %+v", report.Partitions)
	}
	p := w.partition(t, "a", 0)
	if got := walkAll(t, p); got != "0..1 2..8" {
		t.Errorf("read %s", got)
	}
	s, _ = p.Find(2)
	if got := hidden(t, onDisk(t, l.path(segment.FileName(2, ".log"))), w.files(t, s).Aborted); !slices.Equal(got, []int64{2, 4}) {
		t.Errorf("hidden are %v", got)
	}
}

// Without the snapshot at its base, nobody knows the producers at its end.
func TestActiveSegmentWithoutASnapshotIsLeft(t *testing.T) {
	for _, spoil := range []func(t *testing.T, path string){
		func(t *testing.T, path string) { removeFile(t, path) },
		func(t *testing.T, path string) { edit(t, path, flip(3)) },
	} {
		l := newLog(t, "a", 10).data(5).done()
		l.file(segment.FileName(10, ".snapshot"), segment.AppendSnapshot(nil, nil))
		spoil(t, l.path(segment.FileName(10, ".snapshot")))
		w := newFakeTier()
		cfg := w.config(l.dir)
		cfg.SealActive, cfg.SkipDamaged = true, true
		report := w.offload(t, cfg)
		r := of(t, report, "a", 0)
		if !report.Failed() || r.Segments != 0 || len(r.Left) != 1 || r.Left[0].Reason != Damaged || !strings.Contains(r.Left[0].Detail, ".snapshot") || w.steps > 2 { // topic and partition
			t.Errorf("%d steps, report %+v", w.steps, r)
		}
		cfg.SealActive = false
		if report := w.offload(t, cfg); report.Failed() {
			t.Errorf("without sealing: %+v", report.Partitions)
		}
	}
}

func TestActiveSegmentIsSealedUpToItsDamage(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(5).done()
	edit(t, l.path(segment.FileName(10, ".log")), flip(-1))
	w := newFakeTier()
	cfg := w.config(l.dir)
	cfg.SealActive = true
	report := w.offload(t, cfg)
	if r := of(t, report, "a", 0); !report.Failed() || r.TieredEnd != 14 || !strings.Contains(r.reasons(), "14..14 damaged") {
		t.Errorf("tiered end %d, left %s", r.TieredEnd, r.reasons())
	}
}

func TestSealingSurvivesKills(t *testing.T) {
	for limit := 1; ; limit++ {
		l := newLog(t, "a", 0).data(10).roll().txn(7).end(7, false).data(5).done()
		w := newFakeTier()
		cfg := w.config(l.dir)
		cfg.SealActive = true
		w.limit = limit
		killed := w.offload(t, cfg).Failed()
		w.limit = 0
		grown := limit%2 == 0
		if grown {
			l.data(3).done()
		}
		report, p := w.offload(t, cfg), w.partition(t, "a", 0)
		want := fmt.Sprintf("0..9 10..%d", l.next-1)
		if got := walkAll(t, p); report.Failed() || got != want || strings.Contains(w.describe(), "orphan") || strings.Contains(w.describe(), "STARTED") {
			t.Errorf("killed after %d steps, grown %v: read %s\n%s", limit, grown, got, w.describe())
		}
		if !killed && !grown {
			break
		}
	}
}
