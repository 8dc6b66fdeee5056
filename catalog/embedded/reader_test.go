package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"coldtap/catalog"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestReaderWaitsForTheFile(t *testing.T) {
	path := dbPath(t)
	r := openReader(t, path, ReaderOptions{})
	wantKind(t, r.Ready(), catalog.NotReady)
	wantKind(t, r.Refresh(t.Context(), tier.PartitionID{}), catalog.NotReady)
	if !strings.Contains(r.Ready().Error(), path) || r.ClusterID() != "" || r.Snapshot().Segments() != 0 {
		t.Errorf("%v", r.Ready())
	}
	must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644))
	wantKind(t, r.Refresh(t.Context(), tier.PartitionID{}), catalog.NotReady)
	must(t, os.Remove(path))

	d := openWriter(t, path)
	must(t, r.Refresh(t.Context(), tier.PartitionID{}), r.Ready())
	must(t, d.ClaimCluster(t.Context(), "c1"))
	finish(t, d, seg(1, 0, 99))
	must(t, r.Refresh(t.Context(), tier.PartitionID{}))
	same(t, r.Snapshot(), d.Snapshot())
	if r.ClusterID() != "c1" {
		t.Errorf("cluster %q", r.ClusterID())
	}
}

func TestReaderFollowsEachStep(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	var deleted []string
	r := openReader(t, path, ReaderOptions{OnDelete: func(s *tier.Segment) { deleted = append(deleted, s.ID.String()) }})
	ctx := t.Context()
	check := func(errs ...error) {
		t.Helper()
		must(t, errs...)
		must(t, r.Refresh(ctx, tier.PartitionID{}))
		same(t, r.Snapshot(), d.Snapshot())
	}
	check(d.PutTopic(ctx, topicA, "orders"))
	check(d.PutPartition(ctx, part0, 0, epochs(4, 0)))
	check(d.StartCopy(ctx, seg(1, 0, 99)))
	if _, ok := view0(t, r.Snapshot()).Find(50); ok {
		t.Error("an unfinished copy is readable")
	}
	check(d.FinishCopy(ctx, part0, id(1)))
	check(d.StartCopy(ctx, seg(2, 100, 199)), d.FinishCopy(ctx, part0, id(2)), d.StartCopy(ctx, seg(3, 200, 299)))
	check(d.RecordHole(ctx, part0, tier.Hole{From: 300, To: 400, Reason: "crc"}))
	check(d.PutPartition(ctx, part0, 0, epochs(4, 0, 5, 300)))
	check(d.StartDelete(ctx, part0, id(3)), d.FinishDelete(ctx, part0, id(3)))
	if len(deleted) != 0 {
		t.Errorf("%v was never readable", deleted)
	}
	check(d.StartDelete(ctx, part0, id(1)))
	check(d.FinishDelete(ctx, part0, id(1)))
	// Both steps of a delete between two looks.
	check(d.StartDelete(ctx, part0, id(2)), d.FinishDelete(ctx, part0, id(2)))
	if len(deleted) != 2 || deleted[0] != id(1).String() || deleted[1] != id(2).String() {
		t.Errorf("told of %v, want segments 1 and 2, once each", deleted)
	}
}

func TestReaderSeesCommitsOfAnotherProcessByPolling(t *testing.T) {
	path := dbPath(t)
	cmd := child(t, "follow", path)
	stdin, err := cmd.StdinPipe()
	must(t, err)
	out := lines(t, cmd)
	if got := <-out; got != "not ready" {
		t.Fatalf("before the file is there: %q", got)
	}
	d := openWriter(t, path)
	must(t, d.PutPartition(t.Context(), part0, 0, epochs(4, 0)))
	for n := range uint64(5) {
		s := seg(n+1, int64(n)*100, int64(n)*100+99)
		finish(t, d, s)
		want := fmt.Sprint("end ", s.EndOffset+1)
		for got := ""; got != want; {
			select {
			case got = <-out:
			case <-time.After(30 * time.Second):
				t.Fatalf("the other process never saw %q", want)
			}
		}
	}
	stdin.Close()
	must(t, cmd.Wait())
}

