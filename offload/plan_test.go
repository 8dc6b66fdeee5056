package offload

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

func TestWhatIsEligible(t *testing.T) {
	tests := []struct {
		name  string
		log   func(t testing.TB) *logBuilder
		left  string
		end   int64 // tiered end, -1 = nothing is recorded
		start int64
	}{
		{"all closed segments", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).roll().data(10).roll().data(5).done()
		}, "20..-1 active segment", 20, 0},
		{"an empty active segment", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).roll().done()
		}, "10..-1 active segment", 10, 0},
		{"one segment", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).done()
		}, "0..-1 active segment", 0, 0},
		{"high watermark within a segment", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).roll().data(10).roll().data(5).done().highWatermark(19)
		}, "10..19 above the high watermark; 20..-1 active segment", 10, 0},
		{"high watermark at a segment's end", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).roll().data(10).roll().data(5).done().highWatermark(20)
		}, "20..-1 active segment", 20, 0},
		{"high watermark 0", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).roll().data(10).done().highWatermark(0)
		}, "0..9 above the high watermark; 10..-1 active segment", 0, 0},
		{"no high watermark", func(t testing.TB) *logBuilder {
			l := newLog(t, "a", 0).data(10).roll().data(10).done()
			l.write("replication-offset-checkpoint", "0\n1\nb 0 100\n")
			return l
		}, "-1..-1 no checkpointed high watermark", -1, -1},
		{"an open transaction", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(200).roll().data(80).txn(7).data(19).roll().data(5).done()
		}, "200..299 at or beyond the last stable offset; 300..-1 active segment", 200, 0},
		{"a transaction that ends in the active segment", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(80).txn(7).data(19).roll().data(5).end(7, false).data(1).done()
		}, "100..-1 active segment", 100, 0},
		{"a marker at the high watermark", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(80).txn(7).data(19).roll().data(5).end(7, false).data(1).done().highWatermark(105)
		}, "0..99 at or beyond the last stable offset; 100..-1 active segment", 0, 0},
		{"a marker below the high watermark", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(80).txn(7).data(19).roll().data(5).end(7, false).data(1).done().highWatermark(106)
		}, "100..-1 active segment", 100, 0},
		{"a log that begins above 0", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 500).data(10).roll().data(1).done()
		}, "510..-1 active segment", 510, 500},
		{"a log start within a segment", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).roll().data(10).roll().data(10).roll().data(1).done().logStart(15)
		}, "0..9 below the log start; 30..-1 active segment", 30, 15},
		{"a log start in the active segment", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).roll().data(10).done().logStart(15)
		}, "0..9 below the log start; 10..-1 active segment", 15, 15},
		{"compacted, by the cleaner's checkpoint", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).skip(3).data(5).skip(2).data(1).skip(4).roll().data(1).done().cleaned()
		}, "15..-1 active segment", 15, 0},
		{"compacted, by the batches", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).skip(3).add(batchSpec{offsets: 5, count: 2, timestamp: 9}).skip(4).roll().data(1).done()
		}, "12..-1 active segment", 12, 0},
		{"not compacted, offsets missing", func(t testing.TB) *logBuilder {
			return newLog(t, "a", 0).data(10).roll().data(5).skip(1).data(5).roll().data(1).done()
		}, "10..20 damaged; 21..-1 active segment", 10, 0},
		{"log begins in a transaction that is aborted", func(t testing.TB) *logBuilder {
			l := newLog(t, "a", 100)
			l.open[7] = 90
			return l.txn(7).end(7, false).roll().data(1).done()
		}, "102..-1 active segment", 102, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, w := tt.log(t), newFakeTier()
			r := of(t, w.offload(t, w.config(l.dir)), "a", 0)
			if r.reasons() != tt.left {
				t.Errorf("left %q, want %q: %+v", r.reasons(), tt.left, r.Left)
			}
			p, ok := w.Snapshot().Partition(tier.PartitionID{Topic: testTopicID})
			if !ok {
				if tt.end != -1 {
					t.Error("nothing is recorded")
				}
				return
			}
			if p.TieredEnd() != tt.end || p.Bounds().Start != tt.start {
				t.Errorf("tiered %d to %d, want %d to %d", p.Bounds().Start, p.TieredEnd(), tt.start, tt.end)
			}
		})
	}
}

