package offload

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"coldtap/catalog/embedded"
	"coldtap/layout/native"
	"coldtap/offload/rebuild"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"

	"context"
)

// stack is the offloader on a real catalog, layout and store.
type stack struct {
	db      *embedded.DB
	backend *faultyBackend
	layout  *native.Layout
}

// faultyBackend fails from a given write or delete on, after it has taken effect or before.
type faultyBackend struct {
	rangeio.Backend
	left atomic.Int64 // operations that still work

	withheld string // a key that is in an archive storage class
}

func (b *faultyBackend) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
	if key == b.withheld {
		return nil, rangeio.Info{}, &rangeio.Error{Kind: rangeio.Archived, Op: "get", Key: key}
	}
	return b.Backend.Open(ctx, key, off, n, etag)
}

var errBackend = &rangeio.Error{Kind: rangeio.Forbidden, Op: "put", Err: errors.New("broken")}

func (b *faultyBackend) Put(ctx context.Context, key string, c rangeio.Content) (rangeio.Info, error) {
	if b.left.Add(-1) < 0 {
		return rangeio.Info{}, errBackend
	}
	return b.Backend.Put(ctx, key, c)
}

func (b *faultyBackend) Delete(ctx context.Context, key string) error {
	if b.left.Add(-1) < 0 {
		return errBackend
	}
	return b.Backend.Delete(ctx, key)
}

func openStack(t *testing.T, dir string, works int64) *stack {
	t.Helper()
	backend, err := rangeio.OpenFile(filepath.Join(dir, "objects"), true)
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{backend: &faultyBackend{Backend: backend}}
	s.backend.left.Store(works)
	s.layout = native.New(rangeio.NewClient(s.backend, rangeio.Config{}), "")
	if s.db, err = embedded.OpenWriter(t.Context(), filepath.Join(dir, "coldtap.db")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stack) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.db.Close(), s.backend.Close()); err != nil {
		t.Error(err)
	}
}

