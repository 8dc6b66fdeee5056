package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

func TestRoundTrip(t *testing.T) {
	seg, log, files := realSegment(t)
	inFiles, err := rangeio.OpenFile(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer inFiles.Close()
	for _, tt := range []struct {
		store  rangeio.Backend
		prefix string
		topic  string
	}{
		{newMemoryStore(), "", "txn"},
		{inFiles, "", "txn"},
		{inFiles, "x+y z/%2F/", "a.b_c-1"},
	} {
		l := newTestLayout(tt.store, tt.prefix)
		seg := *seg
		seg.Topic = tt.topic
		t.Run(l.MetaKey(&seg), func(t *testing.T) {
			if err := l.Put(t.Context(), "cluster", &seg, bytes.NewReader(log), sha(log), files); err != nil {
				t.Fatal(err)
			}
			got, cost, err := l.ReadFiles(t.Context(), &seg)
			if err != nil || !sameFiles(got, files) {
				t.Fatalf("files %+v, %v", got, err)
			}
			if cost.Requests != 1 {
				t.Errorf("the small files took %d requests", cost.Requests)
			}
			for _, r := range [][2]int64{{0, seg.Size}, {0, 1}, {seg.Size - 1, seg.Size}, {4096, 8192}, {17, 17}} {
				dst := make([]byte, r[1]-r[0])
				cost, err := l.ReadLog(t.Context(), &seg, dst, r[0])
				if err != nil || !bytes.Equal(dst, log[r[0]:r[1]]) {
					t.Errorf("bytes %d to %d: %v", r[0], r[1], err)
				}
				if want := (readcost.Cost{Requests: min(len(dst), 1), Bytes: int64(len(dst))}); cost != want {
					t.Errorf("bytes %d to %d took %+v, want %+v", r[0], r[1], cost, want)
				}
			}
			for range 2 {
				if err := l.Delete(t.Context(), &seg); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
			if _, _, err := l.ReadFiles(t.Context(), &seg); !rangeio.IsKind(err, rangeio.NotFound) {
				t.Errorf("after delete: %v", err)
			}
			if _, err := l.ReadLog(t.Context(), &seg, make([]byte, 1), 0); !rangeio.IsKind(err, rangeio.NotFound) {
				t.Errorf("after delete: %v", err)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	l := newTestLayout(newMemoryStore(), "tier/")
	seg := &tier.Segment{
		ID: segment.UUID{0: 0xfb, 1: 0xef, 2: 0xbf, 15: 3}, Topic: "a.b_c-1", BaseOffset: 42, EndOffset: 42,
		Partition: tier.PartitionID{Topic: segment.UUID{15: 1}, Partition: 7},
	}
	const stem = "tier/a.b_c-1-AAAAAAAAAAAAAAAAAAAAAQ/7/"
	if got, want := l.LogKey(seg), stem+"00000000000000000042----_AAAAAAAAAAAAAAAAAw.log"; got != want {
		t.Errorf("log key %s, want %s", got, want)
	}
	if got, want := l.MetaKey(seg), stem+"00000000000000000042----_AAAAAAAAAAAAAAAAAw.meta"; got != want {
		t.Errorf("meta key %s, want %s", got, want)
	}
	if got, want := l.StartKey(seg.Topic, seg.Partition), stem+"start"; got != want {
		t.Errorf("start key %s, want %s", got, want)
	}
}

func TestKeysOfTheFirstOffset(t *testing.T) {
	l := newTestLayout(newMemoryStore(), "")
	seg := &tier.Segment{ID: segment.UUID{15: 3}, Topic: "t", Partition: tier.PartitionID{Topic: segment.UUID{15: 1}}}
	const want = "t-AAAAAAAAAAAAAAAAAAAAAQ/0/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAw.log"
	if got := l.LogKey(seg); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestHostileNamesMakeNoKey(t *testing.T) {
	good, _, files := realSegment(t)
	tests := map[string]func(*tier.Segment){
		"climbing topic":     func(s *tier.Segment) { s.Topic = "../../etc/passwd" },
		"dots":               func(s *tier.Segment) { s.Topic = ".." },
		"empty topic":        func(s *tier.Segment) { s.Topic = "" },
		"slash":              func(s *tier.Segment) { s.Topic = "a/b" },
		"zero byte":          func(s *tier.Segment) { s.Topic = "a\x00b" },
		"long topic":         func(s *tier.Segment) { s.Topic = strings.Repeat("a", 250) },
		"not ASCII":          func(s *tier.Segment) { s.Topic = "tópic" },
		"no topic id":        func(s *tier.Segment) { s.Partition.Topic = segment.UUID{} },
		"negative partition": func(s *tier.Segment) { s.Partition.Partition = -1 },
		"no segment id":      func(s *tier.Segment) { s.ID = segment.UUID{} },
		"negative offset":    func(s *tier.Segment) { s.BaseOffset = -1 },
		"end before base":    func(s *tier.Segment) { s.EndOffset = s.BaseOffset - 1 },
		"negative size":      func(s *tier.Segment) { s.Size = -1 },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			seg := *good
			spoil(&seg)
			store := newMemoryStore()
			l := newTestLayout(store, "")
			if k := l.LogKey(&seg) + l.MetaKey(&seg); k != "" {
				t.Errorf("keys %q", k)
			}
			ctx := t.Context()
			_, err1 := l.ReadLog(ctx, &seg, nil, 0)
			_, _, err2 := l.ReadFiles(ctx, &seg)
			err3 := l.Put(ctx, "cluster", &seg, bytes.NewReader(nil), sha(nil), files)
			err4 := l.Delete(ctx, &seg)
			for i, err := range []error{err1, err2, err3, err4} {
				var e *layout.Error
				if !errors.As(err, &e) {
					t.Errorf("operation %d: %v", i, err)
				}
			}
			if len(store.steps)+len(store.asked) > 0 {
				t.Errorf("the store was asked: %v %v", store.steps, store.asked)
			}
		})
	}
}

func TestExpectCountsTheRequests(t *testing.T) {
	seg, log, _ := realSegment(t)
	l := newTestLayout(newMemoryStore(), "")
	pieces := l.Expect(seg, layout.Demand{Chunk: 4096, Pieces: []int64{0, 1}})
	if pieces.Requests != 2 || pieces.Bytes != min(8192, int64(len(log))) {
		t.Errorf("two pieces: %+v", pieces)
	}
	all := l.Expect(seg, layout.Demand{Files: true, Chunk: 4096, Pieces: []int64{0, 1}})
	if all.Requests != 3 || all.Bytes-pieces.Bytes != layout.SmallFiles(seg) {
		t.Errorf("and the small files: %+v", all)
	}
}

func TestChunkSize(t *testing.T) {
	l := newTestLayout(newMemoryStore(), "")
	for limit, want := range map[int64]int64{
		4 << 20: 4 << 20, 4<<20 + 1: 4 << 20, 4<<20 - 1: 2 << 20, 4 << 10: 4 << 10, 5_000: 4 << 10, 100: 100,
		1<<63 - 1: 1 << 62,
	} {
		if got := l.ChunkSize(nil, limit); got != want {
			t.Errorf("at most %d: %d, want %d", limit, got, want)
		}
	}
}

func TestReadLogOutsideOfLog(t *testing.T) {
	seg, _, _ := realSegment(t)
	store := newMemoryStore()
	l := newTestLayout(store, "")
	for _, r := range []struct{ off, n int64 }{{-1, 1}, {0, seg.Size + 1}, {seg.Size, 1}, {1<<63 - 1, 1}, {seg.Size - 1, 2}} {
		var e *layout.Error
		if _, err := l.ReadLog(t.Context(), seg, make([]byte, r.n), r.off); !errors.As(err, &e) {
			t.Errorf("%d bytes at %d: %v", r.n, r.off, err)
		}
	}
	if len(store.asked) > 0 {
		t.Errorf("the store was asked: %v", store.asked)
	}
}

// TestOneVersion overwrites an object between two reads: the second must not be answered from the new bytes.
func TestOneVersion(t *testing.T) {
	seg, log, files := realSegment(t)
	store := newMemoryStore()
	l := newTestLayout(store, "")
	if err := l.Put(t.Context(), "cluster", seg, bytes.NewReader(log), sha(log), files); err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 4096)
	read := func(off int64) error {
		_, err := l.ReadLog(t.Context(), seg, dst, off)
		return err
	}
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	other := bytes.Repeat([]byte{'x'}, len(log))
	store.write(l.LogKey(seg), other)
	if err := read(4096); !rangeio.IsKind(err, rangeio.Changed) {
		t.Fatalf("read across versions: %v", err)
	}
	if err := read(4096); err != nil || dst[0] != 'x' {
		t.Errorf("after it was told, the reader gets %q, %v", dst[0], err)
	}
	key := l.LogKey(seg)
	want := []string{key + " ", key + ` "v1"`, key + " "}
	if !slices.Equal(store.asked, want) {
		t.Errorf("asked for versions %q, want %q", store.asked, want)
	}
	store.write(key, other[:1000])
	if err := read(0); !rangeio.IsKind(err, rangeio.Changed) {
		t.Errorf("shorter object: %v", err)
	}
	if err := read(0); err == nil || rangeio.IsKind(err, rangeio.Changed) {
		t.Errorf("an object of another size than the metadata says: %v", err)
	}
}

func TestReadFilesOfAnotherSegment(t *testing.T) {
	seg, log, files := realSegment(t)
	store := newMemoryStore()
	l := newTestLayout(store, "")
	if err := l.Put(t.Context(), "cluster", seg, bytes.NewReader(log), sha(log), files); err != nil {
		t.Fatal(err)
	}
	meta := store.objects[l.MetaKey(seg)]
	for name, change := range map[string]func(*tier.Segment){
		"other topic":     func(s *tier.Segment) { s.Partition.Topic = segment.UUID{1} },
		"other partition": func(s *tier.Segment) { s.Partition.Partition = 1 },
		"other segment":   func(s *tier.Segment) { s.ID = segment.UUID{1} },
		"other base":      func(s *tier.Segment) { s.BaseOffset-- },
		"other end":       func(s *tier.Segment) { s.EndOffset++ },
		"other size":      func(s *tier.Segment) { s.Size++ },
	} {
		t.Run(name, func(t *testing.T) {
			other := *seg
			change(&other)
			store.write(l.MetaKey(&other), meta)
			var e *layout.Error
			if _, cost, err := l.ReadFiles(t.Context(), &other); !errors.As(err, &e) || e.Object != l.MetaKey(&other) || cost.Requests != 1 {
				t.Errorf("%v, took %+v", err, cost)
			}
		})
	}
	store.write(l.MetaKey(seg), []byte("no manifest"))
	var e *layout.Error
	if _, _, err := l.ReadFiles(t.Context(), seg); !errors.As(err, &e) {
		t.Errorf("an object that is no manifest: %v", err)
	}
}

func TestStart(t *testing.T) {
	store := newMemoryStore()
	l := newTestLayout(store, "p/")
	id := tier.PartitionID{Topic: segment.UUID{1}, Partition: 3}
	read := func(id tier.PartitionID) (*layout.Start, error) {
		start, _, err := l.ReadStart(t.Context(), rangeio.Object{Key: l.StartKey("topic", id)})
		return start, err
	}
	if start, err := read(id); !rangeio.IsKind(err, rangeio.NotFound) {
		t.Fatalf("before it was moved: %+v, %v", start, err)
	}
	for _, offset := range []int64{100, 0, 1 << 60} {
		if err := l.PutStart(t.Context(), &Start{ClusterID: "cluster", Topic: "topic", TopicID: id.Topic, Partition: 3, Offset: offset}); err != nil {
			t.Fatal(err)
		}
		if got, err := read(id); err != nil || *got != (layout.Start{ClusterID: "cluster", Offset: offset}) {
			t.Errorf("read %+v, %v after %d was written", got, err, offset)
		}
	}
	other := tier.PartitionID{Topic: segment.UUID{1}, Partition: 4}
	store.write(l.StartKey("topic", other), store.objects[l.StartKey("topic", id)])
	var e *layout.Error
	if _, err := read(other); !errors.As(err, &e) || !errors.Is(err, layout.ErrMisplaced) {
		t.Errorf("another partition's start: %v", err)
	}
	if key := l.StartKey("../topic", id); key != "" {
		t.Errorf("hostile topic: %q", key)
	}
	for _, bad := range []Start{
		{Topic: "../topic", TopicID: id.Topic}, {Topic: "topic", TopicID: id.Topic, Offset: -1},
		{Topic: "topic", TopicID: id.Topic, ClusterID: strings.Repeat("x", maxStart)},
	} {
		if err := l.PutStart(t.Context(), &bad); !errors.As(err, &e) {
			t.Errorf("start %.100v: %v", bad, err)
		}
	}
}

func FuzzDecodeStart(f *testing.F) {
	raw, err := EncodeStart(&Start{ClusterID: "cluster", Topic: "topic", TopicID: segment.UUID{1}, Partition: 3, Offset: 100})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add(append(slices.Clone(raw), 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := DecodeStart(raw)
		if err != nil {
			return
		}
		again, err := EncodeStart(s)
		if err != nil && len(raw) <= maxStart {
			t.Fatalf("read but not written: %v", err)
		}
		if back, err := DecodeStart(again); err != nil || *back != *s {
			t.Fatalf("%+v came back as %+v, %v", s, back, err)
		}
	})
}

func TestConcurrentFirstReads(t *testing.T) {
	seg, log, files := realSegment(t)
	store := newMemoryStore()
	l := newTestLayout(store, "")
	if err := l.Put(t.Context(), "cluster", seg, bytes.NewReader(log), sha(log), files); err != nil {
		t.Fatal(err)
	}
	// The second read learns another version than the first, which began before it and ended after it.
	overwritten := &raceStore{store: l.store, between: func() {
		l.versions.Learn(l.LogKey(seg), fmt.Sprintf("%q", "v0"))
	}}
	l.store = overwritten
	if _, err := l.ReadLog(t.Context(), seg, make([]byte, 1), 0); !rangeio.IsKind(err, rangeio.Changed) {
		t.Errorf("two versions side by side: %v", err)
	}
	if l.versions.Get(l.LogKey(seg)) != "" {
		t.Error("a version is remembered though nobody knows which is right")
	}
}

type raceStore struct {
	store
	between func()
}

func (s *raceStore) ReadRange(ctx context.Context, key string, dst []byte, off int64, etag string, size int64) (rangeio.Info, readcost.Cost, error) {
	info, cost, err := s.store.ReadRange(ctx, key, dst, off, etag, size)
	s.between()
	return info, cost, err
}