// Snapshots bound the replay; when the newest ones are useless, it begins earlier and finds the same.
func TestLastStableOffsetWithoutUsableSnapshots(t *testing.T) {
	build := func() *logBuilder {
		return newLog(t, "a", 0).data(10).txn(7).roll().data(10).roll().end(7, true).data(10).roll().txn(8).data(4).roll().data(1).done()
	}
	for name, spoil := range map[string][]int64{"none": nil, "the newest": {37}, "all but the first": {21, 32, 37}} {
		l, w := build(), newFakeTier()
		for _, offset := range spoil {
			edit(t, l.path(segment.FileName(offset, ".snapshot")), flip(-1))
		}
		r := of(t, w.offload(t, w.config(l.dir)), "a", 0)
		// 8 is open from 32 on; damaged snapshots stop the copy where they would have to travel.
		if !strings.Contains(r.reasons(), "32..36 at or beyond the last stable offset") {
			t.Errorf("%s: left %s", name, r.reasons())
		}
	}
}

// The log is damaged between the newest usable snapshot and the high watermark: what ends below the proven part may go.
func TestDamageBelowTheHighWatermarkBoundsTheLastStableOffset(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(10).roll().data(20).done()
	edit(t, l.path(segment.FileName(20, ".log")), cut(5))
	w := newFakeTier()
	r := of(t, w.offload(t, w.config(l.dir)), "a", 0)
	if !r.Failed() || r.Segments != 2 || r.reasons() != "20..-1 active segment; 39..39 damaged" {
		t.Errorf("left %s, %d segments", r.reasons(), r.Segments)
	}
}

func TestActiveSegmentMayEndInZeros(t *testing.T) {
	l := newLog(t, "a", 0).data(10).txn(7).roll().data(10).end(7, false).data(1).done()
	edit(t, l.path(segment.FileName(11, ".log")), zeros(4096))
	w := newFakeTier()
	if report := w.offload(t, w.config(l.dir)); report.Failed() || report.Partitions[0].Segments != 1 {
		t.Errorf("report %+v", report)
	}
}

// A marker behind a damaged place cannot be believed to be the transaction's own.
func TestTransactionThatRunsIntoDamageIsNotCopied(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().txn(7).roll().data(10).roll().end(7, false).data(1).roll().data(1).done()
	edit(t, l.path(segment.FileName(11, ".log")), flip(-1))
	w := newFakeTier()
	report := w.offload(t, w.config(l.dir))
	r := of(t, report, "a", 0)
	if r.Segments != 1 || !strings.HasPrefix(r.reasons(), "10..10 damaged; 11..22 behind") || !strings.Contains(r.Left[0].Detail, "cannot be told") {
		t.Errorf("left %+v", r.Left)
	}
}

func TestGapBeforeTheFirstLocalSegment(t *testing.T) {
	first := newLog(t, "a", 0).data(10).roll().data(1).done()
	later := newLog(t, "a", 20).data(10).roll().data(1).done()
	w := newFakeTier()
	w.offload(t, w.config(first.dir))
	report := w.offload(t, w.config(later.dir))
	r := of(t, report, "a", 0)
	if !report.Failed() || r.Segments != 0 || r.reasons() != "10..19 gap before the first local segment; 20..29 behind the place where the partition stopped; 30..-1 active segment" {
		t.Fatalf("left %s", r.reasons())
	}
	cfg := w.config(later.dir)
	cfg.SkipDamaged = true
	report = w.offload(t, cfg)
	p := w.partition(t, "a", 0)
	if !report.Failed() || p.TieredEnd() != 30 || len(p.Holes()) != 1 || p.Holes()[0].From != 10 || p.Holes()[0].To != 20 {
		t.Errorf("tiered end %d, holes %+v", p.TieredEnd(), p.Holes())
	}
	if s, ok := p.Find(12); !ok || s.BaseOffset != 20 {
		t.Errorf("a reader at 12 gets %+v", s)
	}
	if report = w.offload(t, cfg); report.Failed() {
		t.Errorf("the next run fails: %s", of(t, report, "a", 0).reasons())
	}
}

