package offload

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/internal/sample"
	"coldtap/internal/testing/testkit"
	"coldtap/segment"
	"coldtap/tier"
)

var sampleFiles = sync.OnceValues(sample.Files)

// extract writes the sample's log directory, with the given partitions or all.
func extract(t testing.TB, partitions ...string) string {
	t.Helper()
	files, err := sampleFiles()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, raw := range files {
		partition, _, nested := strings.Cut(name, "/")
		if nested && len(partitions) > 0 && !slices.Contains(partitions, partition) {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// onDisk reads a file of a log directory, nil when it is missing.
func onDisk(t testing.TB, path ...string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path...))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return raw
}

// bases lists the base offsets of a partition directory's logs.
func bases(t testing.TB, dir string) []int64 {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []int64
	for _, e := range entries {
		if base, suffix, ok := segment.ParseFileName(e.Name()); ok && suffix == ".log" {
			list = append(list, base)
		}
	}
	return list
}

// withoutGaps follows the headers of a log.
func withoutGaps(t testing.TB, log []byte, s *tier.Segment) bool {
	t.Helper()
	next, dense := s.BaseOffset, true
	for b, err := range segment.Batches(log) {
		if err != nil {
			t.Fatal(err)
		}
		dense = dense && b.Header.BaseOffset == next
		next = b.Header.LastOffset() + 1
	}
	return dense && next == s.EndOffset+1
}

func TestSampleIsCopiedUpToItsActiveSegments(t *testing.T) {
	dir, w := extract(t), newFakeTier()
	dense := map[bool]int{}
	report := w.offload(t, w.config(dir))
	if report.Failed() || report.ClusterID != sample.ClusterID || report.BrokerID != 1 {
		t.Fatalf("report: %+v", report)
	}
	for _, name := range sample.Partitions {
		topic, n, _ := segment.ParsePartitionDir(name)
		p, r := w.partition(t, topic, n), of(t, report, topic, n)
		local := bases(t, filepath.Join(dir, name))
		active := local[len(local)-1]
		if p.TieredEnd() != active || r.TieredEnd != active || r.Segments != len(local)-1 || len(r.Rebuilt) > 0 || len(r.Notes) > 0 {
			t.Errorf("%s: tiered end %d of %d, report %+v", name, p.TieredEnd(), active, r)
		}
		if want := fmt.Sprintf("%d..-1 active segment", active); r.reasons() != want {
			t.Errorf("%s: left %q, want %q", name, r.reasons(), want)
		}
		for i, s := range p.Segments(true) {
			if s.State != tier.CopyFinished || s.BaseOffset != local[i] || s.EndOffset != local[i+1]-1 || s.Topic != topic {
				t.Errorf("%s: segment %+v, want %d..%d", name, s, local[i], local[i+1]-1)
			}
			f := w.files(t, s)
			file := func(base int64, suffix string) []byte { return onDisk(t, dir, name, segment.FileName(base, suffix)) }
			for _, c := range []struct {
				what      string
				got, want []byte
			}{
				{".index", f.OffsetIndex, file(s.BaseOffset, ".index")},
				{".timeindex", f.TimeIndex, file(s.BaseOffset, ".timeindex")},
				{".txnindex", f.TxnIndex, file(s.BaseOffset, ".txnindex")},
				{".snapshot", f.Snapshot, file(s.EndOffset+1, ".snapshot")},
				{"leader-epoch-checkpoint", f.LeaderEpochs, onDisk(t, dir, name, "leader-epoch-checkpoint")},
			} {
				if !bytes.Equal(c.got, c.want) || (c.got == nil) != (c.want == nil) {
					t.Errorf("%s at %d: %s has %d bytes, the broker's %d", name, s.BaseOffset, c.what, len(c.got), len(c.want))
				}
			}
			if s.TxnIndexEmpty != (len(f.TxnIndex) == 0) || !f.Decided {
				t.Errorf("%s at %d: no aborts %v, decided %v", name, s.BaseOffset, s.TxnIndexEmpty, f.Decided)
			}
			if want := withoutGaps(t, file(s.BaseOffset, ".log"), s); f.Dense != want {
				t.Errorf("%s at %d: dense %v", name, s.BaseOffset, f.Dense)
			}
			dense[f.Dense]++
		}
	}
	if dense[true] == 0 || dense[false] == 0 {
		t.Errorf("of the segments are dense and not: %v", dense)
	}
	before := w.describe()
	if w.steps = 0; w.offload(t, w.config(dir)).Failed() || w.steps != 0 || w.describe() != before {
		t.Errorf("a second run took %d steps: %v", w.steps, w.names[len(w.names)-w.steps:])
	}
}

// hidden filters the data of a copied log as a consumer does with the list of aborted transactions, and gives the
// offsets of the records that are not shown.
func hidden(t testing.TB, log []byte, aborted []segment.AbortedTxn) []int64 {
	t.Helper()
	var list []int64
	active := make(map[int64]bool)
	decoder := segment.NewDecoder(64<<20, nil)
	for b, err := range segment.Batches(log) {
		if err != nil {
			t.Fatal(err)
		}
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.Header.LastOffset() {
			active[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		if b.Header.IsControl() {
			if kind, _, ok, _ := segment.ParseControl(b.Bytes); ok && kind == segment.ControlAbort {
				delete(active, b.Header.ProducerID)
			}
			continue
		}
		if !b.Header.IsTransactional() || !active[b.Header.ProducerID] {
			continue
		}
		if err := decoder.Open(b.Bytes); err != nil {
			t.Fatal(err)
		}
		for rec := (segment.Record{}); ; {
			more, err := decoder.Next(&rec)
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
			list = append(list, rec.Offset)
		}
		decoder.Close()
	}
	return list
}

func TestAbortedListsHideWhatKafkasConsumerDidNotSee(t *testing.T) {
	dir, w := extract(t, "txn-0", "txn-1", "gaps-0"), newFakeTier()
	w.offload(t, w.config(dir))
	for _, name := range []string{"txn-0", "txn-1", "gaps-0"} {
		topic, n, _ := segment.ParsePartitionDir(name)
		p := w.partition(t, topic, n)
		want := make(map[int64]bool)
		for _, r := range testkit.Expected(t, name, "read_uncommitted") {
			if r.Offset < p.TieredEnd() {
				want[r.Offset] = true
			}
		}
		for _, r := range testkit.Expected(t, name, "read_committed") {
			delete(want, r.Offset)
		}
		got := make(map[int64]bool)
		for _, s := range p.Segments(false) {
			for _, o := range hidden(t, onDisk(t, dir, name, segment.FileName(s.BaseOffset, ".log")), w.files(t, s).Aborted) {
				got[o] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: hidden are %v, want %v", name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// The sample's txn-1 ends with an aborted transaction whose data are in a closed segment and whose marker is in the
// active one.
func TestTransactionAbortedInTheActiveSegment(t *testing.T) {
	dir, w := extract(t, "txn-1"), newFakeTier()
	w.offload(t, w.config(dir))
	p := w.partition(t, "txn", 1)
	found := 0
	for _, s := range p.Segments(false) {
		for _, a := range w.files(t, s).Aborted {
			if a.LastOffset >= p.TieredEnd() && a.FirstOffset <= s.EndOffset {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no segment knows of an abort behind the tiered end")
	}
}

func TestTransactionIndexFromTheLogEqualsTheBrokers(t *testing.T) {
	dir := extract(t, "txn-0", "txn-1")
	clean := newFakeTier()
	clean.offload(t, clean.config(dir))
	removed := 0
	for _, name := range []string{"txn-0", "txn-1"} {
		paths, _ := filepath.Glob(filepath.Join(dir, name, "*.txnindex"))
		for _, path := range paths {
			removed++
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := newFakeTier()
	report := w.offload(t, w.config(dir))
	if report.Failed() {
		t.Fatalf("failed: %+v", report)
	}
	if got, want := w.describe(), clean.describe(); got != want {
		t.Errorf("without .txnindex files:\n%s\nwith them:\n%s", got, want)
	}
	// The active segments' files are not looked at.
	rebuilt := append(of(t, report, "txn", 0).Rebuilt, of(t, report, "txn", 1).Rebuilt...)
	if len(rebuilt) == 0 || len(rebuilt) > removed || !strings.Contains(rebuilt[0], "lacks the transaction") {
		t.Errorf("%d files removed, rebuilt: %q", removed, rebuilt)
	}
}
