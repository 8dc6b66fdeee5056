package native

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"hash/crc32"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coldtap/rangeio"
	"coldtap/segment"
)

var update = flag.Bool("update", false, "write the golden files anew; only for a new version of the format")

func realMeta(tb testing.TB) (*Manifest, *segment.Files, []byte) {
	tb.Helper()
	seg, log, files := realSegment(tb)
	m := newManifest("cluster", seg, sha(log))
	raw, err := EncodeMeta(m, files)
	if err != nil {
		tb.Fatal(err)
	}
	return m, files, raw
}

// TestFormatStaysReadable: buckets live longer than programs.
func TestFormatStaysReadable(t *testing.T) {
	m, files, raw := realMeta(t)
	start, err := EncodeStart(&Start{ClusterID: "cluster", Topic: "topic", TopicID: segment.UUID{1}, Partition: 3, Offset: 100})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{"testdata/segment.meta": raw, "testdata/start": start} {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the format is another one now", path)
		}
	}
	got, gotFiles, err := DecodeMeta(raw)
	if err != nil {
		t.Fatal(err)
	}
	if !sameFiles(gotFiles, files) {
		t.Errorf("files %+v, want %+v", gotFiles, files)
	}
	got.Files, got.Aborted, got.Decided, got.Dense = PackedFiles{}, nil, false, false
	if !reflect.DeepEqual(got, m) {
		t.Errorf("manifest %+v, want %+v", got, m)
	}
}

// An object that was written before the manifest told of gaps is as good as any other, and tells nothing of gaps.
func TestObjectsThatTellNothingOfGaps(t *testing.T) {
	raw, err := os.ReadFile("testdata/segment-before-dense.meta")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := realMeta(t)
	_, got, err := DecodeMeta(raw)
	if err != nil || got.Dense || !want.Dense {
		t.Fatalf("dense %v, %v", got.Dense, err)
	}
	if got.Dense = true; !sameFiles(got, want) {
		t.Errorf("files %+v, want %+v", got, want)
	}
}

func TestMissingAndEmptyFilesDiffer(t *testing.T) {
	seg, log, _ := realSegment(t)
	for _, files := range []*segment.Files{
		{},
		{OffsetIndex: []byte{}, TimeIndex: []byte{}, TxnIndex: []byte{}, Snapshot: []byte{}, LeaderEpochs: []byte{}},
		{OffsetIndex: []byte("12345678"), TxnIndex: []byte{}, LeaderEpochs: []byte("0\n0\n")},
	} {
		raw, err := EncodeMeta(newManifest("", seg, sha(log)), files)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := DecodeMeta(raw); err != nil || !sameFiles(got, files) {
			t.Errorf("%+v came back as %+v, %v", files, got, err)
		}
	}
}

// reframe puts a changed manifest under a right checksum, as a hostile writer would.
func reframe(t *testing.T, raw []byte, change func(map[string]any)) []byte {
	t.Helper()
	body, rest, err := splitFrame(raw, metaMagic)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	change(m)
	if body, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return append(appendFrame(nil, metaMagic, body), rest...)
}