// playFollow prints the tiered end whenever it is another one, until its input ends.
func playFollow() {
	r, err := OpenReader(context.Background(), os.Args[1], ReaderOptions{Poll: 20 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer r.Close()
	if r.Ready() != nil {
		fmt.Println("not ready")
	}
	over := make(chan struct{})
	go func() {
		os.Stdin.Read(make([]byte, 1))
		close(over)
	}()
	last := int64(-1)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		if p, ok := r.Snapshot().Partition(part0); ok && p.TieredEnd() != last {
			last = p.TieredEnd()
			fmt.Println("end", last)
		}
	}
}

func TestReaderTakesUpAReplacedFile(t *testing.T) {
	path, other := dbPath(t), dbPath(t)
	d := openWriter(t, path)
	finish(t, d, seg(1, 0, 99), seg(2, 100, 199))
	var deleted []tier.Segment
	r := openReader(t, path, ReaderOptions{OnDelete: func(s *tier.Segment) { deleted = append(deleted, *s) }})
	must(t, r.Ready(), d.Close())

	d = openWriter(t, other)
	finish(t, d, seg(2, 100, 199), seg(3, 200, 299))
	want := d.Snapshot()
	must(t, d.Close())

	kept := r.Snapshot()
	must(t, os.Remove(path))
	wantKind(t, r.Refresh(t.Context(), tier.PartitionID{}), catalog.NotReady)
	if r.Ready() != nil || r.Snapshot() != kept {
		t.Error("what was read before is no longer served while the file is away")
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		os.Remove(path + suffix)
	}
	must(t, os.Rename(other, path), r.Refresh(t.Context(), tier.PartitionID{}))
	same(t, r.Snapshot(), want)
	if len(deleted) != 1 || deleted[0].ID != id(1) {
		t.Errorf("told of %d deleted segments, want segment 1", len(deleted))
	}
	if _, ok := view0(t, kept).Find(50); !ok {
		t.Error("the older snapshot changed")
	}
}

// A backup that was put back is the same store with fewer steps.
func TestReaderTakesUpARestoredFile(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	finish(t, d, seg(1, 0, 99))
	must(t, d.Close())
	backup, err := os.ReadFile(path)
	must(t, err)
	d = openWriter(t, path)
	finish(t, d, seg(2, 100, 199))
	r := openReader(t, path, ReaderOptions{})
	must(t, r.Ready(), d.Close())
	for _, suffix := range []string{"-wal", "-shm"} {
		os.Remove(path + suffix)
	}
	must(t, os.WriteFile(path+".new", backup, 0o644), os.Rename(path+".new", path), r.Refresh(t.Context(), tier.PartitionID{}))
	p := view0(t, r.Snapshot())
	if p.TieredEnd() != 100 || r.Snapshot().Segments() != 1 {
		t.Errorf("end %d, want the backup's 100", p.TieredEnd())
	}
}

func TestReaderHealsWhenTheFileDoes(t *testing.T) {
	path := dbPath(t)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(strings.Repeat("garbage ", 1000)), 0o644))
	reg := prometheus.NewPedanticRegistry()
	r := openReader(t, path, ReaderOptions{Registerer: reg})
	wantKind(t, r.Ready(), catalog.Damaged)
	must(t, os.Remove(path))
	d := openWriter(t, path)
	finish(t, d, seg(1, 0, 99))
	must(t, r.Refresh(t.Context(), tier.PartitionID{}), r.Ready())
	if n := gathered(t, reg, "coldtap_catalog_polls_total", "damaged"); n != 1 {
		t.Errorf("%v damaged polls, want 1", n)
	}
}

func TestReaderOfADirectory(t *testing.T) {
	wantKind(t, openReader(t, t.TempDir(), ReaderOptions{}).Ready(), catalog.Damaged)
	if _, err := OpenReader(t.Context(), "", ReaderOptions{}); err == nil {
		t.Error("an empty path was accepted")
	}
}

