package native

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// scanned is a segment in a store, and a layout over it.
func scanned(t *testing.T, prefix string, change func(*Manifest, *segment.Files)) (*memoryStore, *Layout, rangeio.Object) {
	t.Helper()
	seg, log, files := realSegment(t)
	s := newMemoryStore()
	l := newTestLayout(s, prefix)
	m, f := newManifest("cluster", seg, sha(log)), *files
	if change != nil {
		change(m, &f)
	}
	raw, err := EncodeMeta(m, &f)
	if err != nil {
		t.Fatal(err)
	}
	key := l.MetaKey(seg)
	s.write(key, raw)
	return s, l, rangeio.Object{Key: key, Size: int64(len(raw))}
}

func TestScanReadsTheHeadOnly(t *testing.T) {
	big := bytes.Repeat([]byte{1}, 8<<20)
	many := func(n int) func(*Manifest, *segment.Files) {
		return func(_ *Manifest, f *segment.Files) {
			f.OffsetIndex, f.Aborted = big, nil
			for i := range int64(n) {
				f.Aborted = append(f.Aborted, segment.AbortedTxn{ProducerID: 1, FirstOffset: 174 + i, LastOffset: 180 + i, LastStableOffset: 200 + i})
			}
		}
	}
	for name, tt := range map[string]struct {
		change             func(*Manifest, *segment.Files)
		requests, most     int // of the manifest
		checkpoint, mostCP int
	}{
		"as it is":                          {nil, 1, scanHead, 1, scanHead},
		"large indexes":                     {many(1), 1, scanHead, 2, scanHead + 100},
		"long list of aborted transactions": {many(100_000), 2, 3 << 20, 3, 3 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			_, scan, o := scanned(t, "", tt.change)
			d, cost, err := scan.ReadManifest(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			want, log, files := realSegment(t)
			if d.Segment.ID != want.ID || d.Segment.Topic != want.Topic || d.Segment.Partition != want.Partition || d.Segment.EndOffset != want.EndOffset ||
				d.Segment.TxnIndexEmpty || d.ClusterID != "cluster" || d.LogSize != int64(len(log)) || d.FilesSize != 0 {
				t.Errorf("%+v", d)
			}
			if cost.Requests != tt.requests || cost.Bytes > int64(tt.most) {
				t.Errorf("cost %+v", cost)
			}
			epochs, err := segment.ParseEpochCheckpoint(files.LeaderEpochs)
			if err != nil {
				t.Fatal(err)
			}
			c, cost, err := scan.ReadCheckpoint(t.Context(), &d.Segment, o.Size)
			if err != nil || !slices.Equal(c.Epochs, epochs) || c.Start != -1 {
				t.Errorf("checkpoint %+v, %v", c, err)
			}
			if cost.Requests != tt.checkpoint || cost.Bytes > int64(tt.mostCP) {
				t.Errorf("cost %+v of the checkpoint", cost)
			}
			if n := scan.memory.InUse(); n != 0 {
				t.Errorf("%d bytes are held", n)
			}
		})
	}
}