func TestDamagedFilesAreLeftOut(t *testing.T) {
	_, files, raw := realMeta(t)
	m, _, err := DecodeMeta(raw)
	if err != nil {
		t.Fatal(err)
	}
	body, _, err := splitFrame(raw, metaMagic)
	if err != nil {
		t.Fatal(err)
	}
	packed := int64(frameHeader + len(body))
	flip := func(p *PackedFile) []byte {
		b := slices.Clone(raw)
		b[packed+p.Offset] ^= 1
		return b
	}
	without := func(change func(*segment.Files)) *segment.Files {
		f := *files
		change(&f)
		return &f
	}
	tests := []struct {
		name string
		raw  []byte
		want *segment.Files
	}{
		{"offset index", flip(m.Files.OffsetIndex), without(func(f *segment.Files) {
			f.OffsetIndex, f.IndexDamaged = nil, []string{"index"}
		})},
		{"time index", flip(m.Files.TimeIndex), without(func(f *segment.Files) {
			f.TimeIndex, f.IndexDamaged = nil, []string{"timeindex"}
		})},
		{"transaction index", flip(m.Files.TxnIndex), without(func(f *segment.Files) {
			f.TxnIndex, f.TxnDamaged = nil, true
		})},
		{"snapshot", flip(m.Files.Snapshot), without(func(f *segment.Files) {
			f.Snapshot, f.IndexDamaged = nil, []string{"snapshot"}
		})},
		{"cut off in the snapshot", raw[:packed+m.Files.Snapshot.Offset+1], without(func(f *segment.Files) {
			f.Snapshot, f.LeaderEpochs, f.IndexDamaged = nil, nil, []string{"snapshot", "leader-epoch-checkpoint"}
		})},
		{"cut off behind the manifest", raw[:packed], without(func(f *segment.Files) {
			f.OffsetIndex, f.TimeIndex, f.TxnIndex, f.Snapshot, f.LeaderEpochs = nil, nil, nil, nil, nil
			f.IndexDamaged, f.TxnDamaged = []string{"index", "timeindex", "snapshot", "leader-epoch-checkpoint"}, true
		})},
		{"bytes behind the end", append(slices.Clone(raw), "rest"...), files},
		{"aborted transactions out of order", reframe(t, raw, func(m map[string]any) {
			m["aborted"] = [][]int64{{1, 200, 210, 211}, {1, 180, 190, 191}}
		}), without(func(f *segment.Files) { f.Aborted, f.Decided, f.TxnDamaged = nil, false, true })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, got, err := DecodeMeta(tt.raw); err != nil || !sameFiles(got, tt.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestManifestThatCannotBeBelieved(t *testing.T) {
	_, _, raw := realMeta(t)
	set := func(at int, v byte) []byte {
		b := slices.Clone(raw)
		b[at] = v
		return b
	}
	long := slices.Clone(raw)
	binary.BigEndian.PutUint32(long[8:], 1<<32-1)
	tests := map[string][]byte{
		"empty":               {},
		"header cut off":      raw[:frameHeader-1],
		"manifest cut off":    raw[:frameHeader+100],
		"other magic":         set(0, 'X'),
		"later version":       set(5, 2),
		"reserved bytes":      set(7, 1),
		"length of 4 GiB":     long,
		"wrong checksum":      set(frameHeader+10, raw[frameHeader+10]^1),
		"no JSON":             appendFrame(nil, metaMagic, []byte("manifest")),
		"null":                appendFrame(nil, metaMagic, []byte("null")),
		"no bytes of JSON":    appendFrame(nil, metaMagic, nil),
		"larger than allowed": make([]byte, MaxMeta+1),
	}
	for name, change := range map[string]func(map[string]any){
		"climbing topic":       func(m map[string]any) { m["topic"] = "../x" },
		"id that is none":      func(m map[string]any) { m["segment_id"] = "short" },
		"zero id":              func(m map[string]any) { m["segment_id"] = strings.Repeat("A", 22) },
		"partition of 64 bits": func(m map[string]any) { m["partition"] = int64(1) << 40 },
		"negative base":        func(m map[string]any) { m["base_offset"] = -1 },
		"end before base":      func(m map[string]any) { m["end_offset"] = 0 },
		"negative log":         func(m map[string]any) { m["log"].(map[string]any)["size"] = -1 },
		"sum that is none":     func(m map[string]any) { m["log"].(map[string]any)["sha256"] = "abc" },
		"no epochs":            func(m map[string]any) { m["leader_epochs"] = [][]int64{} },
		"epochs missing":       func(m map[string]any) { delete(m, "leader_epochs") },
		"epochs out of order":  func(m map[string]any) { m["leader_epochs"] = [][]int64{{2, 0}, {1, 100}} },
		"epoch behind the end": func(m map[string]any) { m["leader_epochs"] = [][]int64{{2, 1000}} },
		"epoch of 64 bits":     func(m map[string]any) { m["leader_epochs"] = [][]int64{{1 << 40, 0}} },
		"row too short":        func(m map[string]any) { m["aborted"] = [][]int64{{1, 2, 3}} },
		"row too long":         func(m map[string]any) { m["aborted"] = [][]int64{{1, 2, 3, 4, 5}} },
		"rows that are none":   func(m map[string]any) { m["aborted"] = []any{nil, "x"} },
		"number too large":     func(m map[string]any) { m["aborted"] = [][]json.Number{{"1", "2", "3", "99999999999999999999"}} },
		"file beyond the object": func(m map[string]any) {
			m["files"].(map[string]any)["index"].(map[string]any)["size"] = int64(1<<63 - 1)
		},
		"negative file": func(m map[string]any) {
			m["files"].(map[string]any)["index"].(map[string]any)["size"] = -1
		},
		"files that overlap": func(m map[string]any) {
			m["files"].(map[string]any)["timeindex"].(map[string]any)["offset"] = 0
		},
	} {
		tests[name] = reframe(t, raw, change)
	}
	for name, raw := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := DecodeMeta(raw); err == nil {
				t.Error("it was believed")
			} else if len(err.Error()) > 500 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestManifestsAtTheEdge: what is just legal is read, what is just not is refused.
func TestManifestsAtTheEdge(t *testing.T) {
	_, _, raw := realMeta(t)
	offsets := func(base, end int64, epochs ...[]int64) func(map[string]any) {
		return func(m map[string]any) { m["base_offset"], m["end_offset"], m["leader_epochs"] = base, end, epochs }
	}
	aborted := func(rows ...[]int64) func(map[string]any) {
		return func(m map[string]any) { m["aborted"] = rows }
	}
	packed := func(index, timeindex int64) func(map[string]any) {
		return func(m map[string]any) {
			sum := strings.Repeat("0", 64)
			m["files"] = map[string]any{
				"index": PackedFile{0, FileSum{index, sum}}, "timeindex": PackedFile{index, FileSum{timeindex, sum}},
			}
		}
	}
	for name, tt := range map[string]struct {
		change         func(map[string]any)
		sound, decided bool
	}{
		"the first offset alone":                   {offsets(0, 0, []int64{0, 0}), true, true},
		"a segment that ends below its base":       {offsets(1, 0, []int64{0, 0}), false, false},
		"an epoch that starts at the end":          {offsets(174, 257, []int64{0, 257}), true, true},
		"an epoch that starts behind it":           {offsets(174, 257, []int64{0, 258}), false, false},
		"two epochs from one offset":               {offsets(174, 257, []int64{0, 174}, []int64{1, 174}), true, true},
		"one epoch twice":                          {offsets(174, 257, []int64{1, 174}, []int64{1, 200}), false, false},
		"a later epoch that starts below":          {offsets(174, 257, []int64{0, 200}, []int64{1, 199}), false, false},
		"an epoch above a gap in offsets":          {offsets(174, 257, []int64{0, 3}, []int64{1, 200}), true, true},
		"small files of the allowed size together": {packed(MaxMeta-10, 10), true, true},
		"one byte more":                            {packed(MaxMeta-10, 11), false, false},
		"small files that are too large together":  {packed(10, MaxMeta), false, false},
		"a log without bytes":                      {func(m map[string]any) { m["log"].(map[string]any)["size"] = 0 }, true, true},
		"an abort at offset 0":                     {aborted([]int64{1, 0, 1, 2}), true, true},
		"an abort of one offset":                   {aborted([]int64{1, 180, 180, 181}), true, true},
		"an abort that ends before it began":       {aborted([]int64{1, 180, 179, 181}), true, false},
		"an abort at a negative offset":            {aborted([]int64{1, -1, 180, 181}), true, false},
		"two aborts from one offset":               {aborted([]int64{1, 180, 190, 191}, []int64{2, 180, 185, 186}), true, true},
	} {
		m, files, err := DecodeMeta(reframe(t, raw, tt.change))
		if (err == nil) != tt.sound || err == nil && (files.Decided != tt.decided || files.TxnDamaged == tt.decided) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	for n, ok := range map[int]bool{MaxAborted: true, MaxAborted + 1: false} {
		if err := AbortedList(make([]segment.AbortedTxn, n)).check(); (err == nil) != ok {
			t.Errorf("%d aborted transactions: %v", n, err)
		}
	}
}

func TestLargestObject(t *testing.T) {
	if testing.Short() {
		t.Skip("several times 64 MiB")
	}
	seg, log, _ := realSegment(t)
	m, files := newManifest("cluster", seg, sha(log)), &segment.Files{Snapshot: make([]byte, MaxMeta-4096)}
	raw, err := EncodeMeta(m, files)
	if err != nil {
		t.Fatal(err)
	}
	files.Snapshot = append(files.Snapshot, make([]byte, MaxMeta-len(raw))...)
	if raw, err = EncodeMeta(m, files); err != nil || len(raw) != MaxMeta {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	if _, _, err := DecodeMeta(raw); err != nil {
		t.Error(err)
	}
	s := newMemoryStore()
	l := newTestLayout(s, "")
	s.write(l.MetaKey(seg), raw)
	if _, _, err := l.ReadManifest(t.Context(), rangeio.Object{Key: l.MetaKey(seg), Size: MaxMeta}); err != nil {
		t.Error(err)
	}
	files.Snapshot = append(files.Snapshot, 0)
	if _, err := EncodeMeta(m, files); err == nil {
		t.Error("one byte more was written")
	}
}

func TestListsAreBounded(t *testing.T) {
	count := func(list string, limit int) (n int, err error) {
		err = parseRows([]byte(list), 1, limit, func([]int64) error { n++; return nil })
		return n, err
	}
	if n, err := count("[[1],[2]]", 2); n != 2 || err != nil {
		t.Errorf("two rows of at most two: %d, %v", n, err)
	}
	if n, err := count("[[1],[2],[3]]", 2); n != 2 || err == nil {
		t.Errorf("three rows of at most two: %d, %v", n, err)
	}
	for _, list := range []string{"", "[", "[[1", "[[-", "[[1]", "[[1],]", "[[]]", "[[-]]", "[[1]]x", "[ [1]]", "[1]", "null", "{}", "[[1.5]]"} {
		if _, err := count(list, 2); err == nil {
			t.Errorf("%q was read", list)
		}
	}
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	seg, log, files := realSegment(t)
	tests := map[string]func(*Manifest, *segment.Files){
		"damaged transactions":  func(_ *Manifest, f *segment.Files) { f.TxnDamaged = true },
		"hostile topic":         func(m *Manifest, _ *segment.Files) { m.Topic = "a/b" },
		"no epoch":              func(m *Manifest, _ *segment.Files) { m.LeaderEpochs = nil },
		"no sum":                func(m *Manifest, _ *segment.Files) { m.Log.SHA256 = "" },
		"too many transactions": func(_ *Manifest, f *segment.Files) { f.Aborted = make([]segment.AbortedTxn, MaxAborted+1) },
		"unordered": func(_ *Manifest, f *segment.Files) {
			f.Aborted = []segment.AbortedTxn{{FirstOffset: 2, LastOffset: 3}, {FirstOffset: 1, LastOffset: 4}}
		},
		"too large": func(_ *Manifest, f *segment.Files) { f.Snapshot = make([]byte, MaxMeta) },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			m, f := newManifest("cluster", seg, sha(log)), *files
			spoil(m, &f)
			if _, err := EncodeMeta(m, &f); err == nil {
				t.Error("it was written")
			}
		})
	}
}

func FuzzDecodeMeta(f *testing.F) {
	raw, err := os.ReadFile("testdata/segment.meta")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-20])
	f.Add(appendFrame(nil, metaMagic, []byte(`{"aborted":[[1,2,3,4]],"leader_epochs":[[-1,0]]}`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		// Mutations rarely hit the checksum, so it is put right.
		if len(raw) >= frameHeader {
			if n := int64(binary.BigEndian.Uint32(raw[8:])); n <= int64(len(raw)-frameHeader) {
				raw = slices.Clone(raw)
				binary.BigEndian.PutUint32(raw[12:], crc32.Checksum(raw[frameHeader:frameHeader+n], castagnoli))
			}
		}
		m, files, err := DecodeMeta(raw)
		if err != nil || files.TxnDamaged || len(files.IndexDamaged) > 0 {
			return
		}
		again, err := EncodeMeta(m, files)
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		back, backFiles, err := DecodeMeta(again)
		if err != nil || !sameFiles(files, backFiles) || !reflect.DeepEqual(m, back) {
			t.Fatalf("%+v came back as %+v, %v", m, back, err)
		}
	})
}
