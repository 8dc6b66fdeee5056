package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coldtap/catalog/observe"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/segment"
	"coldtap/tier"
)

// sampleReplay is a state with all that the file has a place for: shadowed segments, deleted ones that count in an
// epoch's end, every live state, custom metadata, a segment whose topic was called otherwise, a topic without segments.
func sampleReplay(t testing.TB) *replayed {
	t.Helper()
	m := tier.New()
	apply := func(records ...Record) {
		for _, r := range records {
			if rejected := m.Apply(Changes(nil, r)...); len(rejected) > 0 {
				t.Fatal(rejected)
			}
		}
	}
	apply(finished(1, orders3, 0, 99)...)
	apply(finished(2, orders3, 0, 99)...)
	apply(finished(3, orders3, 50, 60)...)
	apply(finished(4, orders3, 100, 900)...)
	gone := started(4, orders3, 100, 900)
	apply(moved(gone, tier.DeleteStarted), moved(gone, tier.DeleteFinished))
	apply(finished(5, orders3, 100, 199)...)
	apply(moved(started(5, orders3, 100, 199), tier.DeleteStarted))
	apply(started(6, orders3, 200, 299))
	other := tier.PartitionID{Topic: segment.UUID{1}, Partition: 0}
	renamed := finished(7, other, 0, 9)
	renamed[0].(*Segment).Topic = "before"
	renamed[1].(*Update).Custom = []byte("custom")
	apply(renamed...)
	apply(&Segment{tier.Segment{ID: segmentID, Partition: other, Topic: "after", BaseOffset: 10, EndOffset: 19, EventTime: 99_999,
		Epochs: []segment.EpochStart{{Epoch: 1, StartOffset: 10}}, Custom: []byte{}, TxnIndexEmpty: true}})
	return &replayed{
		clusterID: "stand", topicID: segment.UUID{9}, positions: []int64{5, 0, 1 << 40}, epochs: []int32{0, -1, 1 << 30},
		topics: observe.Topics{
			ordersID:        {ID: ordersID, Name: "orders", At: 5000},
			other.Topic:     {ID: other.Topic, Name: "after", At: 99_999},
			segment.UUID{3}: {ID: segment.UUID{3}, Name: "nothing.left", At: 1},
		},
		view: m.Snapshot(),
	}
}

