package rebuild

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/catalog"
	"coldtap/catalog/embedded"
	"coldtap/internal/sample"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout/native"
	"coldtap/offload"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(template.dir)
		os.Exit(code)
	}))
}

// template is the bucket that offloaded copies: the offload itself waits for the disk hundreds of times.
var template struct {
	once   sync.Once
	dir    string
	before *tier.Snapshot
}

// bucket is a file store with the sample in it, and the metadata that its offloader wrote.
type bucket struct {
	dir    string
	store  *rangeio.Client
	layout *native.Layout
	before *tier.Snapshot
}

func offloaded(t *testing.T) *bucket {
	t.Helper()
	template.once.Do(func() { fillTemplate(t) })
	if template.before == nil {
		t.Fatal("there is no bucket")
	}
	b := &bucket{dir: t.TempDir(), before: template.before}
	if err := os.CopyFS(b.dir, os.DirFS(template.dir)); err != nil {
		t.Fatal(err)
	}
	b.open(t)
	return b
}

func (b *bucket) open(t *testing.T) {
	backend, err := rangeio.OpenFile(b.dir, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	b.store = rangeio.NewClient(backend, rangeio.Config{})
	b.layout = native.New(b.store, "")
}

func fillTemplate(t *testing.T) {
	logs := t.TempDir()
	if err := sample.Extract(logs); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "coldtap-rebuild-")
	if err != nil {
		t.Fatal(err)
	}
	template.dir = dir
	b := &bucket{dir: dir}
	b.open(t)
	db := database(t)
	report, err := offload.Once(t.Context(), offload.Config{LogDirs: []string{logs}, Catalog: db, Layout: b.layout})
	if err != nil || report.Failed() {
		t.Fatalf("offload: %v", err)
	}
	template.before = db.Snapshot()
}

