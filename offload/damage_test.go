package offload

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// edit changes a file of a log directory in place.
func edit(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(bytes.Clone(raw)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func flip(at int) func([]byte) []byte {
	return func(raw []byte) []byte {
		if at < 0 {
			at += len(raw)
		}
		raw[at] ^= 0x10
		return raw
	}
}

func cut(n int) func([]byte) []byte {
	return func(raw []byte) []byte { return raw[:len(raw)-n] }
}

func put32(at int, v uint32) func([]byte) []byte {
	return func(raw []byte) []byte {
		binary.BigEndian.PutUint32(raw[at:], v)
		return raw
	}
}

func zeros(n int) func([]byte) []byte {
	return func(raw []byte) []byte { return append(raw, make([]byte, n)...) }
}

// In each case one file of plain-0 is spoiled whose third segment, 191 to 286, is the first one concerned.
func TestBadFilesStopThePartitionThereAndNoOther(t *testing.T) {
	const third = int64(191)
	name := func(offset int64, suffix string) string { return "plain-0/" + segment.FileName(offset, suffix) }
	log := name(third, ".log")
	tests := []struct {
		name   string
		file   string
		change func([]byte) []byte // nil removes the file
		reason Reason
		detail string
		end    int64 // the tiered end, -1 = nothing is copied
	}{
		{"flipped byte in a record", log, flip(5000), Damaged, "batch checksum", third},
		{"flipped byte at the very end", log, flip(-1), Damaged, "batch checksum", third},
		{"negative length", log, put32(8, 0xfffffff0), Damaged, "length -16", third},
		{"huge length", log, put32(8, 0x7ffffff0), Damaged, "cut short", third},
		{"length 0", log, put32(8, 0), Damaged, "length 0", third},
		{"length 13", log, put32(8, 13), Damaged, "length 13", third},
		{"negative record count", log, put32(57, 0xffffffff), Damaged, "-1 records", third},
		{"huge record count", log, put32(57, 0x7fffffff), Damaged, "2147483647 records", third},
		{"negative last offset delta", log, put32(23, 0xfffffffb), Damaged, "last offset delta -5", third},
		{"unknown magic", log, func(raw []byte) []byte { raw[16] = 3; return raw }, Damaged, "magic 3", third},
		{"base offset below the segment's", log, put32(4, 5), Damaged, "where 191 is the least possible", third},
		{"base offset beyond the segment", log, put32(4, 9000), Damaged, "the next segment begins at 287", third},
		{"leader epoch that the checkpoint lacks", log, put32(12, 7), Damaged, "the batch there has 7", third},
		{"cut in a batch", log, cut(100), Damaged, "cut short", third},
		{"last batch gone", log, lastBatchGone, Damaged, "missing at the end", third},
		{"emptied", log, func([]byte) []byte { return nil }, Damaged, "empty", third},
		{"zero tail", log, zeros(4096), Damaged, "nothing but zeros to the end, 4096 bytes", third},
		{"short zero tail", log, zeros(3), Damaged, "nothing but zeros to the end, 3 bytes", third},
		{"foreign tail", log, func(raw []byte) []byte { return append(raw, "not a batch at all"...) }, Damaged, "magic 108", third},
		{"not a log", log, func([]byte) []byte { return bytes.Repeat([]byte("kafka"), 100) }, Damaged, "magic 97", third},
		{"log gone, indexes left", log, nil, Damaged, "missing, but its index files are there", third},
		{"snapshot gone", name(287, ".snapshot"), nil, Damaged, "no such file", third},
		{"snapshot flipped", name(287, ".snapshot"), flip(3), Damaged, "checksum", third},
		{"snapshot cut", name(287, ".snapshot"), cut(1), Damaged, "truncated", third},
		{"snapshot of other producers", name(287, ".snapshot"), func([]byte) []byte {
			return segment.AppendSnapshot(nil, []segment.ProducerState{{ProducerID: 5, TxnFirstOffset: 200}})
		}, Damaged, "which the log does not have", third},
		{"epoch checkpoint cut", "plain-0/leader-epoch-checkpoint", func([]byte) []byte { return []byte("0\n3\n0 0\n") }, Damaged, "truncated", -1},
		{"epoch checkpoint empty", "plain-0/leader-epoch-checkpoint", func([]byte) []byte { return nil }, NoLeaderEpoch, "has none", -1},
		{"epoch checkpoint descending", "plain-0/leader-epoch-checkpoint", func([]byte) []byte { return []byte("0\n2\n5 9\n6 3\n") }, Damaged, "corrupt", -1},
		{"epoch checkpoint gone", "plain-0/leader-epoch-checkpoint", nil, Damaged, "no such file", -1},
		{"topic id gone", "plain-0/partition.metadata", nil, NoTopicID, "no such file", -1},
		{"topic id zero", "plain-0/partition.metadata", func([]byte) []byte {
			return []byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
		}, NoTopicID, "zero topic id", -1},
		{"unfinished swap", name(287, ".log"), func(raw []byte) []byte { return raw }, Damaged, "start it once", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, w := extract(t, "plain-0", "codecs-0"), newFakeTier()
			path := filepath.Join(dir, filepath.FromSlash(tt.file))
			sound := onDisk(t, path)
			switch {
			case tt.name == "unfinished swap":
				if err := os.WriteFile(path+".swap", nil, 0o644); err != nil {
					t.Fatal(err)
				}
			case tt.change == nil:
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			default:
				edit(t, path, tt.change)
			}
			report := w.offload(t, w.config(dir))
			r := of(t, report, "plain", 0)
			var failure Leftover
			for _, l := range r.Left {
				if l.Reason.Failure() && l.Reason != Behind {
					failure = l
					break
				}
			}
			if !report.Failed() || failure.Reason != tt.reason || !strings.Contains(failure.Detail, tt.detail) {
				t.Errorf("left %+v, want %q with %q", r.Left, tt.reason, tt.detail)
			}
			if tt.end >= 0 {
				if end := w.partition(t, "plain", 0).TieredEnd(); end != tt.end {
					t.Errorf("tiered end %d, want %d", end, tt.end)
				}
			} else if r.Segments != 0 {
				t.Errorf("%d segments copied", r.Segments)
			}
			for i := range report.Partitions {
				if p := &report.Partitions[i]; p.Topic != "plain" && (p.Failed() || p.Segments == 0) {
					t.Errorf("%s-%d: %+v", p.Topic, p.Partition, p)
				}
			}
			if t.Failed() {
				return
			}
			// Repaired, the next run goes on where the partition stopped.
			os.Remove(path + ".swap")
			if err := os.WriteFile(path, sound, 0o644); err != nil {
				t.Fatal(err)
			}
			if report := w.offload(t, w.config(dir)); report.Failed() || w.partition(t, "plain", 0).TieredEnd() != 554 {
				t.Errorf("after the repair: %+v", of(t, report, "plain", 0))
			}
		})
	}
}

func lastBatchGone(raw []byte) []byte {
	at := int64(0)
	for b := range segment.Batches(raw) {
		at = b.Position
	}
	return raw[:at]
}

func TestDamagedIndexesAreMadeAnew(t *testing.T) {
	tests := []struct {
		name, suffix string
		change       func([]byte) []byte
		rebuilt      bool
		detail       string
	}{
		{"offset index gone", ".index", nil, true, "missing"},
		{"offset index points beyond the log", ".index", put32(4, 999_999), true, "corrupt"},
		{"offset index points between batches", ".index", flip(7), true, "no batch begins"},
		{"offset index names an offset below its batch's last", ".index", put32(0, 1), true, "for a batch that ends at"},
		{"offset index ragged", ".index", cut(3), true, "not a multiple"},
		{"offset index preallocated", ".index", zeros(8 * 100), false, ""},
		{"offset index absurdly large", ".index", zeros(indexLimit), true, "too large"},
		{"time index gone", ".timeindex", nil, true, "missing"},
		{"time index descends", ".timeindex", put32(12, 0), true, "corrupt"},
		{"time index behind its batch", ".timeindex", func(raw []byte) []byte { copy(raw[8:12], raw[20:24]); return raw }, true, "behind a batch of"},
		{"time index beyond the log", ".timeindex", func(raw []byte) []byte { return put32(len(raw)-4, 4000)(raw) }, true, "the log ends at"},
		{"time index preallocated", ".timeindex", zeros(12 * 100), false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, w := extract(t, "plain-0"), newFakeTier()
			path := filepath.Join(dir, "plain-0", segment.FileName(191, tt.suffix))
			before := onDisk(t, path)
			if tt.change == nil {
				os.Remove(path)
			} else {
				edit(t, path, tt.change)
			}
			report := w.offload(t, w.config(dir))
			r := of(t, report, "plain", 0)
			if report.Failed() || r.Segments != 6 || (len(r.Rebuilt) == 1) != tt.rebuilt {
				t.Fatalf("report %+v", r)
			}
			if tt.rebuilt && !strings.Contains(r.Rebuilt[0], tt.detail) {
				t.Errorf("rebuilt %q, want %q", r.Rebuilt, tt.detail)
			}
			s := w.partition(t, "plain", 0).Segments(false)[2]
			f := w.files(t, s)
			if !tt.rebuilt {
				if got := map[string][]byte{".index": f.OffsetIndex, ".timeindex": f.TimeIndex}[tt.suffix]; !bytes.Equal(got, before) {
					t.Errorf("%d bytes are left of %d", len(got), len(before))
				}
				return
			}
			checkIndexes(t, s, onDisk(t, dir, "plain-0", segment.FileName(191, ".log")), f)
		})
	}
}