func (s *stack) offload(t *testing.T, logDir string) Report {
	t.Helper()
	report, err := Once(t.Context(), Config{LogDirs: []string{logDir}, Catalog: s.db, Layout: s.layout})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func (s *stack) keys(t *testing.T) (keys []string) {
	t.Helper()
	if err := s.backend.List(t.Context(), "", func(o rangeio.Object) error { keys = append(keys, o.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	return keys
}

// The sample through SQLite and the native layout in a file store, with the store breaking now and then and a new
// process each time, reads back byte for byte.
func TestSampleSurvivesTheWholeStack(t *testing.T) {
	logDir, dir := extract(t, "plain-0", "txn-1"), t.TempDir()
	runs := 0
	for works := int64(3); ; works += 4 {
		s := openStack(t, dir, works)
		report := s.offload(t, logDir)
		s.close(t)
		runs++
		if !report.Failed() {
			break
		}
		if !strings.Contains(of(t, report, "txn", 1).reasons(), string(StoreFailed)) {
			t.Fatalf("report %+v", report)
		}
	}
	if runs < 3 {
		t.Fatalf("only %d runs", runs)
	}
	s := openStack(t, dir, 0)
	defer s.close(t)
	if report := s.offload(t, logDir); report.Failed() {
		t.Fatalf("a run with nothing to do: %+v", report)
	}
	segments := 0
	for _, name := range []string{"plain-0", "txn-1"} {
		topic, n, _ := segment.ParsePartitionDir(name)
		found, ok := s.db.Snapshot().TopicByName(topic)
		if !ok {
			t.Fatalf("no topic %s", topic)
		}
		p, _ := s.db.Snapshot().Partition(tier.PartitionID{Topic: found.ID, Partition: n})
		for _, seg := range p.Segments(true) {
			segments++
			want := onDisk(t, logDir, name, segment.FileName(seg.BaseOffset, ".log"))
			got := make([]byte, seg.Size)
			if _, err := s.layout.ReadLog(t.Context(), seg, got, 0); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s at %d: log differs, %v", name, seg.BaseOffset, err)
			}
			f, _, err := s.layout.ReadFiles(t.Context(), seg)
			if err != nil || seg.State != tier.CopyFinished || !f.Decided ||
				!bytes.Equal(f.OffsetIndex, onDisk(t, logDir, name, segment.FileName(seg.BaseOffset, ".index"))) {
				t.Errorf("%s at %d: state %v, files %v", name, seg.BaseOffset, seg.State, err)
			}
		}
	}
	if keys := s.keys(t); len(keys) != 2*segments || segments != 16 {
		t.Errorf("%d segments, objects %q", segments, keys)
	}
}

// A source that breaks off must not become a shorter object.
func TestLogThatIsCutWhileItIsSentIsNotFinished(t *testing.T) {
	l := newLog(t, "a", 0)
	for range 8 {
		l.add(batchSpec{timestamp: 1, value: make([]byte, 1<<20)})
	}
	l.roll().data(1).done()
	s := openStack(t, t.TempDir(), 100)
	defer s.close(t)
	cutting := &cuttingLayout{Layout: s.layout}
	report, err := Once(t.Context(), Config{LogDirs: []string{l.dir}, Catalog: s.db, Layout: cutting})
	if err != nil {
		t.Fatal(err)
	}
	r := of(t, report, "a", 0)
	if r.Segments != 0 || r.Left[0].Reason != Changed {
		t.Errorf("left %+v", r.Left)
	}
	p, _ := s.db.Snapshot().Partition(tier.PartitionID{Topic: testTopicID})
	if segs := p.Segments(true); len(segs) != 1 || segs[0].State != tier.CopyStarted || len(s.keys(t)) != 0 {
		t.Errorf("segments %+v, objects %q", segs, s.keys(t))
	}
}

// cuttingLayout makes the log end at 60 %, as a file does that somebody truncates, once its first pass is over.
type cuttingLayout struct{ *native.Layout }

type cutContent struct {
	rangeio.Content
	read int64
}

func (c *cutContent) ReadAt(p []byte, off int64) (int, error) {
	c.read += int64(len(p))
	if limit := c.Size() * 6 / 10; c.read > c.Size() && off+int64(len(p)) > limit {
		return 0, io.EOF
	}
	return c.Content.ReadAt(p, off)
}

func (c *cuttingLayout) Put(ctx context.Context, cluster string, seg *tier.Segment, log rangeio.Content, sum string, files *segment.Files) error {
	return c.Layout.Put(ctx, cluster, seg, &cutContent{Content: log}, sum, files)
}

// TestALostDatabaseIsNotCopiedAgain: a database that is new, or older than the store, is refused before anything is
// written.
func TestALostDatabaseIsNotCopiedAgain(t *testing.T) {
	logDir, dir := extract(t, "plain-0", "txn-1"), t.TempDir()
	database := filepath.Join(dir, "coldtap.db")
	s := openStack(t, dir, 1<<30)
	s.offload(t, logDir)
	before := s.keys(t)
	s.close(t)
	forget := func() {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(database + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	forget()
	s = openStack(t, dir, 1<<30)
	refused := func(what string) {
		t.Helper()
		report, err := Once(t.Context(), Config{LogDirs: []string{logDir}, Catalog: s.db, Layout: s.layout})
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Untracked || e.Retriable() || !strings.Contains(err.Error(), "plain-0") {
			t.Errorf("%s: %v", what, err)
		}
		if n, _ := report.Copied(); n != 0 || !slices.Equal(s.keys(t), before) {
			t.Errorf("%s: %d segments copied, %d objects, before %d", what, n, len(s.keys(t)), len(before))
		}
	}
	refused("a new database")
	s.close(t)

	// A database that was restored from before the last copies knows of the first segments only.
	forget()
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(logDir)); err != nil {
		t.Fatal(err)
	}
	gone, err := filepath.Glob(filepath.Join(old, "plain-0", "*.log"))
	if err != nil || len(gone) < 4 {
		t.Fatal(gone, err)
	}
	elsewhere := t.TempDir()
	s = openStack(t, elsewhere, 1<<30)
	for _, log := range gone[2:] {
		for _, f := range []string{log, strings.TrimSuffix(log, ".log") + ".index", strings.TrimSuffix(log, ".log") + ".timeindex"} {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	Once(t.Context(), Config{LogDirs: []string{old}, Include: []string{"plain"}, Catalog: s.db, Layout: s.layout})
	s.close(t)
	raw, err := os.ReadFile(filepath.Join(elsewhere, "coldtap.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(database, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	s = openStack(t, dir, 1<<30)
	refused("an old database")

	// What nobody could read does not count: neither a manifest that is damaged nor one without its log.
	for _, key := range before {
		var err error
		switch path := filepath.Join(dir, "objects", filepath.FromSlash(key)); {
		case strings.HasSuffix(key, ".meta") && strings.HasPrefix(key, "plain-"):
			err = os.WriteFile(path, []byte("no manifest"), 0o644)
		case strings.HasSuffix(key, ".log") && strings.HasPrefix(key, "txn-"):
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if report := s.offload(t, logDir); report.Failed() {
		t.Errorf("over objects that cannot be read: %+v", report)
	}
	s.close(t)
}

// TestWhatIsWithheldHoldsUpNobodyWhoKnowsThePartition: a rebuild leaves out a segment whose .meta is in an archive
// storage class, and offloading goes on after it. A database that knows nothing of the partition is refused all the
// same.
func TestWhatIsWithheldHoldsUpNobodyWhoKnowsThePartition(t *testing.T) {
	logDir, dir := extract(t, "plain-0"), t.TempDir()
	s := openStack(t, dir, 1<<30)
	s.offload(t, logDir)
	s.close(t)
	database := filepath.Join(dir, "coldtap.db")
	if err := os.Remove(database); err != nil {
		t.Fatal(err)
	}
	s = openStack(t, dir, 1<<30)
	defer s.close(t)
	var newest string
	for _, key := range s.keys(t) {
		if strings.HasSuffix(key, ".meta") {
			newest = max(newest, key)
		}
	}
	s.backend.withheld = newest
	once := func() (Report, error) {
		return Once(t.Context(), Config{LogDirs: []string{logDir}, Catalog: s.db, Layout: s.layout})
	}
	if _, err := once(); err == nil {
		t.Error("a new database was not refused")
	}
	found, err := rebuild.Scan(t.Context(), rebuild.Config{Store: rangeio.NewClient(s.backend, rangeio.Config{})})
	if err != nil || !found.Lost() {
		t.Fatal(found, err)
	}
	if err := rebuild.Record(t.Context(), s.db, found, nil); err != nil {
		t.Fatal(err)
	}
	report, err := once()
	if err != nil || report.Failed() {
		t.Fatalf("%v %+v", err, report)
	}
	if n, _ := report.Copied(); n != 1 || !strings.Contains(strings.Join(of(t, report, "plain", 0).Notes, ""), "withholds") {
		t.Errorf("%d copied, %+v", n, report)
	}
}