func database(t *testing.T) *embedded.DB {
	t.Helper()
	db, err := embedded.OpenWriter(t.Context(), filepath.Join(t.TempDir(), "coldtap.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (b *bucket) scan(t *testing.T) *Contents {
	t.Helper()
	c, err := Scan(t.Context(), Config{Store: b.store})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// first gives the first segment of a partition.
func (b *bucket) first(t *testing.T, topic string, partition int32) *tier.Segment {
	t.Helper()
	return b.partition(t, topic, partition).Segments(false)[0]
}

func (b *bucket) partition(t *testing.T, topic string, partition int32) *tier.Partition {
	t.Helper()
	found, _ := b.before.TopicByName(topic)
	p, ok := b.before.Partition(tier.PartitionID{Topic: found.ID, Partition: partition})
	if !ok {
		t.Fatalf("%s-%d is not there", topic, partition)
	}
	return p
}

func (b *bucket) write(t *testing.T, key string, raw []byte) {
	t.Helper()
	if _, err := b.store.Put(t.Context(), key, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
}

func (b *bucket) file(key string) string { return filepath.Join(b.dir, filepath.FromSlash(key)) }

// change rewrites a segment's .meta, under the name that it then has.
func (b *bucket) change(t *testing.T, seg *tier.Segment, change func(*native.Manifest, *segment.Files)) {
	t.Helper()
	raw, err := os.ReadFile(b.file(b.layout.MetaKey(seg)))
	if err != nil {
		t.Fatal(err)
	}
	m, files, err := native.DecodeMeta(raw)
	if err != nil {
		t.Fatal(err)
	}
	change(m, files)
	if raw, err = native.EncodeMeta(m, files); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(b.file(b.layout.LogKey(seg)))
	if err != nil {
		t.Fatal(err)
	}
	now := *seg
	now.ID, now.Topic, now.Partition = m.SegmentID, m.Topic, tier.PartitionID{Topic: m.TopicID, Partition: m.Partition}
	b.write(t, b.layout.LogKey(&now), log)
	b.write(t, b.layout.MetaKey(&now), raw)
}

// told is what readers see of a tier; times of steps differ by nature.
type told struct {
	topic    string
	start    int64
	end      int64
	lineage  []segment.EpochStart
	segments []tier.Segment
}

func view(s *tier.Snapshot) map[tier.PartitionID]told {
	all := make(map[tier.PartitionID]told)
	for p := range s.Partitions() {
		topic, _ := s.TopicByID(p.ID().Topic)
		v := told{topic: topic.Name, start: p.Bounds().Start, end: p.TieredEnd()}
		for _, e := range p.Lineage() {
			if e.StartOffset < p.TieredEnd() {
				v.lineage = append(v.lineage, e)
			}
		}
		for _, seg := range p.Segments(false) {
			c := *seg
			c.EventTime = 0
			v.segments = append(v.segments, c)
		}
		all[p.ID()] = v
	}
	return all
}

func TestTheRebuiltTierIsTheOldOne(t *testing.T) {
	b := offloaded(t)
	contents := b.scan(t)
	if n, _ := contents.Segments(); n != 46 || len(contents.Findings) > 0 || contents.ClusterID != sample.ClusterID {
		t.Fatalf("%d segments of cluster %s, findings %+v", n, contents.ClusterID, contents.Findings)
	}
	db := database(t)
	steps := 0
	if err := Record(t.Context(), db, contents, func(recorded, all int) { steps++ }); err != nil {
		t.Fatal(err)
	}
	if steps != 46 {
		t.Errorf("%d steps of progress", steps)
	}
	want := view(b.before)
	if got := view(db.Snapshot()); !reflect.DeepEqual(got, want) || len(got) != len(sample.Partitions) {
		t.Errorf("rebuilt %+v\nwas %+v", got, want)
	}
	if err := Record(t.Context(), db, b.scan(t), nil); err != nil {
		t.Errorf("over the same: %v", err)
	}
	if got := view(db.Snapshot()); !reflect.DeepEqual(got, want) {
		t.Errorf("the second time changed %+v", got)
	}
}

// failing is a catalog whose steps end after some.
type failing struct {
	catalog.Writer
	left int
}

var errCrash = errors.New("crash")

func (f *failing) step() error {
	if f.left--; f.left < 0 {
		return errCrash
	}
	return nil
}

func (f *failing) PutPartition(ctx context.Context, id tier.PartitionID, start int64, lineage []segment.EpochStart) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.Writer.PutPartition(ctx, id, start, lineage)
}

func (f *failing) StartCopy(ctx context.Context, seg tier.Segment) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.Writer.StartCopy(ctx, seg)
}

func (f *failing) FinishCopy(ctx context.Context, p tier.PartitionID, id segment.UUID) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.Writer.FinishCopy(ctx, p, id)
}

func TestAnInterruptedRecordIsRepeated(t *testing.T) {
	b := offloaded(t)
	contents := b.scan(t)
	db := database(t)
	for tries := 0; ; tries++ {
		err := Record(t.Context(), &failing{db, 7}, contents, nil)
		if err == nil {
			if tries < 10 {
				t.Errorf("done after %d tries: nothing was interrupted", tries)
			}
			break
		}
		if !errors.Is(err, errCrash) || tries > 100 {
			t.Fatalf("try %d: %v", tries, err)
		}
	}
	if got, want := view(db.Snapshot()), view(b.before); !reflect.DeepEqual(got, want) {
		t.Errorf("rebuilt %+v\nwas %+v", got, want)
	}
}

func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name    string
		damage  func(t *testing.T, b *bucket, seg *tier.Segment)
		problem Problem
		says    string
		lost    bool
		missing int // segments less than 46
	}{
		{"a log without .meta", func(t *testing.T, b *bucket, seg *tier.Segment) {
			os.Remove(b.file(b.layout.MetaKey(seg)))
		}, Orphan, "no .meta", false, 1},
		{"a .meta without log", func(t *testing.T, b *bucket, seg *tier.Segment) {
			os.Remove(b.file(b.layout.LogKey(seg)))
		}, MissingLog, "no .log", true, 1},
		{"a log cut short", func(t *testing.T, b *bucket, seg *tier.Segment) {
			os.Truncate(b.file(b.layout.LogKey(seg)), seg.Size-1)
		}, WrongSize, "its .meta says", true, 1},
		{"a damaged .meta", func(t *testing.T, b *bucket, seg *tier.Segment) {
			b.write(t, b.layout.MetaKey(seg), []byte("CTSG, but not really one"))
		}, DamagedMeta, "", true, 1},
		{"a .meta under another name", func(t *testing.T, b *bucket, seg *tier.Segment) {
			raw, _ := os.ReadFile(b.file(b.layout.MetaKey(seg)))
			other := *seg
			other.BaseOffset, other.EndOffset = 100000, 100001
			b.write(t, b.layout.MetaKey(&other), raw)
		}, DamagedMeta, "belongs under", true, 0},
		{"an id twice", func(t *testing.T, b *bucket, seg *tier.Segment) {
			b.change(t, seg, func(m *native.Manifest, _ *segment.Files) { m.Partition = 9 })
		}, DamagedMeta, "same id", true, 0},
		{"a start object that is none", func(t *testing.T, b *bucket, seg *tier.Segment) {
			b.write(t, b.layout.StartKey(seg.Topic, seg.Partition), []byte("0"))
		}, DamagedStart, "", true, len(offloaded(t).partition(t, "plain", 0).Segments(false))},
		{"a .meta cut off before the checkpoint", func(t *testing.T, b *bucket, _ *tier.Segment) {
			all := b.partition(t, "plain", 0).Segments(false)
			file := b.file(b.layout.MetaKey(all[len(all)-1]))
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			os.Truncate(file, info.Size()-1)
		}, NoLineage, "checkpoint", false, 0},
		{"a newest segment without lineage", func(t *testing.T, b *bucket, _ *tier.Segment) {
			all := b.partition(t, "plain", 0).Segments(false)
			b.change(t, all[len(all)-1], func(_ *native.Manifest, f *segment.Files) { f.LeaderEpochs = nil })
		}, NoLineage, "checkpoint", false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := offloaded(t)
			c.damage(t, b, b.first(t, "plain", 0))
			contents := b.scan(t)
			if len(contents.Findings) != 1 {
				t.Fatalf("findings %+v", contents.Findings)
			}
			f := contents.Findings[0]
			if f.Problem != c.problem || !strings.Contains(f.Detail, c.says) || f.Lost() != c.lost || contents.Lost() != c.lost {
				t.Errorf("%+v, lost %v", f, f.Lost())
			}
			if n, _ := contents.Segments(); n != 46-c.missing {
				t.Errorf("%d segments, want %d", n, 46-c.missing)
			}
			db := database(t)
			if err := Record(t.Context(), db, contents, nil); err != nil {
				t.Fatal(err)
			}
			if n := db.Snapshot().Segments(); n != 46-c.missing {
				t.Errorf("%d segments recorded", n)
			}
			if c.problem == NoLineage {
				if got, want := view(db.Snapshot()), view(b.before); !reflect.DeepEqual(got, want) {
					t.Errorf("derived %+v\nwas %+v", got, want)
				}
			}
		})
	}
}