// checkIndexes compares indexes with the log: each look-up must start at or before what it looks for.
func checkIndexes(t *testing.T, s *tier.Segment, log []byte, f *segment.Files) {
	t.Helper()
	offsets, err := segment.ParseOffsetIndex(f.OffsetIndex, s.BaseOffset, s.Size)
	if err != nil {
		t.Fatal(err)
	}
	times, err := segment.ParseTimeIndex(f.TimeIndex, s.BaseOffset)
	if err != nil {
		t.Fatal(err)
	}
	var newest int64 = -1
	for b, err := range segment.Batches(log) {
		if err != nil {
			t.Fatal(err)
		}
		_, position := offsets.Lookup(b.Header.BaseOffset)
		if position > b.Position || b.Position-position > 2*indexInterval+b.Header.Size() {
			t.Errorf("the look-up of %d starts at byte %d, the batch at %d", b.Header.BaseOffset, position, b.Position)
		}
		if b.Header.MaxTimestamp > newest {
			newest = b.Header.MaxTimestamp
			if _, offset := times.Lookup(newest); offset > b.Header.LastOffset() {
				t.Errorf("the look-up of time %d starts at offset %d, the batch ends at %d", newest, offset, b.Header.LastOffset())
			}
		}
	}
	if n := times.Len(); n == 0 {
		t.Error("no time index")
	} else if last, _ := times.Entry(n - 1); last != s.MaxTimestamp {
		t.Errorf("the time index ends at %d, the segment at %d", last, s.MaxTimestamp)
	}
}