func TestScanRefusals(t *testing.T) {
	set := func(at int, v byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	for name, tt := range map[string]struct {
		spoil func([]byte) []byte
		is    error
	}{
		"later version":   {set(5, 9), layout.ErrVersion},
		"other magic":     {set(1, 'X'), nil},
		"lying length":    {set(8, 0xff), nil},
		"damaged":         {func(b []byte) []byte { b[40] ^= 1; return b }, nil},
		"header cut off":  {func(b []byte) []byte { return b[:12] }, nil},
		"manifest cut":    {func(b []byte) []byte { return b[:200] }, nil},
		"nothing in it":   {func(b []byte) []byte { return nil }, nil},
		"under other key": {func(b []byte) []byte { return b }, layout.ErrMisplaced},
	} {
		s, scan, o := scanned(t, "", nil)
		raw := tt.spoil(bytes.Clone(s.objects[o.Key]))
		if tt.is == layout.ErrMisplaced {
			o.Key = strings.Replace(o.Key, "174-", "175-", 1)
		}
		s.write(o.Key, raw)
		o.Size = int64(len(raw))
		_, _, err := scan.ReadManifest(t.Context(), o)
		if e, ok := errors.AsType[*layout.Error](err); !ok || e.Object != o.Key || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", name, err)
		}
		if n := scan.memory.InUse(); n != 0 {
			t.Errorf("%s: %d bytes are held", name, n)
		}
	}
	_, scan, o := scanned(t, "", func(m *Manifest, _ *segment.Files) { m.ClusterID = strings.Repeat("x", 1000) })
	if _, _, err := scan.ReadManifest(t.Context(), o); err == nil {
		t.Error("a cluster id of 1,000 bytes was taken")
	}
	_, scan, o = scanned(t, "", func(_ *Manifest, f *segment.Files) { f.LeaderEpochs = []byte("0\n5\n0 0\n") })
	d, _, err := scan.ReadManifest(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := scan.ReadCheckpoint(t.Context(), &d.Segment, o.Size); err == nil {
		t.Error("a checkpoint that is cut off was taken")
	}
}

func TestScanClassifies(t *testing.T) {
	_, scan, o := scanned(t, "pre/", nil)
	stem := strings.TrimSuffix(o.Key, ".meta")
	folder := stem[:strings.LastIndex(stem, "/")+1]
	want, _, _ := realSegment(t)
	for key, part := range map[string]layout.Part{stem + ".meta": layout.ManifestPart, stem + ".log": layout.LogPart} {
		got, name := scan.Classify(key)
		if got != part || name != (layout.Name{Prefix: "pre/", Topic: "txn", Partition: want.Partition, BaseOffset: 174, ID: want.ID}) {
			t.Errorf("%s: %v %+v", key, got, name)
		}
	}
	if part, name := scan.Classify(folder + "start"); part != layout.StartPart || name.Partition != want.Partition || name.Topic != "txn" {
		t.Errorf("%v %+v", part, name)
	}
	for _, key := range []string{
		"", "pre/", stem, stem + ".txt", stem + ".meta/x", folder, folder + "start/x", folder + "start2", strings.TrimPrefix(o.Key, "pre/"),
		strings.Replace(o.Key, "/0/", "/00/", 1), strings.Replace(o.Key, "/0/", "/-1/", 1), strings.Replace(o.Key, "/0/", "/4294967296/", 1),
		strings.Replace(o.Key, "txn-", "-", 1), strings.Replace(o.Key, "txn-", "..-", 1), strings.Replace(o.Key, "174-", "17x-", 1),
		strings.Replace(o.Key, "174-", "174+", 1), strings.Replace(o.Key, "/0000", "/9999", 1), "pre/start", "pre/a/0/start",
	} {
		if part, name := scan.Classify(key); part != layout.ForeignPart || name != (layout.Name{}) {
			t.Errorf("%q: %v %+v", key, part, name)
		}
	}
}

func FuzzClassify(f *testing.F) {
	l := newTestLayout(newMemoryStore(), "pre/")
	seg, _, _ := realSegment(f)
	f.Add(l.LogKey(seg))
	f.Add(l.MetaKey(seg))
	f.Add(l.StartKey(seg.Topic, seg.Partition))
	f.Fuzz(func(t *testing.T, key string) {
		part, name := l.Classify(key)
		own := *seg
		own.Topic, own.Partition, own.BaseOffset, own.ID, own.EndOffset = name.Topic, name.Partition, name.BaseOffset, name.ID, name.BaseOffset
		made := map[layout.Part]string{layout.LogPart: l.LogKey(&own), layout.ManifestPart: l.MetaKey(&own), layout.StartPart: l.StartKey(name.Topic, name.Partition)}
		if part != layout.ForeignPart && made[part] != key && !name.ID.IsZero() {
			t.Errorf("%q is classified as %q", key, made[part])
		}
	})
}

func TestPartitionPrefixes(t *testing.T) {
	_, scan, o := scanned(t, "p/", nil)
	_, name := scan.Classify(o.Key)
	got := scan.PartitionPrefixes(name.Topic, name.Partition)
	if len(got) != 1 || !strings.HasPrefix(o.Key, got[0]) || !strings.HasSuffix(got[0], "/") {
		t.Errorf("%q for %q", got, o.Key)
	}
	name.Partition.Partition++
	if other := scan.PartitionPrefixes(name.Topic, name.Partition); strings.HasPrefix(o.Key, other[0]) {
		t.Errorf("%q for %q", other, o.Key)
	}
	name.Partition.Partition = -1
	if got := scan.PartitionPrefixes(name.Topic, name.Partition); got != nil {
		t.Errorf("%q for a partition that cannot be", got)
	}
}

// TestPartOf: objects of the layout are known by their names wherever they lie.
func TestPartOf(t *testing.T) {
	const stem = "t-AAAAAAAAAAAAAAAAAAAAAQ/0/00000000000000000042-AAAAAAAAAAAAAAAAAAAAAw"
	for key, want := range map[string]layout.Part{
		stem + ".log": layout.LogPart, stem + ".meta": layout.ManifestPart, "p/q/t-AAAAAAAAAAAAAAAAAAAAAQ/0/start": layout.StartPart,
		"x/0/00000000000000000042----_AAAAAAAAAAAAAAAAAw.log": layout.LogPart,
		"": 0, "start": 0, stem: 0, stem + ".index": 0, stem + ".meta2": 0, "t/0/42-AAAAAAAAAAAAAAAAAAAAAw.log": 0,
		"t/0/0000000000000000004x-AAAAAAAAAAAAAAAAAAAAAw.log": 0, "t/0/00000000000000000042_AAAAAAAAAAAAAAAAAAAAAw.log": 0,
		"0/00000000000000000042-AAAAAAAAAAAAAAAAAAAAAw.log": 0,
	} {
		if got := PartOf(key); got != want {
			t.Errorf("%q is %d, want %d", key, got, want)
		}
	}
}

// TestTransactionIndexIsEmptyOnlyWhereProven: a read of an earlier segment passes over segments whose transaction index
// is empty (tier.Segment.TxnIndexEmpty), so that what is not proven to be empty must not be called so. The manifest
// alone decides: damage to the index's own bytes changes nothing.
func TestTransactionIndexIsEmptyOnlyWhereProven(t *testing.T) {
	file := func(m map[string]any) map[string]any { return m["files"].(map[string]any)["txnindex"].(map[string]any) }
	for name, tt := range map[string]struct {
		files   func(*segment.Files)
		reframe func(map[string]any)
		object  func(b []byte) []byte
		empty   bool
	}{
		"with an abort":      {},
		"without a file":     {files: func(f *segment.Files) { f.TxnIndex = nil }, empty: true},
		"with an empty file": {files: func(f *segment.Files) { f.TxnIndex = []byte{} }, empty: true},
		"cut off":            {object: func(b []byte) []byte { return b[:len(b)-300] }},
		"empty file of another checksum": {
			files:   func(f *segment.Files) { f.TxnIndex = []byte{} },
			reframe: func(m map[string]any) { file(m)["sha256"] = strings.Repeat("0", 64) },
		},
		"no file and senseless aborted transactions": {
			files:   func(f *segment.Files) { f.TxnIndex = nil },
			reframe: func(m map[string]any) { m["aborted"] = [][]int64{{1, 200, 210, 211}, {1, 180, 190, 191}} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, scan, o := scanned(t, "", func(_ *Manifest, f *segment.Files) {
				if tt.files != nil {
					tt.files(f)
				}
			})
			raw := s.objects[o.Key]
			if tt.reframe != nil {
				raw = reframe(t, raw, tt.reframe)
			}
			if tt.object != nil {
				raw = tt.object(raw)
			}
			s.write(o.Key, raw)
			o.Size = int64(len(raw))
			d, _, err := scan.ReadManifest(t.Context(), o)
			if err != nil || d.Segment.TxnIndexEmpty != tt.empty {
				t.Errorf("%+v, %v", d, err)
			}
			// A reader of the whole object draws the same conclusion.
			_, files, err := DecodeMeta(raw)
			if err != nil || (len(files.TxnIndex) == 0 && !files.TxnDamaged) != tt.empty {
				t.Errorf("the object itself: %d bytes, damaged %v, %v", len(files.TxnIndex), files.TxnDamaged, err)
			}
		})
	}
}

func TestCheckpointBeyondTheObject(t *testing.T) {
	s, scan, o := scanned(t, "", func(_ *Manifest, f *segment.Files) { f.OffsetIndex = bytes.Repeat([]byte{1}, scanHead) })
	d, _, err := scan.ReadManifest(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := scan.ReadCheckpoint(t.Context(), &d.Segment, o.Size); err != nil {
		t.Fatal(err)
	}
	raw := s.objects[o.Key]
	s.write(o.Key, raw[:len(raw)-1])
	_, _, err = scan.ReadCheckpoint(t.Context(), &d.Segment, o.Size-1)
	if e, ok := errors.AsType[*layout.Error](err); !ok || !strings.Contains(e.Error(), "cut off") {
		t.Errorf("%v", err)
	}
}

func TestScanAtTheEdge(t *testing.T) {
	_, scan, o := scanned(t, "", func(m *Manifest, _ *segment.Files) { m.ClusterID = strings.Repeat("x", maxClusterID) })
	if _, _, err := scan.ReadManifest(t.Context(), o); err != nil {
		t.Errorf("the longest cluster id: %v", err)
	}
	_, scan, o = scanned(t, "", func(_ *Manifest, f *segment.Files) { *f = segment.Files{} })
	d, cost, err := scan.ReadManifest(t.Context(), o)
	if err != nil || cost.Requests != 1 || cost.Bytes != o.Size {
		t.Fatalf("a manifest without small files: %+v, %v", cost, err)
	}
	if _, _, err := scan.ReadCheckpoint(t.Context(), &d.Segment, o.Size); err == nil {
		t.Error("a checkpoint that is not there was read")
	}
	_, scan, o = scanned(t, "", func(_ *Manifest, f *segment.Files) { f.LeaderEpochs = []byte("0\n0\n") })
	if d, _, err = scan.ReadManifest(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, _, err := scan.ReadCheckpoint(t.Context(), &d.Segment, o.Size); err == nil {
		t.Error("a checkpoint without epochs was read")
	}
	other := d.Segment
	other.EndOffset++
	if _, _, err := scan.ReadCheckpoint(t.Context(), &other, o.Size); err == nil || !strings.Contains(err.Error(), "covers offsets") {
		t.Errorf("the checkpoint of another segment: %v", err)
	}
}

// TestScanCountsMemory: a long manifest is counted four times while it is read.
func TestScanCountsMemory(t *testing.T) {
	_, scan, o := scanned(t, "", func(_ *Manifest, f *segment.Files) {
		f.Aborted = nil
		for i := range int64(10_000) {
			f.Aborted = append(f.Aborted, segment.AbortedTxn{ProducerID: 1, FirstOffset: 200 + i, LastOffset: 210 + i, LastStableOffset: 220 + i})
		}
	})
	var inUse []int64
	scan.store = &raceStore{store: scan.store, between: func() { inUse = append(inUse, scan.memory.InUse()) }}
	if _, _, err := scan.ReadManifest(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if len(inUse) != 2 || inUse[0] != 0 || inUse[1] < 3*o.Size || inUse[1] > 4*o.Size || scan.memory.InUse() != 0 {
		t.Errorf("%d bytes of %d were counted, %d are still", inUse, o.Size, scan.memory.InUse())
	}
}

func TestStartsAtTheEdge(t *testing.T) {
	store := newMemoryStore()
	l := newTestLayout(store, "")
	id := tier.PartitionID{Topic: segment.UUID{1}}
	for _, tt := range []struct {
		idLength int
		size     int64
		ok       bool
	}{{maxClusterID, 300, true}, {maxClusterID + 1, 300, false}, {22, maxStart, true}, {22, maxStart + 1, false}} {
		if err := l.PutStart(t.Context(), &Start{ClusterID: strings.Repeat("x", tt.idLength), Topic: "t", TopicID: id.Topic}); err != nil {
			t.Fatal(err)
		}
		_, _, err := l.ReadStart(t.Context(), rangeio.Object{Key: l.StartKey("t", id), Size: tt.size})
		if _, fault := errors.AsType[*layout.Error](err); fault == tt.ok || !fault && err != nil {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestObjectsOfASegment(t *testing.T) {
	_, scan, o := scanned(t, "", nil)
	seg, _, _ := realSegment(t)
	want := []layout.Object{
		{Key: strings.TrimSuffix(o.Key, ".meta") + ".log", Part: layout.LogPart, Size: seg.Size}, {Key: o.Key, Part: layout.ManifestPart, Size: -1},
	}
	if got := scan.Objects(seg); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	hostile := *seg
	hostile.Topic = "../x"
	if got := scan.Objects(&hostile); got != nil {
		t.Errorf("%+v", got)
	}
}