func TestTopicFilters(t *testing.T) {
	dir := extract(t)
	for _, tt := range []struct {
		include, exclude []string
		want             map[string]Reason // "" = copied
	}{
		{nil, nil, map[string]Reason{"plain": "", "txn": "", "gaps": ""}},
		{[]string{"p*", "gaps"}, nil, map[string]Reason{"plain": "", "gaps": "", "txn": Excluded}},
		{nil, []string{"txn", "g?ps"}, map[string]Reason{"plain": "", "gaps": Excluded, "txn": Excluded}},
	} {
		w := newFakeTier()
		cfg := w.config(dir)
		cfg.Include, cfg.Exclude = tt.include, tt.exclude
		report := w.offload(t, cfg)
		for topic, reason := range tt.want {
			r := of(t, report, topic, 0)
			if report.Failed() || (r.Segments > 0) != (reason == "") || reason != "" && r.Left[0].Reason != reason {
				t.Errorf("include %v exclude %v: %s: %+v", tt.include, tt.exclude, topic, r)
			}
		}
	}
}

func TestInternalTopicsAreNeverCopied(t *testing.T) {
	for topic, want := range map[string]Reason{"__consumer_offsets": Internal, "__transaction_state": Internal, "__mine": Excluded} {
		l := newLog(t, topic, 0).data(10).roll().data(1).done()
		w := newFakeTier()
		report := w.offload(t, w.config(l.dir))
		if r := of(t, report, topic, 0); report.Failed() || r.Segments != 0 || r.Left[0].Reason != want {
			t.Errorf("%s: %+v", topic, r)
		}
		// Nothing excluded: Kafka's own stay out all the same.
		cfg := w.config(l.dir)
		cfg.Exclude = []string{}
		if r := of(t, w.offload(t, cfg), topic, 0); (r.Segments > 0) != (want == Excluded) {
			t.Errorf("%s without excludes: %+v", topic, r)
		}
	}
}

func TestDamagedCheckpointOfTheDirectoryStopsItsPartitions(t *testing.T) {
	for _, name := range []string{"replication-offset-checkpoint", "log-start-offset-checkpoint"} {
		l := newLog(t, "a", 0).data(10).roll().data(1).done()
		l.write(name, "0\n7\na 0 5\n")
		w := newFakeTier()
		r := of(t, w.offload(t, w.config(l.dir)), "a", 0)
		if r.Segments != 0 || r.Left[0].Reason != Damaged || !strings.Contains(r.Left[0].Detail, name) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestCanceledRunSaysSoAndStartsNothing(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(10).roll().data(1).done()
	w := newFakeTier()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := w.config(l.dir)
	cfg.Progress = func(e Event) {
		if e.Step == StepCopied {
			cancel()
		}
	}
	report, err := Once(ctx, cfg)
	if e, ok := err.(*Error); !ok || e.Kind != Canceled || !e.Retriable() {
		t.Fatalf("error %v", err)
	}
	if r := of(t, report, "a", 0); r.Segments != 1 || !strings.HasPrefix(r.reasons(), "10..19 canceled") {
		t.Errorf("left %s", r.reasons())
	}
	if n := len(w.objects); n != 2 {
		t.Errorf("%d objects", n)
	}
}

func TestMissingLogIsNotAShorterHistory(t *testing.T) {
	// Of a compacted log, whose offsets prove nothing, a log file is lost; its indexes tell.
	l := newLog(t, "a", 0).data(10).roll().data(10).roll().data(10).roll().data(1).done().cleaned()
	removeFile(t, l.path(segment.FileName(10, ".log")))
	w := newFakeTier()
	r := of(t, w.offload(t, w.config(l.dir)), "a", 0)
	if r.Segments != 1 || !strings.HasPrefix(r.reasons(), "10..19 damaged") {
		t.Errorf("left %s", r.reasons())
	}
	// Of a log that never was compacted, all files of a segment are lost.
	l = newLog(t, "a", 0).data(10).roll().data(10).roll().data(10).roll().data(1).done()
	paths, _ := filepath.Glob(l.path(segment.FileName(10, ".*")))
	for _, path := range paths {
		removeFile(t, path)
	}
	w = newFakeTier()
	r = of(t, w.offload(t, w.config(l.dir)), "a", 0)
	if r.Segments != 0 || !strings.HasPrefix(r.reasons(), "0..19 damaged") {
		t.Errorf("left %s", r.reasons())
	}
}