func TestRebuiltIndexesAreTheBrokersOwn(t *testing.T) {
	// codecs-0 has the default index.interval.bytes, so the broker's recovery would write these very files.
	dir, clean := extract(t, "codecs-0"), newFakeTier()
	clean.offload(t, clean.config(dir))
	for _, suffix := range []string{"*.index", "*.timeindex"} {
		paths, _ := filepath.Glob(filepath.Join(dir, "codecs-0", suffix))
		for _, path := range paths {
			os.Remove(path)
		}
	}
	w := newFakeTier()
	report := w.offload(t, w.config(dir))
	if r := of(t, report, "codecs", 0); report.Failed() || len(r.Rebuilt) != 20 {
		t.Fatalf("report %+v", r)
	}
	for i, s := range w.partition(t, "codecs", 0).Segments(false) {
		got, want := w.files(t, s), clean.files(t, clean.partition(t, "codecs", 0).Segments(false)[i])
		if !bytes.Equal(got.OffsetIndex, want.OffsetIndex) || !bytes.Equal(got.TimeIndex, want.TimeIndex) {
			t.Errorf("at %d: %x %x, the broker's %x %x", s.BaseOffset, got.OffsetIndex, got.TimeIndex, want.OffsetIndex, want.TimeIndex)
		}
	}
}