// A database whose middle is overwritten opens well, and must be refused all the same.
func TestReaderRefusesCorruptPages(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	for n := range uint64(60) {
		s := seg(n+1, int64(n)*100, int64(n)*100+99)
		s.Custom = make([]byte, 1000)
		finish(t, d, s)
	}
	must(t, d.Close())
	b, err := os.ReadFile(path)
	must(t, err)
	for i := 4096; i < len(b); i++ {
		b[i] ^= 0x5a
	}
	must(t, os.WriteFile(path, b, 0o644))
	r := openReader(t, path, ReaderOptions{})
	wantKind(t, r.Ready(), catalog.Damaged)
	if r.Snapshot().Segments() != 0 {
		t.Error("a half-read database is shown")
	}
}

func TestRefreshOfAClosedReader(t *testing.T) {
	path := dbPath(t)
	openWriter(t, path)
	r := openReader(t, path, ReaderOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Refresh(ctx, tier.PartitionID{}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	must(t, r.Close(), r.Close())
	wantKind(t, r.Refresh(t.Context(), tier.PartitionID{}), catalog.Unavailable)
	r.Snapshot()
}

// Many readers at once on one Reader, while a writer goes on: each Refresh shows at least what was committed before it.
func TestConcurrentRefresh(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	must(t, d.PutPartition(t.Context(), part0, 0, epochs(4, 0)))
	r := openReader(t, path, ReaderOptions{Poll: time.Millisecond})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				committed := view0(t, d.Snapshot()).TieredEnd()
				if err := r.Refresh(t.Context(), tier.PartitionID{}); err != nil {
					t.Error(err)
					return
				}
				if seen := view0(t, r.Snapshot()).TieredEnd(); seen < committed {
					t.Errorf("after Refresh the end is %d, though %d was committed before", seen, committed)
					return
				}
			}
		})
	}
	for n := range uint64(40) {
		finish(t, d, seg(n+1, int64(n)*100, int64(n)*100+99))
	}
	close(done)
	readers.Wait()
}

func TestReaderMetrics(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	finish(t, d, seg(1, 0, 99))
	reg := prometheus.NewPedanticRegistry()
	r := openReader(t, path, ReaderOptions{Registerer: reg})
	// Somebody's tool has made a hole of nothing: it is left out and counted.
	runSQL(t, path, "INSERT INTO holes VALUES ('"+topicA.String()+"', 0, 5, 5, 'by hand', 3); UPDATE sequence SET last_change = 3")
	must(t, r.Refresh(t.Context(), tier.PartitionID{}))
	want := `
# HELP coldtap_catalog_full_loads_total How often all metadata was read: once at the start, and when the store was replaced by another or an older one.
# TYPE coldtap_catalog_full_loads_total counter
coldtap_catalog_full_loads_total 1
# HELP coldtap_catalog_ready 1 once the metadata was read completely.
# TYPE coldtap_catalog_ready gauge
coldtap_catalog_ready 1
# HELP coldtap_catalog_rejected_changes_total Changes that were dropped because they are impossible, by reason.
# TYPE coldtap_catalog_rejected_changes_total counter
coldtap_catalog_rejected_changes_total{reason="illegal_transition"} 0
coldtap_catalog_rejected_changes_total{reason="malformed"} 1
coldtap_catalog_rejected_changes_total{reason="unknown_segment"} 0
coldtap_catalog_rejected_changes_total{reason="unknown_state"} 0
# HELP coldtap_catalog_segments Live segments in the view, in every state but DELETE_SEGMENT_FINISHED; each takes at most 300 bytes.
# TYPE coldtap_catalog_segments gauge
coldtap_catalog_segments 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "coldtap_catalog_full_loads_total", "coldtap_catalog_ready",
		"coldtap_catalog_rejected_changes_total", "coldtap_catalog_segments"); err != nil {
		t.Error(err)
	}
	if at := gathered(t, reg, "coldtap_catalog_last_change_timestamp_seconds", ""); time.Since(time.UnixMilli(int64(at*1000))) > time.Hour {
		t.Errorf("the last change was at %v", at)
	}
	if _, err := OpenReader(t.Context(), path, ReaderOptions{Registerer: reg}); err == nil {
		t.Error("two readers share their metrics")
	}
}

// gathered is a metric's value, with the label value, or without labels.
func gathered(t *testing.T, reg prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}
