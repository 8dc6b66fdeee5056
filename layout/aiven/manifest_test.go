package aiven

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"coldtap/tier"
)

func TestManifestGivesTheSegment(t *testing.T) {
	log, files := testLog(250_000), testFiles()
	seg := testSegment(len(log))
	for name, w := range writers(100_000) {
		stored, _, j := w.objects(seg, log, files)
		m, err := ParseManifest(toJSON(j))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(m.Segment, seg) {
			t.Errorf("%s: %+v, want %+v", name, m.Segment, seg)
		}
		if m.LogSize != seg.Size || m.StoredSize != int64(len(stored)) || m.ChunkSize != 100_000 || m.Chunks != 3 ||
			m.Compressed != w.compressed || m.Encrypted != (w.keyID != "") || m.KeyID != w.keyID {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// A manifest as the plugin's own tests have it, with a transaction index and without.
func TestManifestText(t *testing.T) {
	const text = `{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":100,"originalFileSize":1000,` +
		`"transformedChunkSize":100,"finalTransformedChunkSize":100},"segmentIndexes":{"offset":{"position":0,"size":1},` +
		`"timestamp":{"position":1,"size":1},"producerSnapshot":{"position":2,"size":1},"leaderEpoch":{"position":3,"size":1},` +
		`"transaction":TXN},"compression":false,"remoteLogSegmentMetadata":{"remoteLogSegmentId":{"topicIdPartition":` +
		`{"topicId":"lZ6vvmajTWKDBUTV6SQAtQ","topicPartition":{"topic":"topic1","partition":42}},"id":"adh9f8BMS4anaUnD8KWfWg"},` +
		`"startOffset":100,"endOffset":999,"maxTimestampMs":5,"brokerId":1,"eventTimestampMs":6,` +
		`"segmentLeaderEpochs":{"10":300,"2":200,"0":100},"someThingNew":{"a":[1]}}}`
	for txn, empty := range map[string]bool{`{"position":4,"size":1}`: false, `{"position":4,"size":0}`: true, `null`: true} {
		m, err := ParseManifest([]byte(strings.Replace(text, "TXN", txn, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if m.Segment.TxnIndexEmpty != empty || m.Segment.Partition.Partition != 42 || m.Segment.State != tier.CopyFinished {
			t.Errorf("%s: %+v", txn, m.Segment)
		}
		if e := m.Segment.Epochs; len(e) != 3 || e[1].Epoch != 2 || e[1].StartOffset != 200 || e[2].Epoch != 10 {
			t.Errorf("leader epochs %v are not in numeric order", e)
		}
	}
	if _, err := ParseManifest([]byte(strings.Replace(text, `"transaction":TXN`, `"x":1`, 1))); err != nil {
		t.Errorf("no transaction field: %v", err)
	}
}

// change sets a field of a JSON object by its path; drop deletes it.
func change(t *testing.T, m object, path string, value any) []byte {
	t.Helper()
	var again object
	if err := json.Unmarshal(toJSON(m), &again); err != nil {
		t.Fatal(err)
	}
	at := again
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		next, ok := at[name].(object)
		if !ok {
			t.Fatalf("no %s in %s", name, path)
		}
		at = next
	}
	last := names[len(names)-1]
	if value == drop {
		delete(at, last)
	} else {
		at[last] = value
	}
	return toJSON(again)
}

var drop = new(int)

func TestImpossibleManifests(t *testing.T) {
	log := testLog(250_000)
	seg := testSegment(len(log))
	w := &writer{chunk: 100_000, compressed: true, keyID: "k1", key: testKey()}
	_, _, sealed := w.objects(seg, log, testFiles())
	_, _, plain := (&writer{chunk: 100_000}).objects(seg, log, testFiles())
	const meta = "remoteLogSegmentMetadata."
	for _, tt := range []struct {
		m     object
		path  string
		value any
	}{
		{sealed, "version", drop}, {sealed, "version", 1}, {sealed, "version", ""},
		{sealed, "chunkIndex", drop}, {sealed, "chunkIndex", nil}, {sealed, "chunkIndex.type", "other"},
		{sealed, "chunkIndex.originalFileSize", drop}, {sealed, "chunkIndex.originalFileSize", -1},
		{sealed, "chunkIndex.originalFileSize", 1 << 40}, {sealed, "chunkIndex.originalFileSize", 1.5},
		{sealed, "chunkIndex.originalChunkSize", 0}, {sealed, "chunkIndex.originalChunkSize", 1},
		{sealed, "chunkIndex.originalChunkSize", 300_000}, {sealed, "chunkIndex.transformedChunks", drop},
		{sealed, "compression", false}, {sealed, "compression", drop}, {plain, "compression", true},
		{plain, "encryption", object{"dataKey": "k1:AAAA", "aad": ""}}, // then each chunk had 28 bytes more
		{sealed, "encryption.dataKey", ":AAAA"}, {sealed, "encryption.dataKey", " :AAAA"},
		{sealed, "encryption.dataKey", "k1:k2:AAAA"}, {sealed, "encryption.dataKey", "k1:?"},
		{sealed, "encryption.dataKey", "k1:" + strings.Repeat("A", 4000)}, {sealed, "encryption.aad", "?"},
		{sealed, "encryption.aad", strings.Repeat("A", 4000)},
		{plain, "segmentIndexes.offset", drop}, {plain, "segmentIndexes.leaderEpoch", nil},
		{plain, "segmentIndexes.offset.size", drop}, {plain, "segmentIndexes.offset.position", 1},
		{plain, "segmentIndexes.offset.size", -1}, {plain, "segmentIndexes.offset.size", 81},
		{plain, "segmentIndexes.transaction.size", MaxIndexes}, {sealed, "segmentIndexes.transaction.size", sealSize},
		{plain, meta + "startOffset", -1}, {plain, meta + "startOffset", drop}, {plain, meta + "endOffset", 1},
		{plain, meta + "endOffset", json.Number("9223372036854775807")}, {plain, meta + "segmentLeaderEpochs", object{}},
		{plain, meta + "segmentLeaderEpochs", object{"x": 1234}}, {plain, meta + "segmentLeaderEpochs", object{"-1": 1234}},
		{plain, meta + "segmentLeaderEpochs", object{"4294967296": 1234}}, {plain, meta + "segmentLeaderEpochs", object{"0": -1}},
		{plain, meta + "segmentLeaderEpochs", object{"0": 2000, "1": 1234}}, {plain, meta + "remoteLogSegmentId.id", "short"},
		{plain, meta + "remoteLogSegmentId.id", "AAAAAAAAAAAAAAAAAAAAAA"}, {plain, meta + "remoteLogSegmentId", drop},
		{plain, meta + "remoteLogSegmentId.topicIdPartition.topicPartition.topic", "../up"},
		{plain, meta + "remoteLogSegmentId.topicIdPartition.topicPartition.partition", -1},
		{plain, meta + "remoteLogSegmentId.topicIdPartition.topicPartition.partition", drop},
	} {
		if m, err := ParseManifest(change(t, tt.m, tt.path, tt.value)); err == nil || m != nil {
			t.Errorf("%s = %v was accepted: %+v", tt.path, tt.value, m)
		}
	}
	for name, raw := range map[string][]byte{
		"empty": nil, "not JSON": []byte("<Error/>"), "list": []byte("[]"), "behind": append(toJSON(plain), '{'),
		"cut": toJSON(plain)[:300], "too long": bytes.Repeat([]byte(" "), MaxManifest+1),
	} {
		if _, err := ParseManifest(raw); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestUnknownVersion(t *testing.T) {
	_, err := ParseManifest([]byte(`{"version":"2","chunkIndex":[],"compression":"lz4"}`))
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), `"2"`) {
		t.Errorf("%v does not name the version", err)
	}
}

// Fields that were added or are optional at some time must not matter.
func TestLenientManifest(t *testing.T) {
	_, _, m := (&writer{chunk: 100_000}).objects(testSegment(1000), testLog(1000), testFiles())
	for path, value := range map[string]any{
		"new": object{"a": 1}, "chunkIndex.new": "x", "segmentIndexes.offset.new": 1, "segmentIndexes.new": object{"position": 1},
		"remoteLogSegmentMetadata.txnIdxEmpty": drop, "remoteLogSegmentMetadata.new": []int{1}, "encryption": nil,
	} {
		if got, err := ParseManifest(change(t, m, path, value)); err != nil || got.Segment == nil {
			t.Errorf("%s = %v: %v", path, value, err)
		}
	}
	old, err := ParseManifest(change(t, m, "remoteLogSegmentMetadata", drop))
	if err != nil || old.Segment != nil || old.LogSize != 1000 {
		t.Errorf("a manifest without metadata: %+v, %v", old, err)
	}
}

func FuzzManifest(f *testing.F) {
	log := testLog(3000)
	for _, w := range []*writer{{}, {compressed: true}, {keyID: "k1"}, {compressed: true, keyID: "k1"}} {
		w.chunk = 1000
		_, _, m := w.objects(testSegment(len(log)), log, testFiles())
		f.Add(toJSON(m))
	}
	f.Add([]byte(`{"version":"1"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ParseManifest(raw)
		if err != nil {
			return
		}
		var end int64
		for i := range m.Chunks {
			from, to := m.chunks.span(i, i)
			if from != end || to <= from {
				t.Fatalf("chunk %d from %d to %d", i, from, to)
			}
			end = to
		}
		if end != m.StoredSize || m.indexSize() < 0 || m.indexSize() > MaxIndexes {
			t.Fatalf("%d stored bytes, %d of files", m.StoredSize, m.indexSize())
		}
		if seg := m.Segment; seg != nil {
			if err := seg.Validate(); err != nil {
				t.Fatal(err)
			}
			if err := m.describes(seg); err != nil {
				t.Fatal(err)
			}
			if k, err := ParseKey(mainPath(seg)+SuffixLog, ""); err != nil || k.SegmentID != seg.ID {
				t.Fatalf("its key is %+v, %v", k, err)
			}
		}
	})
}