func TestSkipDamagedRecordsTheHoleAndGoesOn(t *testing.T) {
	dir, w := extract(t, "plain-0"), newFakeTier()
	edit(t, filepath.Join(dir, "plain-0", segment.FileName(191, ".log")), flip(5000))
	cfg := w.config(dir)
	cfg.SkipDamaged = true
	report := w.offload(t, cfg)
	r, p := of(t, report, "plain", 0), w.partition(t, "plain", 0)
	holes := p.Holes()
	if !report.Failed() || r.Segments != 5 || p.TieredEnd() != 554 || len(holes) != 1 || holes[0].From != 191 || holes[0].To != 287 ||
		!strings.Contains(holes[0].Reason, "checksum") {
		t.Fatalf("tiered end %d, holes %+v, report %+v", p.TieredEnd(), holes, r)
	}
	if s, ok := p.Find(200); !ok || s.BaseOffset != 287 {
		t.Errorf("a reader in the hole goes on at %+v", s)
	}
	w.steps = 0
	if report := w.offload(t, cfg); report.Failed() || w.steps != 0 {
		t.Errorf("a second run took %d steps: %+v", w.steps, of(t, report, "plain", 0))
	}
}

// The last closed segment is the one that is damaged: what follows is not known yet, and the next run must not try
// again.
func TestHoleAtTheEndIsRemembered(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(10).roll().data(1).done()
	edit(t, l.path(segment.FileName(10, ".log")), flip(-1))
	w := newFakeTier()
	cfg := w.config(l.dir)
	cfg.SkipDamaged = true
	w.offload(t, cfg)
	w.steps = 0
	report := w.offload(t, cfg)
	if got := of(t, report, "a", 0).reasons(); w.steps != 0 || got != "0..9 already copied; 10..19 in a recorded hole; 20..-1 active segment" {
		t.Errorf("%d steps, left %s", w.steps, got)
	}
}