func written(t testing.TB, r *replayed) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeSnapshot(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSnapshotFileKeepsAll: positions, topics and segments come back as they were.
func TestSnapshotFileKeepsAll(t *testing.T) {
	want := sampleReplay(t)
	got, err := readSnapshot(bytes.NewReader(written(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if got.clusterID != want.clusterID || got.topicID != want.topicID || !slices.Equal(got.positions, want.positions) ||
		!slices.Equal(got.epochs, want.epochs) {
		t.Errorf("%+v", got.replayed)
	}
	for id, s := range want.topics {
		if got.topics[id] != s {
			t.Errorf("topic %+v, want %+v", got.topics[id], s)
		}
	}
	sameView(t, got.tier.Snapshot(), want.view)
	p, _ := got.tier.Snapshot().Partition(orders3)
	if s, _ := p.Segment(segment.UUID{0: 7, 15: 1}); len(p.Shadowed(s)) == 0 {
		t.Error("the sample shadows nothing")
	}
	// What comes later finds it as a replay would.
	later := finished(8, orders3, 300, 399)
	for _, r := range later {
		got.tier.Apply(Changes(nil, r)...)
	}
	if !isReadable(got.tier.Snapshot(), orders3, segment.UUID{0: 7, 15: 8}) {
		t.Error("nothing can be added")
	}
}

// TestDamagedSnapshotFiles: no byte of the file can be another one, none missing and none too many.
func TestDamagedSnapshotFiles(t *testing.T) {
	file := written(t, sampleReplay(t))
	refuse := func(what string, at int, b []byte) {
		t.Helper()
		if got, err := readSnapshot(bytes.NewReader(b)); err == nil || got != nil {
			t.Errorf("%s %d of %d bytes: taken", what, at, len(file))
		}
	}
	for i := range file {
		refuse("cut at", i, file[:i])
		b := slices.Clone(file)
		b[i] ^= 1
		refuse("flipped at", i, b)
		b[i] = ^b[i]
		refuse("changed at", i, b)
	}
	refuse("followed at", len(file), append(slices.Clone(file), 0))
	refuse("of zeros", 0, make([]byte, 4096))
}

// TestSnapshotFilesThatLie have a right checksum.
func TestSnapshotFilesThatLie(t *testing.T) {
	head := func(f *frames) {
		b := f.begin(frameHead)
		b = appendNullable(b, []byte("stand"))
		b = append(b, ordersID[:]...)
		f.end(append(b, 1)) // no positions
	}
	topic := func(f *frames) {
		b := append(f.begin(frameTopic), ordersID[:]...)
		f.end(appendNullable(binary.BigEndian.AppendUint64(b, 5), []byte("orders")))
	}
	partition := func(f *frames) {
		b := append(f.begin(framePartition), ordersID[:]...)
		f.end(append(binary.BigEndian.AppendUint32(b, 3), 1))
	}
	seg := ordersSegment()
	for name, c := range map[string]struct {
		wrong string
		write func(*frames)
	}{
		"no head":   {"head", func(f *frames) { topic(f) }},
		"two heads": {"second head", func(f *frames) { head(f); head(f) }},
		"negative position": {"position -1", func(f *frames) {
			b := append(f.begin(frameHead), 1)
			b = append(b, ordersID[:]...)
			b = append(b, 2)
			f.end(append(b, bytes.Repeat([]byte{255}, 8+4)...))
		}},
		"impossible epoch": {"leader epoch -2", func(f *frames) {
			b := append(f.begin(frameHead), 1)
			b = append(b, ordersID[:]...)
			b = append(b, 2)
			f.end(binary.BigEndian.AppendUint32(append(b, make([]byte, 8)...), 1<<32-2))
		}},
		"a million positions": {"elements", func(f *frames) {
			b := append(f.begin(frameHead), 1)
			b = append(b, ordersID[:]...)
			f.end(binary.AppendUvarint(b, 1_000_001))
		}},
		"partition of no topic":   {"no topic", func(f *frames) { head(f); partition(f) }},
		"segment of no partition": {"no partition", func(f *frames) { head(f); topic(f); f.segment(&seg, "orders", nil) }},
		"impossible segment": {"malformed", func(f *frames) {
			head(f)
			topic(f)
			partition(f)
			bad := seg
			bad.EndOffset = 3
			f.segment(&bad, "orders", nil)
			f.end(binary.BigEndian.AppendUint64(f.begin(frameEnd), 1))
		}},
		"topic out of its folder": {"no topic name", func(f *frames) {
			head(f)
			b := append(f.begin(frameTopic), ordersID[:]...)
			f.end(appendNullable(binary.BigEndian.AppendUint64(b, 5), []byte("../x")))
		}},
		"unknown frame":      {"kind 9", func(f *frames) { head(f); f.end(f.begin(9)) }},
		"empty frame":        {"bytes are wanted", func(f *frames) { head(f); f.end(nil) }},
		"huge frame":         {"a frame of", func(f *frames) { head(f); f.raw(binary.AppendUvarint(nil, 1<<40)) }},
		"frame beyond":       {"EOF", func(f *frames) { head(f); f.raw(binary.AppendUvarint(nil, frameLimit)) }},
		"longer than said":   {"left over", func(f *frames) { head(f); f.end(append(binary.BigEndian.AppendUint64(f.begin(frameEnd), 0), 1)) }},
		"fewer than it says": {"segments", func(f *frames) { head(f); f.end(binary.BigEndian.AppendUint64(f.begin(frameEnd), 1)) }},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			f := &frames{out: &b}
			f.raw([]byte(snapshotMagic))
			c.write(f)
			file := binary.BigEndian.AppendUint32(b.Bytes(), crc32.Checksum(b.Bytes(), castagnoli))
			if _, err := readSnapshot(bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, want something of %q", err, c.wrong)
			}
		})
	}
}

// TestSnapshotFileIsReplacedAtOnce, and what was begun goes when it fails.
func TestSnapshotFileIsReplacedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "metadata")
	if _, err := loadSnapshot(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := saveSnapshot(path, sampleReplay(t)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := loadSnapshot(path); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := saveSnapshot(blocked, sampleReplay(t)); err == nil {
		t.Error("a folder was replaced")
	}
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(blocked)} {
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("%v are left", files)
		}
	}
}

// TestLeftoversOfCrashesGo, and nothing else does.
func TestLeftoversOfCrashesGo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "meta[a]")
	kept := []string{"123.tmp", "meta[a]", "meta[a].0.tmp.1", "meta[a].1x.tmp", "metaa.1.tmp"}
	for _, name := range append(slices.Clone(kept), "meta[a].0.tmp", "meta[a].4711.tmp") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newHarness(t, 1)
	f := s.open(t, Options{Snapshot: path})
	ready(t, f)
	var left []string
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		left = append(left, file.Name())
	}
	if !slices.Equal(left, kept) {
		t.Errorf("%q are left, want %q", left, kept)
	}
	if err := removeStale(filepath.Join(dir, "no", "such")); err != nil {
		t.Error(err)
	}
}

// FuzzReadSnapshot: no file makes it panic, and what it takes is written as a file that it takes again.
func FuzzReadSnapshot(f *testing.F) {
	f.Add(written(f, sampleReplay(f)))
	f.Add([]byte(snapshotMagic))
	m := tier.New()
	for _, r := range clusterfixture.Load(f).Metadata[:40] {
		if record, err := Decode(r.Value); err == nil {
			m.Apply(Changes(nil, record)...)
		}
	}
	real := &replayed{clusterID: "x", positions: make([]int64, 50), epochs: make([]int32, 50), topics: observe.Topics{}, view: m.Snapshot()}
	for p := range real.view.Partitions() {
		topic, _ := real.view.TopicByID(p.ID().Topic)
		real.topics[topic.ID] = observe.Topic{ID: topic.ID, Name: topic.Name, At: 1}
	}
	f.Add(written(f, real))
	f.Fuzz(func(t *testing.T, file []byte) {
		// The checksum is set right, else nothing behind it is ever reached.
		if n := len(file) - crc32.Size; n >= 0 {
			file = binary.BigEndian.AppendUint32(slices.Clone(file[:n]), crc32.Checksum(file[:n], castagnoli))
		}
		r, err := readSnapshot(bytes.NewReader(file))
		if err != nil {
			return
		}
		again, err := readSnapshot(bytes.NewReader(written(t, &r.replayed)))
		if err != nil {
			t.Fatal(err)
		}
		sameView(t, again.view, r.view)
	})
}
