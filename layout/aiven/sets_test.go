package aiven

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"coldtap/segment"
)

// sets.zip holds segments that the plugin (v1.0.0, in a Kafka 4.3.1 broker) wrote with each of its settings, throw-away
// keys, and for each segment a digest of the records that Kafka's own consumer read from it.
//
//go:embed testdata/sets.zip
var setsZip []byte

type expectedRecords struct {
	Records int    `json:"records"`
	From    int64  `json:"from"` // the log start may lie inside the segment
	SHA256  string `json:"sha256"`
}

func openSets(tb testing.TB) fs.FS {
	tb.Helper()
	z, err := zip.NewReader(bytes.NewReader(setsZip), int64(len(setsZip)))
	if err != nil {
		tb.Fatal(err)
	}
	return z
}

func readFile(tb testing.TB, fsys fs.FS, name string) []byte {
	tb.Helper()
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// loadSet puts the objects of a set into a store.
func loadSet(tb testing.TB, fsys fs.FS, set, prefix string, o Options) *stand {
	tb.Helper()
	keys, err := fs.Glob(fsys, set+"/keys/*.private.pem")
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range keys {
		id, _, _ := strings.Cut(path.Base(name), ".")
		o.Keys = append(o.Keys, PrivateKey{ID: id, PEM: readFile(tb, fsys, name)})
	}
	o.Prefixes = []string{prefix}
	s := newStand(tb, o)
	err = fs.WalkDir(fsys, set+"/objects", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			s.Set(strings.TrimPrefix(name, set+"/objects/"), readFile(tb, fsys, name))
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// checkSegmentFromBucket reads a segment as an archive's reader would, from a key of the listing, and gives its log.
func (s *stand) checkSegmentFromBucket(t *testing.T, key, prefix string, pieceMax int64) (*Manifest, []byte) {
	t.Helper()
	k, err := ParseKey(key, prefix)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest(s.Bytes(key))
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	seg := m.Segment
	if seg.Topic != k.Topic || seg.Partition.Topic != k.TopicID || seg.Partition.Partition != k.Partition ||
		seg.BaseOffset != k.BaseOffset || seg.ID != k.SegmentID {
		t.Fatalf("key %+v, manifest %+v", k, seg)
	}
	files, _, err := s.ReadFiles(t.Context(), seg)
	if err != nil || files.TxnDamaged || len(files.IndexDamaged) > 0 || files.Decided {
		t.Fatalf("%s: files %+v, %v", key, files, err)
	}
	if _, err := segment.ParseOffsetIndex(files.OffsetIndex, seg.BaseOffset, seg.Size); err != nil {
		t.Errorf("%s: %v", key, err)
	}
	if _, err := segment.ParseTimeIndex(files.TimeIndex, seg.BaseOffset); err != nil {
		t.Errorf("%s: %v", key, err)
	}
	if _, err := segment.ParseTxnIndex(files.TxnIndex, seg.BaseOffset); err != nil {
		t.Errorf("%s: %v", key, err)
	}
	if lineage, err := segment.ParseEpochCheckpoint(files.LeaderEpochs); err != nil || len(lineage) == 0 {
		t.Errorf("%s: lineage %v, %v", key, lineage, err)
	}
	if (files.TxnIndex == nil) != seg.TxnIndexEmpty {
		t.Errorf("%s: transaction index of %d bytes, empty %t", key, len(files.TxnIndex), seg.TxnIndexEmpty)
	}
	log := make([]byte, seg.Size)
	for off, piece := int64(0), s.ChunkSize(seg, pieceMax); off < seg.Size; off += piece {
		if _, err := s.ReadLog(t.Context(), seg, log[off:min(off+piece, seg.Size)], off); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	return m, log
}

// digestLog checks every batch of a log, and digests its data records from an offset on.
func digestLog(t *testing.T, m *Manifest, log []byte, from int64) expectedRecords {
	t.Helper()
	got, sum := expectedRecords{From: from}, sha256.New()
	d := segment.NewDecoder(16<<20, nil)
	defer d.Close()
	next := m.Segment.BaseOffset
	number := func(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(int32(n))) }
	field := func(b, v []byte) []byte {
		if v == nil {
			return number(b, -1)
		}
		return append(number(b, len(v)), v...)
	}
	for batch, err := range segment.Batches(log) {
		if err != nil {
			t.Fatal(err)
		}
		if err := segment.VerifyCRC(&batch.Header, batch.Bytes); err != nil {
			t.Fatal(err)
		}
		if batch.Header.BaseOffset != next {
			t.Fatalf("batch at offset %d follows %d", batch.Header.BaseOffset, next-1)
		}
		next = batch.Header.LastOffset() + 1
		if batch.Header.IsControl() {
			continue
		}
		if err := d.Open(batch.Bytes); err != nil {
			t.Fatal(err)
		}
		var r segment.Record
		for {
			more, err := d.Next(&r)
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
			if r.Offset < from {
				continue
			}
			b := binary.BigEndian.AppendUint64(nil, uint64(r.Offset))
			b = binary.BigEndian.AppendUint64(b, uint64(r.Timestamp))
			b = number(append(b, byte(r.TimestampType)), int(r.LeaderEpoch))
			b = field(b, r.Key)
			var value []byte
			if r.Value != nil {
				digest := sha256.Sum256(r.Value)
				value = digest[:]
			}
			b = number(field(b, value), len(r.Headers))
			for _, h := range r.Headers {
				b = field(field(b, h.Key), h.Value)
			}
			sum.Write(b)
			got.Records++
		}
	}
	if next != m.Segment.EndOffset+1 {
		t.Errorf("the log ends before offset %d, the metadata says %d", next, m.Segment.EndOffset)
	}
	got.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return got
}

var realSets = []struct{ name, prefix string }{{"plain", ""}, {"compressed", ""}, {"encrypted", ""}, {"meta", "ts/pre-"}}

func TestSegmentsOfThePlugin(t *testing.T) {
	sets := openSets(t)
	var expected map[string]expectedRecords
	if err := json.Unmarshal(readFile(t, sets, "expected.json"), &expected); err != nil {
		t.Fatal(err)
	}
	for _, set := range realSets {
		for _, pieceMax := range []int64{4 << 20, 40_000, 10_000} {
			s := loadSet(t, sets, set.name, set.prefix, Options{})
			for _, key := range s.Keys() {
				stem, ok := strings.CutSuffix(key, SuffixManifest)
				if !ok {
					continue
				}
				m, log := s.checkSegmentFromBucket(t, key, set.prefix, pieceMax)
				want := expected[set.name+"/"+path.Base(stem)]
				if got := digestLog(t, m, log, want.From); got != want {
					t.Errorf("%s in pieces of %d: records %+v, Kafka's consumer had %+v", key, pieceMax, got, want)
				}
			}
		}
	}
}