func TestForeignFilesAreIgnoredAndNamed(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(1).done()
	foreign := []string{"notes.txt", "0.log", segment.FileName(3, ".log.deleted"), segment.FileName(3, ".log.cleaned"), "leader-epoch-checkpoint.tmp"}
	for _, name := range foreign {
		l.file(name, []byte("?"))
	}
	for _, name := range []string{"a-0.0123456789abcdef0123456789abcdef-delete", "a-1.0123456789abcdef0123456789abcdef-future", "lost+found"} {
		if err := os.Mkdir(filepath.Join(l.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w := newFakeTier()
	report := w.offload(t, w.config(l.dir))
	r := of(t, report, "a", 0)
	if report.Failed() || r.Segments != 1 || len(r.Notes) != len(foreign) {
		t.Errorf("report %+v", r)
	}
	if len(report.Skipped) != 3 || report.Skipped[0].Reason != NotPartition {
		t.Errorf("skipped %+v", report.Skipped)
	}
}

// Two ABORT markers, one entry: the cleaner of some versions lost the other (KAFKA-13727), and its data would be shown.
func TestTransactionIndexThatLacksAnAbortIsMadeAnewAndReported(t *testing.T) {
	l := newLog(t, "a", 0).txn(7).end(7, false).txn(8).txn(9).end(8, false).end(9, true).data(3).roll().data(1).done()
	want := segment.AppendTxnIndex(nil, segment.AbortedTxn{ProducerID: 7, FirstOffset: 0, LastOffset: 1, LastStableOffset: 2},
		segment.AbortedTxn{ProducerID: 8, FirstOffset: 2, LastOffset: 4, LastStableOffset: 3})
	path := l.path(segment.FileName(0, ".txnindex"))
	if got := onDisk(t, path); !bytes.Equal(got, want) {
		t.Fatalf("the builder wrote %x", got)
	}
	for name, raw := range map[string][]byte{
		"one entry":         want[:34],
		"half an entry":     want[:40],
		"no bytes":          {},
		"other version":     append([]byte{0, 1}, want[2:]...),
		"other producer":    append(bytes.Clone(want[:34]), segment.AppendTxnIndex(nil, segment.AbortedTxn{ProducerID: 9, FirstOffset: 3, LastOffset: 4, LastStableOffset: 3})...),
		"abort of a commit": append(bytes.Clone(want), segment.AppendTxnIndex(nil, segment.AbortedTxn{ProducerID: 9, FirstOffset: 3, LastOffset: 5, LastStableOffset: 6})...),
	} {
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		w := newFakeTier()
		report := w.offload(t, w.config(l.dir))
		r := of(t, report, "a", 0)
		f := w.files(t, w.partition(t, "a", 0).Segments(false)[0])
		if report.Failed() || len(r.Rebuilt) != 1 || !bytes.Equal(f.TxnIndex, want) || len(f.Aborted) != 2 {
			t.Errorf("%s: rebuilt %q, index %x, aborted %+v", name, r.Rebuilt, f.TxnIndex, f.Aborted)
		}
	}
}

// KAFKA-6264: an index has 31 bits for an offset; what lies beyond is found from the last entry before.
func TestOffsetsThatNoIndexEntryCanHold(t *testing.T) {
	large := batchSpec{offsets: 10, timestamp: 5, value: make([]byte, 5000)}
	l := newLog(t, "a", 0).add(large).add(large).skip(1<<31 - 40)
	large.timestamp = 6
	l.add(large).add(large).add(large).add(large)
	end := l.next
	l.roll().data(1).done().cleaned()
	removeFile(t, l.path(segment.FileName(0, ".index")))
	removeFile(t, l.path(segment.FileName(0, ".timeindex")))
	w := newFakeTier()
	if report := w.offload(t, w.config(l.dir)); report.Failed() {
		t.Fatalf("report %+v", report.Partitions)
	}
	s := w.partition(t, "a", 0).Segments(false)[0]
	offsets, err := segment.ParseOffsetIndex(w.files(t, s).OffsetIndex, 0, s.Size)
	if err != nil || s.EndOffset != end-1 || offsets.Len() == 0 {
		t.Fatalf("%d entries, end %d, %v", offsets.Len(), s.EndOffset, err)
	}
	if last, _ := offsets.Entry(offsets.Len() - 1); last != 1<<31-1 {
		t.Errorf("the last entry is %d", last)
	}
	if _, position := offsets.Lookup(end - 1); position >= s.Size {
		t.Errorf("the last batch is looked for at byte %d", position)
	}
}

// DeleteRecords cuts the lineage at once, the checkpointed log start follows within a minute: a crash in between leaves
// segments below the lineage, which the broker serves when it is back. Their batches tell the epoch.
func TestSegmentsBelowTheLineageGetTheirBatchesEpochs(t *testing.T) {
	dir, w := extract(t, "plain-0"), newFakeTier()
	edit(t, filepath.Join(dir, "plain-0", "leader-epoch-checkpoint"), func([]byte) []byte { return []byte("0\n1\n0 200\n") })
	report := w.offload(t, w.config(dir))
	if r := of(t, report, "plain", 0); report.Failed() || r.Segments != 6 {
		t.Fatalf("%d segments copied, left %+v", r.Segments, r.Left)
	}
	p := w.partition(t, "plain", 0)
	for offset := int64(0); offset < 554; offset++ {
		seg, ok := p.Find(offset)
		if !ok || seg.Epochs[0] != (segment.EpochStart{Epoch: 0, StartOffset: seg.BaseOffset}) {
			t.Fatalf("offset %d: found %v, %+v", offset, ok, seg)
		}
	}
}
