package embedded

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/catalog"
	"coldtap/segment"
	"coldtap/tier"
)

func epochs(pairs ...int64) (l []segment.EpochStart) {
	for i := 0; i < len(pairs); i += 2 {
		l = append(l, segment.EpochStart{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return l
}

// same compares what two views hold, event times of loaded topics aside.
func same(t *testing.T, got, want *tier.Snapshot) {
	t.Helper()
	if g, w := got.Topics(), want.Topics(); !reflect.DeepEqual(g, w) {
		t.Errorf("topics %+v, want %+v", g, w)
	}
	if got.Segments() != want.Segments() {
		t.Errorf("%d segments, want %d", got.Segments(), want.Segments())
	}
	for w := range want.Partitions() {
		g, ok := got.Partition(w.ID())
		if !ok {
			t.Errorf("partition %v is missing", w.ID())
			continue
		}
		if g.Bounds() != w.Bounds() || g.TieredEnd() != w.TieredEnd() || !slices.Equal(g.Lineage(), w.Lineage()) || !slices.Equal(g.Holes(), w.Holes()) {
			t.Errorf("partition %v: %+v %d %v %v, want %+v %d %v %v", w.ID(),
				g.Bounds(), g.TieredEnd(), g.Lineage(), g.Holes(), w.Bounds(), w.TieredEnd(), w.Lineage(), w.Holes())
		}
		if g, w := g.Segments(true), w.Segments(true); !reflect.DeepEqual(g, w) {
			t.Errorf("segments %+v, want %+v", g, w)
		}
	}
}

func TestEveryStepIsThereAfterReopening(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	ctx := t.Context()
	other := tier.PartitionID{Topic: topicB, Partition: 7}
	steps := []func(*DB) error{
		func(d *DB) error { return d.ClaimCluster(ctx, "MkU3OEVBNTcwNTJENDM2Qg") },
		func(d *DB) error { return d.PutTopic(ctx, topicA, "orders") },
		func(d *DB) error { return d.PutTopic(ctx, topicB, "orders") },
		func(d *DB) error { return d.PutPartition(ctx, part0, 7, epochs(4, 0)) },
		func(d *DB) error { return d.PutPartition(ctx, part0, 10, epochs(4, 0)) }, // nothing is tiered: the start moves
		func(d *DB) error { return d.PutPartition(ctx, other, -1, nil) },
		func(d *DB) error { return d.StartCopy(ctx, seg(1, 0, 99)) },
		func(d *DB) error { return d.PutPartition(ctx, part0, 99, epochs(4, 0, 6, 150)) }, // from here on it stays
		func(d *DB) error { return d.FinishCopy(ctx, part0, id(1)) },
		func(d *DB) error { return d.StartCopy(ctx, seg(2, 100, 149)) },
		func(d *DB) error { return d.StartCopy(ctx, seg(3, 200, 299)) },
		func(d *DB) error { return d.StartDelete(ctx, part0, id(3)) },
		func(d *DB) error { return d.FinishDelete(ctx, part0, id(3)) },
		func(d *DB) error {
			return d.RecordHole(ctx, part0, tier.Hole{From: 100, To: 150, Reason: "crc"})
		},
		func(d *DB) error { return d.StartDelete(ctx, part0, id(1)) },
	}
	for i, step := range steps {
		must(t, step(d))
		want := d.Snapshot()
		again := openReader(t, path, ReaderOptions{})
		must(t, again.Ready())
		same(t, again.Snapshot(), want)
		must(t, again.Close())
		if i%3 == 0 {
			must(t, d.Close())
			d = openWriter(t, path)
			same(t, d.Snapshot(), want)
		}
	}
	if b := view0(t, d.Snapshot()).Bounds(); b.Start != 10 {
		t.Errorf("start %d, want the first one, 10", b.Start)
	}
	if d.ClusterID() != "MkU3OEVBNTcwNTJENDM2Qg" {
		t.Errorf("cluster %q", d.ClusterID())
	}
	s, ok := view0(t, d.Snapshot()).Segment(id(2))
	if !ok || string(s.Custom) != "custom" || s.Topic != "orders" || s.BrokerID != 3 || s.TxnIndexEmpty {
		t.Errorf("segment %+v", s)
	}
}

func TestRepeatsChangeNothing(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	ctx := t.Context()
	steps := []func() error{
		func() error { return d.ClaimCluster(ctx, "c1") },
		func() error { return d.PutTopic(ctx, topicA, "orders") },
		func() error { return d.PutPartition(ctx, part0, 0, epochs(4, 0)) },
		func() error { return d.RecordHole(ctx, part0, tier.Hole{From: 5, To: 9, Reason: "r"}) },
		func() error { return d.StartCopy(ctx, seg(1, 0, 99)) },
		func() error { return d.FinishCopy(ctx, part0, id(1)) },
		func() error { return d.StartDelete(ctx, part0, id(1)) },
		func() error { return d.FinishDelete(ctx, part0, id(1)) },
	}
	lastChange := func() (n int64) {
		must(t, d.db.QueryRow("SELECT last_change FROM sequence").Scan(&n))
		return n
	}
	for i, step := range steps {
		must(t, step())
		before := lastChange()
		if before != int64(i+1) {
			t.Errorf("step %d has number %d", i, before)
		}
		must(t, step())
		if after := lastChange(); after != before {
			t.Errorf("repeating step %d was recorded as step %d", i, after)
		}
	}
}

func TestIllegalStepsChangeNothing(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	ctx := t.Context()
	must(t, d.PutTopic(ctx, topicA, "orders"), d.PutPartition(ctx, part0, 0, epochs(4, 0)), d.StartCopy(ctx, seg(1, 0, 99)))
	finish(t, d, seg(2, 100, 199), seg(3, 200, 299), seg(4, 300, 399))
	must(t, d.StartDelete(ctx, part0, id(3)), d.StartDelete(ctx, part0, id(4)), d.FinishDelete(ctx, part0, id(4)))
	elsewhere := tier.PartitionID{Topic: topicA, Partition: 5}
	longer, finished, empty, moved := seg(1, 0, 120), seg(9, 0, 99), seg(9, 0, 99), seg(1, 0, 99)
	finished.State, empty.Epochs, moved.Partition = tier.CopyFinished, nil, elsewhere
	before := d.Snapshot()
	for name, step := range map[string]func() error{
		"finish an unknown copy":           func() error { return d.FinishCopy(ctx, part0, id(99)) },
		"finish in another partition":      func() error { return d.FinishCopy(ctx, elsewhere, id(1)) },
		"finish delete before its start":   func() error { return d.FinishDelete(ctx, part0, id(2)) },
		"finish delete of an unknown id":   func() error { return d.FinishDelete(ctx, part0, id(99)) },
		"finish a copy that is deleted":    func() error { return d.FinishCopy(ctx, part0, id(3)) },
		"finish a copy that is gone":       func() error { return d.FinishCopy(ctx, part0, id(4)) },
		"start a finished copy again":      func() error { return d.StartCopy(ctx, seg(2, 100, 199)) },
		"start a deleted id again":         func() error { return d.StartCopy(ctx, seg(4, 300, 399)) },
		"another range under the same id":  func() error { return d.StartCopy(ctx, longer) },
		"another place under the same id":  func() error { return d.StartCopy(ctx, moved) },
		"start a copy as finished":         func() error { return d.StartCopy(ctx, finished) },
		"a segment without epochs":         func() error { return d.StartCopy(ctx, empty) },
		"another name for a topic's id":    func() error { return d.PutTopic(ctx, topicA, "payments") },
		"a topic without a name":           func() error { return d.PutTopic(ctx, topicB, "") },
		"a lineage that goes back":         func() error { return d.PutPartition(ctx, part0, 0, epochs(4, 100, 5, 50)) },
		"a negative start":                 func() error { return d.PutPartition(ctx, elsewhere, -2, nil) },
		"a hole without offsets":           func() error { return d.RecordHole(ctx, part0, tier.Hole{From: 5, To: 5}) },
		"a cluster without an id":          func() error { return d.ClaimCluster(ctx, "") },
		"a segment of a topic renamed":     func() error { s := seg(8, 0, 9); s.Topic = "payments"; return d.StartCopy(ctx, s) },
		"delete of a segment that is gone": func() error { return d.StartDelete(ctx, part0, id(4)) },
	} {
		t.Run(name, func(t *testing.T) {
			err := step()
			wantKind(t, err, catalog.Illegal)
			if e, _ := errors.AsType[*catalog.Error](err); e.Retriable() {
				t.Error("an illegal step is no better the second time")
			}
			if d.Snapshot() != before {
				t.Error("the view changed")
			}
		})
	}
	must(t, d.Close())
	same(t, openWriter(t, path).Snapshot(), before)
}

func TestOneDatabaseServesOneCluster(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	must(t, d.ClaimCluster(t.Context(), "c1"))
	wantKind(t, d.ClaimCluster(t.Context(), "c2"), catalog.WrongCluster)
	must(t, d.Close())
	if d = openWriter(t, path); d.ClusterID() != "c1" {
		t.Errorf("cluster %q after reopening", d.ClusterID())
	}
}

func TestOneWriterAtATime(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	_, err := OpenWriter(t.Context(), path)
	wantKind(t, err, catalog.Locked)
	for _, want := range []string{path + ".lock", "process"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	cmd := child(t, "open", path)
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "locked") {
		t.Errorf("another process: %q, %v", out, err)
	}
	must(t, d.Close(), d.Close())
	openWriter(t, path)
}

func TestStepsAfterCloseOrCancelAreRefused(t *testing.T) {
	d := openWriter(t, dbPath(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.PutTopic(ctx, topicA, "orders"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	must(t, d.Close())
	wantKind(t, d.PutTopic(t.Context(), topicA, "orders"), catalog.Unavailable)
}

func TestFullDiskRefusesTheStepAndTheNextOneWorks(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	must(t, d.PutTopic(t.Context(), topicA, "orders"), d.StartCopy(t.Context(), seg(1, 0, 99)))
	var pages, ignored int
	must(t, d.db.QueryRow("PRAGMA page_count").Scan(&pages))
	must(t, d.db.QueryRow("PRAGMA max_page_count = "+itoa(pages)).Scan(&ignored))
	big := seg(2, 100, 199)
	big.Custom = make([]byte, 64<<10)
	before := d.Snapshot()
	err := d.StartCopy(t.Context(), big)
	wantKind(t, err, catalog.Unavailable)
	if e, _ := errors.AsType[*catalog.Error](err); !e.Retriable() {
		t.Error("a full disk may have room later")
	}
	if d.Snapshot() != before {
		t.Error("the view shows a step that was not recorded")
	}
	must(t, d.db.QueryRow("PRAGMA max_page_count = 1000000").Scan(&ignored))
	must(t, d.StartCopy(t.Context(), big), d.FinishCopy(t.Context(), part0, id(2)), d.FinishCopy(t.Context(), part0, id(1)))
	want := d.Snapshot()
	must(t, d.Close())
	same(t, openWriter(t, path).Snapshot(), want)
}

// A commit that fails may have happened or not: the next step must not rely on the view in memory.
func TestViewIsReadAgainAfterAFailedCommit(t *testing.T) {
	d := openWriter(t, dbPath(t))
	must(t, d.StartCopy(t.Context(), seg(1, 0, 99)))
	_, err := d.db.Exec("UPDATE segments SET state = 'COPY_SEGMENT_FINISHED', change = 100 WHERE segment_id = ?", id(1).String())
	must(t, err)
	d.mu.Lock()
	d.stale = true
	d.mu.Unlock()
	must(t, d.PutTopic(t.Context(), topicB, "other"))
	if !view0(t, d.Snapshot()).Readable(id(1)) {
		t.Error("the view is not what the database says")
	}
}

func TestConcurrentSteps(t *testing.T) {
	path := dbPath(t)
	d := openWriter(t, path)
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range 10 {
				n := uint64(1 + w*10 + i)
				s := seg(n, int64(n)*100, int64(n)*100+99)
				if err := errors.Join(d.StartCopy(t.Context(), s), d.FinishCopy(t.Context(), part0, s.ID)); err != nil {
					t.Error(err)
				}
				d.Snapshot()
			}
		})
	}
	workers.Wait()
	if n := len(view0(t, d.Snapshot()).Segments(false)); n != 40 {
		t.Errorf("%d readable segments, want 40", n)
	}
	want := d.Snapshot()
	must(t, d.Close())
	same(t, openWriter(t, path).Snapshot(), want)
}

func TestWriterRefusesWhatIsNotItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"a database of something else": {func(t *testing.T, path string) { runSQL(t, path, "CREATE TABLE x (y)") }, "something else"},
		"a schema of the future": {func(t *testing.T, path string) {
			must(t, openWriter(t, path).Close())
			runSQL(t, path, "UPDATE info SET value = '2' WHERE key = 'schema_version'")
		}, `version "2"`},
		"no database at all": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("not a database, ", 500)), 0o644))
		}, "not a database"},
		"an impossible segment": {func(t *testing.T, path string) {
			d := openWriter(t, path)
			must(t, d.StartCopy(t.Context(), seg(1, 0, 99)), d.Close())
			runSQL(t, path, "UPDATE segments SET end_offset = -7")
		}, "end offset -7"},
		"an unreadable id": {func(t *testing.T, path string) {
			d := openWriter(t, path)
			must(t, d.StartCopy(t.Context(), seg(1, 0, 99)), d.Close())
			runSQL(t, path, "UPDATE segments SET segment_id = 'x/y'")
		}, `"x/y" is no id`},
		"unreadable epochs": {func(t *testing.T, path string) {
			d := openWriter(t, path)
			must(t, d.StartCopy(t.Context(), seg(1, 0, 99)), d.Close())
			runSQL(t, path, "UPDATE segments SET epochs = '[[1,2,3]]'")
		}, "no list of pairs"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "coldtap.db")
			c.make(t, path)
			_, err := OpenWriter(t.Context(), path)
			wantKind(t, err, catalog.Damaged)
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%q names neither the file nor %q", err, c.want)
			}
			r := openReader(t, path, ReaderOptions{})
			wantKind(t, r.Ready(), catalog.Damaged)
			if !strings.Contains(r.Ready().Error(), c.want) {
				t.Errorf("%q does not say %q", r.Ready(), c.want)
			}
		})
	}
}

func TestPathsWithSpecialCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "what? 100% a#b&mode=memory", "cold tap.db")
	d := openWriter(t, path)
	finish(t, d, seg(1, 0, 99))
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	must(t, openReader(t, path, ReaderOptions{}).Ready())
}

// runSQL does to a database what somebody with a tool might do.
func runSQL(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.Exec(statement)
	must(t, err, db.Close())
}