func TestTheStartObjectIsHonoured(t *testing.T) {
	b := offloaded(t)
	p := b.partition(t, "plain", 0)
	start := p.Segments(false)[1].BaseOffset + 3
	moved := &native.Start{ClusterID: sample.ClusterID, Topic: "plain", TopicID: p.ID().Topic, Partition: 0, Offset: start}
	if err := b.layout.PutStart(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	// A partition of which only the start is left: all its segments have been deleted.
	bare := &native.Start{ClusterID: sample.ClusterID, Topic: "plain", TopicID: p.ID().Topic, Partition: 7, Offset: 4711}
	if err := b.layout.PutStart(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	b.write(t, "notes/readme.txt", []byte("not ours"))
	b.write(t, "a/b/00000000000000000042.log", []byte("not ours either"))
	contents := b.scan(t)
	if contents.Foreign != 2 || len(contents.Findings) > 0 {
		t.Errorf("%d foreign objects, findings %+v", contents.Foreign, contents.Findings)
	}
	db := database(t)
	if err := Record(t.Context(), db, contents, nil); err != nil {
		t.Fatal(err)
	}
	for partition, want := range map[int32]int64{0: start, 7: 4711} {
		got, ok := db.Snapshot().Partition(tier.PartitionID{Topic: p.ID().Topic, Partition: partition})
		if !ok || got.Bounds().Start != want {
			t.Errorf("partition %d starts at %+v, want %d", partition, got, want)
		}
	}
}

func TestOfARecreatedTopicTheNewestIsRecordedLast(t *testing.T) {
	b := offloaded(t)
	seg := b.first(t, "plain", 0)
	for i, newer := range []int64{-1000, 1000} {
		// The greater id is the older topic: order of ids must not decide.
		id := segment.UUID{0: byte(0xff - 0xfe*i), 15: 1}
		b.change(t, seg, func(m *native.Manifest, _ *segment.Files) {
			m.TopicID, m.SegmentID, m.Topic, m.EventTime = id, segment.UUID{0: byte(i), 15: 9}, "again", seg.EventTime+newer
		})
	}
	db := database(t)
	if err := Record(t.Context(), db, b.scan(t), nil); err != nil {
		t.Fatal(err)
	}
	if topic, ok := db.Snapshot().TopicByName("again"); !ok || topic.ID[0] != 0x01 {
		t.Errorf("the name means %v", topic.ID)
	}
}

func TestClusters(t *testing.T) {
	b := offloaded(t)
	seg := b.first(t, "plain", 0)
	b.change(t, seg, func(m *native.Manifest, _ *segment.Files) {
		m.ClusterID, m.SegmentID, m.TopicID = "another", segment.UUID{1}, segment.UUID{2}
	})
	_, err := Scan(t.Context(), Config{Store: b.store})
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != SeveralClusters || !strings.Contains(e.Detail, `"another" (1 segments)`) {
		t.Errorf("two clusters: %v", err)
	}
	c, err := Scan(t.Context(), Config{Store: b.store, Cluster: "another"})
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := c.Segments(); n != 1 || c.ClusterID != "another" || len(c.Findings) != 1 || c.Findings[0].Problem != OtherCluster {
		t.Errorf("chosen: %d segments of %s, %+v", n, c.ClusterID, c.Findings)
	}
	_, err = Scan(t.Context(), Config{Store: b.store, Cluster: "none"})
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Empty {
		t.Errorf("a cluster that is not there: %v", err)
	}
	empty, err := rangeio.OpenFile(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	_, err = Scan(t.Context(), Config{Store: rangeio.NewClient(empty, rangeio.Config{})})
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Empty {
		t.Errorf("an empty bucket: %v", err)
	}
}

// TestOfTwoCopiesOfOneSegmentTheLastIsRecorded: an offloader that had lost its database may have copied everything
// again.
func TestOfTwoCopiesOfOneSegmentTheLastIsRecorded(t *testing.T) {
	b := offloaded(t)
	seg := b.first(t, "plain", 0)
	again := segment.UUID{1}
	b.change(t, seg, func(m *native.Manifest, _ *segment.Files) { m.SegmentID, m.EventTime = again, m.EventTime+1 })
	before, _ := offloaded(t).scan(t).Segments()
	c := b.scan(t)
	if n, _ := c.Segments(); n != before || len(c.Findings) != 1 || c.Findings[0].Problem != Duplicate || c.Findings[0].Object != seg.ID.String() || c.Lost() {
		t.Errorf("%d segments, before %d, %+v", n, before, c.Findings)
	}
	for _, p := range c.Partitions {
		if p.ID == seg.Partition && p.Segments[0].ID != again && p.Segments[len(p.Segments)-1].ID != again {
			t.Error("the later copy is not recorded")
		}
	}
}

func TestACatalogWithOtherContentIsRefused(t *testing.T) {
	b := offloaded(t)
	contents := b.scan(t)
	first := b.first(t, "plain", 0)
	for name, occupy := range map[string]func(db *embedded.DB) error{
		"another cluster": func(db *embedded.DB) error { return db.ClaimCluster(t.Context(), "another") },
		"another partition": func(db *embedded.DB) error {
			return db.PutPartition(t.Context(), tier.PartitionID{Topic: segment.UUID{1}}, 0, nil)
		},
		"another start": func(db *embedded.DB) error { return db.PutPartition(t.Context(), first.Partition, 1, nil) },
		"another segment": func(db *embedded.DB) error {
			s := *first
			s.ID, s.State = segment.UUID{5}, tier.CopyStarted
			return db.StartCopy(t.Context(), s)
		},
		"another size": func(db *embedded.DB) error {
			s := *first
			s.Size, s.State = s.Size+1, tier.CopyStarted
			return db.StartCopy(t.Context(), s)
		},
		"a delete": func(db *embedded.DB) error {
			s := *first
			s.State = tier.CopyStarted
			return errors.Join(db.StartCopy(t.Context(), s), db.StartDelete(t.Context(), s.Partition, s.ID))
		},
		"a hole": func(db *embedded.DB) error {
			return errors.Join(db.PutPartition(t.Context(), first.Partition, 0, nil),
				db.RecordHole(t.Context(), first.Partition, tier.Hole{From: 5, To: 6}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t)
			if err := occupy(db); err != nil {
				t.Fatal(err)
			}
			before := view(db.Snapshot())
			err := Record(t.Context(), db, contents, nil)
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Occupied {
				t.Fatalf("%v", err)
			}
			if !reflect.DeepEqual(view(db.Snapshot()), before) {
				t.Error("something was recorded all the same")
			}
		})
	}
}

func TestAScanEndsWithItsContext(t *testing.T) {
	b := offloaded(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Scan(ctx, Config{Store: b.store, Progress: func(read, _ int) {
		if read == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestAnOffloaderGoesOnFromARebuiltTier(t *testing.T) {
	b := offloaded(t)
	all := b.partition(t, "plain", 0).Segments(false)
	last := all[len(all)-1]
	if err := b.layout.Delete(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	db := database(t)
	if err := Record(t.Context(), db, b.scan(t), nil); err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	if err := sample.Extract(logs); err != nil {
		t.Fatal(err)
	}
	report, err := offload.Once(t.Context(), offload.Config{LogDirs: []string{logs}, Catalog: db, Layout: b.layout})
	if err != nil || report.Failed() {
		t.Fatalf("offload: %v", err)
	}
	if n, _ := report.Copied(); n != 1 {
		t.Errorf("%d segments copied, want the one that the bucket lacked", n)
	}
	p, _ := db.Snapshot().Partition(last.Partition)
	if seg, ok := p.Find(last.EndOffset); !ok || p.TieredEnd() != last.EndOffset+1 || seg.ID == last.ID {
		t.Errorf("tiered end %d, segment %+v", p.TieredEnd(), seg)
	}
}

// Objects that the store does not give are left out and reported with what to mend; the rest is recorded. Nothing at
// all is no empty tier.
func TestWithheldObjects(t *testing.T) {
	b := offloaded(t)
	backend, err := rangeio.OpenFile(b.dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	store := faultstore.New(backend)
	restore := store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(".meta"), Times: 2, Fault: faultstore.Fault{Kind: rangeio.Archived}})
	scan := func() (*Contents, error) {
		return Scan(t.Context(), Config{Store: rangeio.NewClient(store, rangeio.Config{Attempts: 1})})
	}
	c, err := scan()
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := c.Segments(); n != 44 || !c.Lost() {
		t.Errorf("%d segments, lost %v", n, c.Lost())
	}
	if n := len(slices.DeleteFunc(c.Findings, func(f Finding) bool { return f.Problem != Withheld || !strings.Contains(f.Detail, "restore it") })); n != 2 {
		t.Errorf("%d are reported", n)
	}
	restore()
	store.Inject(faultstore.Rule{Op: faultstore.Get, Fault: faultstore.Fault{Kind: rangeio.Forbidden}})
	if _, err := scan(); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("nothing can be read: %v", err)
	}
}

func TestAFlipOnTheWayIsReadAgain(t *testing.T) {
	b := offloaded(t)
	backend, err := rangeio.OpenFile(b.dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	store := faultstore.New(backend)
	store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(".meta"), Times: 1, Fault: faultstore.Fault{Content: func(_ int64, p []byte) { p[0] ^= 1 }}})
	c, err := Scan(t.Context(), Config{Store: rangeio.NewClient(store, rangeio.Config{Attempts: 1})})
	if n, _ := c.Segments(); err != nil || n != 46 || c.Lost() {
		t.Errorf("%d segments, %v, %v", n, c.Findings, err)
	}
}
