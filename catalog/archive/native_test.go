package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"coldtap/catalog"
	"coldtap/catalog/embedded"
	"coldtap/internal/sample"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout"
	"coldtap/layout/native"
	"coldtap/offload"
	"coldtap/rangeio"
	"coldtap/tier"
)

// offloaded is a bucket that an offloader filled with the sample, and the metadata that it wrote.
var offloaded struct {
	once    sync.Once
	objects map[string][]byte
	view    *tier.Snapshot
}

// nativeBucket is that bucket.
func nativeBucket(t *testing.T) (*bucket, *native.Layout, *tier.Snapshot) {
	t.Helper()
	offloaded.once.Do(func() { offloadSample(t) })
	if offloaded.view == nil {
		t.Fatal("there is no bucket")
	}
	b, l := emptyNative()
	for key, raw := range offloaded.objects {
		b.Set(key, raw)
	}
	return b, l, offloaded.view
}

func emptyNative() (*bucket, *native.Layout) {
	var l *native.Layout
	b := newBucket(func(c *rangeio.Client) layout.Manifests {
		l = native.New(c, "")
		return l
	})
	return b, l
}

func offloadSample(t *testing.T) {
	logs := t.TempDir()
	if err := sample.Extract(logs); err != nil {
		t.Fatal(err)
	}
	b, l := emptyNative()
	db, err := embedded.OpenWriter(t.Context(), filepath.Join(t.TempDir(), "coldtap.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	report, err := offload.Once(t.Context(), offload.Config{LogDirs: []string{logs}, Catalog: db, Layout: l})
	if err != nil || report.Failed() {
		t.Fatalf("offload: %v", err)
	}
	offloaded.objects = make(map[string][]byte)
	for _, key := range b.Keys() {
		offloaded.objects[key] = b.Bytes(key)
	}
	offloaded.view = db.Snapshot()
}

// TestNativeBucketTellsWhatTheOffloaderRecorded, and one GET a segment and one a partition suffice for small ones.
func TestNativeBucketTellsWhatTheOffloaderRecorded(t *testing.T) {
	b, _, want := nativeBucket(t)
	o := Options{Snapshot: filepath.Join(t.TempDir(), "archive.snapshot")}
	a := b.open(t, o)
	partitions := 0
	for p := range want.Partitions() {
		partitions++
		got, ok := a.Snapshot().Partition(p.ID())
		if !ok {
			t.Fatalf("%v is not there", p.ID())
		}
		x, y := facts(chain(got)), facts(chain(p))
		if len(x) == 0 || len(x) != len(y) {
			t.Fatalf("%d segments, the database has %d", len(x), len(y))
		}
		for i := range x {
			if x[i].ID != y[i].ID || x[i].BaseOffset != y[i].BaseOffset || x[i].EndOffset != y[i].EndOffset || x[i].Size != y[i].Size ||
				x[i].MaxTimestamp != y[i].MaxTimestamp || x[i].Topic != y[i].Topic {
				t.Errorf("segment %+v, the database says %+v", x[i], y[i])
			}
			if chain(got)[i].TxnIndexEmpty != chain(p)[i].TxnIndexEmpty {
				t.Errorf("segment %v: transaction index empty %t", x[i].ID, chain(got)[i].TxnIndexEmpty)
			}
		}
		if got.Bounds().Start != p.Bounds().Start || got.TieredEnd() != p.TieredEnd() {
			t.Errorf("from %d to %d, the database says %d to %d", got.Bounds().Start, got.TieredEnd(), p.Bounds().Start, p.TieredEnd())
		}
	}
	if a.ClusterID() != sample.ClusterID {
		t.Errorf("cluster %s", a.ClusterID())
	}
	wantProblems(t, a, nil)
	if gets, all := b.faults.Count(faultstore.Get, nil), want.Segments()+partitions; gets != all {
		t.Errorf("%d GETs, want %d", gets, all)
	}
	a.Close()
	b.faults.Reset()
	again := b.open(t, o)
	if gets := b.faults.Count(faultstore.Get, nil); gets != 0 {
		t.Errorf("%d GETs after a restart", gets)
	}
	if again.ClusterID() != sample.ClusterID {
		t.Errorf("cluster %q after a restart", again.ClusterID())
	}
	sameView(t, again.Snapshot(), a.Snapshot())
}

// first gives a partition with several segments, and its topic's name.
func first(t *testing.T, view *tier.Snapshot) (*tier.Partition, string) {
	t.Helper()
	topic, _ := view.TopicByName("txn")
	p, ok := view.Partition(tier.PartitionID{Topic: topic.ID})
	if !ok || len(chain(p)) < 2 {
		t.Fatal("the sample has another shape")
	}
	return p, "txn"
}

// TestH5StartObjectIsHonoured: retention moved the start and has not deleted everything below yet.
func TestH5StartObjectIsHonoured(t *testing.T) {
	b, l, view := nativeBucket(t)
	p, topic := first(t, view)
	moved := chain(p)[1].BaseOffset + 3
	put := func(offset int64) {
		t.Helper()
		err := l.PutStart(t.Context(), &native.Start{ClusterID: sample.ClusterID, Topic: topic, TopicID: p.ID().Topic, Partition: p.ID().Partition, Offset: offset})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(moved)
	a := b.open(t, Options{})
	at := func() *tier.Partition {
		t.Helper()
		got, ok := a.Snapshot().Partition(p.ID())
		if !ok {
			t.Fatal("the partition is not there")
		}
		return got
	}
	if got := at(); got.Bounds().Start != moved {
		t.Errorf("starts at %d, want %d", got.Bounds().Start, moved)
	} else if _, ok := got.Find(moved - 1); ok {
		t.Error("a deleted record is found")
	}
	// It moves on to the end, and H7: everything is deleted.
	end := p.TieredEnd()
	put(end)
	for _, s := range chain(p) {
		b.Delete(t.Context(), l.LogKey(s))
		b.Delete(t.Context(), l.MetaKey(s))
	}
	relist(t, a)
	if got := at(); got.Bounds().Start != end || got.TieredEnd() != end {
		t.Errorf("from %d to %d, want %d", got.Bounds().Start, got.TieredEnd(), end)
	}
	if named, ok := a.Snapshot().TopicByName(topic); !ok || named.ID != p.ID().Topic {
		t.Errorf("topic %v", named)
	}
}

// TestDamagedStartLeavesThePartitionOut: what retention has deleted must not come back.
func TestDamagedStartLeavesThePartitionOut(t *testing.T) {
	b, l, view := nativeBucket(t)
	p, topic := first(t, view)
	key := l.StartKey(topic, p.ID())
	other := view.Segments() - len(chain(p))
	for name, content := range map[string][]byte{
		"empty": nil, "zeros": make([]byte, 100), "large": make([]byte, 1<<20),
		"of another partition": func() []byte {
			raw, err := native.EncodeStart(&native.Start{ClusterID: sample.ClusterID, Topic: topic, TopicID: p.ID().Topic, Partition: 1, Offset: 3})
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}(),
	} {
		b.Set(key, content)
		a := b.open(t, Options{})
		if _, ok := a.Snapshot().Partition(p.ID()); ok || a.Snapshot().Segments() != other {
			t.Errorf("%s: the partition is served", name)
		}
		wantProblems(t, a, map[Problem]int64{DamagedStart: 1})
		b.Delete(t.Context(), key)
		relist(t, a)
		if _, ok := a.Snapshot().Partition(p.ID()); !ok {
			t.Errorf("%s: the partition is not served without it", name)
		}
	}
}

// TestBucketOfSeveralClusters is not guessed at.
func TestBucketOfSeveralClusters(t *testing.T) {
	b, l, view := nativeBucket(t)
	p, _ := first(t, view)
	s := chain(p)[1]
	raw := b.Bytes(l.MetaKey(s))
	m, files, err := native.DecodeMeta(raw)
	if err != nil {
		t.Fatal(err)
	}
	m.ClusterID = "another"
	if raw, err = native.EncodeMeta(m, files); err != nil {
		t.Fatal(err)
	}
	b.Set(l.MetaKey(s), raw)
	a := b.start(t, Options{})
	if err := a.awaitListing(t.Context()); err == nil {
		t.Fatal("one was guessed")
	}
	wantKind(t, a.Ready(), catalog.WrongCluster, `"another" (1 segments)`)
	a = b.open(t, Options{Cluster: "another"})
	if n := a.Snapshot().Segments(); n != 1 || a.ClusterID() != "another" {
		t.Errorf("%d segments of %s", n, a.ClusterID())
	}
	a = b.open(t, Options{Cluster: sample.ClusterID})
	if n := a.Snapshot().Segments(); n != view.Segments()-1 {
		t.Errorf("%d segments", n)
	}
	wantProblems(t, a, map[Problem]int64{OtherCluster: 1, Gap: 1})
}

// TestHostileMetaObjects: lying lengths, cut off and foreign bytes.
func TestHostileMetaObjects(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"empty":           func([]byte) []byte { return nil },
		"header cut off":  func(b []byte) []byte { return b[:15] },
		"other magic":     func(b []byte) []byte { b[0] = 'X'; return b },
		"length of 4 GiB": func(b []byte) []byte { copy(b[8:], "\xff\xff\xff\xff"); return b },
		"wrong checksum":  func(b []byte) []byte { b[20]++; return b },
		"later version":   func(b []byte) []byte { b[5] = 2; return b },
		"manifest alone":  func(b []byte) []byte { return b[:16+bytes.IndexByte(b[16:], '}')] },
	} {
		t.Run(name, func(t *testing.T) {
			b, l, view := nativeBucket(t)
			p, _ := first(t, view)
			key := l.MetaKey(chain(p)[0])
			b.Set(key, spoil(b.Bytes(key)))
			a := b.open(t, Options{})
			problem := Damaged
			if name == "later version" {
				problem = UnknownVersion
			}
			wantProblems(t, a, map[Problem]int64{problem: 1})
			if n := a.Snapshot().Segments(); n != view.Segments()-1 {
				t.Errorf("%d segments, want %d", n, view.Segments()-1)
			}
		})
	}
}

// TestFileStore lists a real folder.
func TestFileStore(t *testing.T) {
	_, _, view := nativeBucket(t)
	dir := t.TempDir()
	for key, raw := range offloaded.objects {
		path := filepath.Join(dir, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	backend, err := rangeio.OpenFile(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	client := rangeio.NewClient(backend, rangeio.Config{})
	b := &bucket{store: client, layout: native.New(client, "")}
	a := b.open(t, Options{})
	if n := a.Snapshot().Segments(); n != view.Segments() {
		t.Errorf("%d segments, want %d", n, view.Segments())
	}
	a.Close()
}
