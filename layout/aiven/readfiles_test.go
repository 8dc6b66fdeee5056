package aiven

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/faultstore"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

func TestSmallFiles(t *testing.T) {
	full, noTxn, empty := testFiles(), testFiles(), testFiles()
	noTxn.TxnIndex = nil
	empty.OffsetIndex, empty.TxnIndex = []byte{}, []byte{}
	nothing := &segment.Files{OffsetIndex: []byte{}, TimeIndex: []byte{}, Snapshot: []byte{}, LeaderEpochs: []byte{}}
	for name, w := range writers(1000) {
		for i, want := range []*segment.Files{full, noTxn, empty, nothing} {
			s := newStand(t, Options{})
			seg := testSegment(5000)
			w.put(s.Memory, seg, testLog(5000), want)
			got, cost, err := s.ReadFiles(t.Context(), seg)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s %d: %+v, %v", name, i, got, err)
			}
			requests := 2
			if want == nothing {
				requests = 1 // there is no .indexes object
			}
			if cost.Requests != requests || s.gets("") != requests {
				t.Errorf("%s %d: %d requests", name, i, cost.Requests)
			}
			if _, cost, err = s.ReadFiles(t.Context(), seg); err != nil || cost.Requests != requests-1 {
				t.Errorf("%s %d: again: %d requests, %v", name, i, cost.Requests, err)
			}
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	all := []string{"index", "timeindex", "snapshot", "leader-epoch-checkpoint"}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	for name, tt := range map[string]struct {
		sealed  bool
		change  func([]byte) []byte
		damaged []string
		txn     bool
	}{
		"sealed, first file":   {true, flip(30), all[:1], false},
		"sealed, txn index":    {true, func(b []byte) []byte { return flip(len(b) - 1)(b) }, nil, true},
		"sealed, cut":          {true, cut(1), nil, true},
		"sealed, bytes behind": {true, func(b []byte) []byte { return append(b, 0) }, nil, false},
		"sealed, nearly empty": {true, func(b []byte) []byte { return b[:5] }, all, true},
		"plain, cut":           {false, cut(1), all, true},
		"plain, bytes behind":  {false, func(b []byte) []byte { return append(b, 0) }, all, true},
		"gone":                 {false, nil, all, true},
		"sealed and gone":      {true, nil, all, true},
	} {
		w := &writer{chunk: 1000}
		if tt.sealed {
			w.keyID, w.key = "k1", testKey()
		}
		s := newStand(t, Options{})
		seg := s.putSegment(w, testLog(5000))
		key := mainPath(seg) + SuffixIndexes
		if tt.change == nil {
			if err := s.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		} else {
			s.Set(key, tt.change(s.Bytes(key)))
		}
		got, _, err := s.ReadFiles(t.Context(), seg)
		if err != nil || !slices.Equal(got.IndexDamaged, tt.damaged) || got.TxnDamaged != tt.txn {
			t.Errorf("%s: damaged %q, transactions %t, %v", name, got.IndexDamaged, got.TxnDamaged, err)
			continue
		}
		if tt.txn != (got.TxnIndex == nil) || slices.Contains(tt.damaged, "index") != (got.OffsetIndex == nil) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A missing object of a segment that has no transaction index hides nothing from read_committed.
func TestIndexesGoneWithoutTransactions(t *testing.T) {
	s := newStand(t, Options{})
	seg, files := testSegment(5000), testFiles()
	files.TxnIndex = nil
	(&writer{chunk: 1000}).put(s.Memory, seg, testLog(5000), files)
	if err := s.Delete(t.Context(), mainPath(seg)+SuffixIndexes); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.ReadFiles(t.Context(), seg)
	if err != nil || got.TxnDamaged || len(got.IndexDamaged) != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// With one it is missing, which is another thing than damage, and named.
func TestIndexesGoneWithTransactions(t *testing.T) {
	s := newStand(t, Options{})
	seg := testSegment(5000)
	(&writer{chunk: 1000}).put(s.Memory, seg, testLog(5000), testFiles())
	key := mainPath(seg) + SuffixIndexes
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.ReadFiles(t.Context(), seg)
	if err != nil || !got.TxnDamaged || !strings.HasSuffix(got.TxnMissing, key) {
		t.Errorf("%+v, %v", got, err)
	}
}

// "Cannot ask" is never taken for "has none".
func TestIndexesOutOfReach(t *testing.T) {
	for _, kind := range []rangeio.Kind{rangeio.Forbidden, rangeio.Throttled, rangeio.Unavailable, rangeio.NoBucket} {
		s := newStand(t, Options{})
		seg := s.putSegment(&writer{chunk: 1000}, testLog(5000))
		s.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(SuffixIndexes), Fault: faultstore.Fault{Kind: kind}})
		if files, _, err := s.ReadFiles(t.Context(), seg); !rangeio.IsKind(err, kind) || files != nil {
			t.Errorf("%v: %+v, %v", kind, files, err)
		}
	}
}

func TestSeparateFiles(t *testing.T) {
	for name, w := range writers(1000) {
		s := newStand(t, Options{})
		seg, files := testSegment(5000), testFiles()
		stored, indexes, m := w.objects(seg, testLog(5000), files)
		parsed, err := ParseManifest(toJSON(m))
		if err != nil {
			t.Fatal(err)
		}
		delete(m, "segmentIndexes")
		stem := mainPath(seg)
		s.Set(stem+SuffixLog, stored)
		s.Set(stem+SuffixManifest, toJSON(m))
		for i, p := range parsed.files {
			s.Set(stem+separateSuffixes[i], indexes[p.position:p.position+p.size])
		}
		if got, cost, err := s.ReadFiles(t.Context(), seg); err != nil || !reflect.DeepEqual(got, files) || cost.Requests != 6 {
			t.Errorf("%s: %+v, %+v, %v", name, got, cost, err)
		}
		for _, suffix := range []string{".txnindex", ".snapshot"} {
			if err := s.Delete(t.Context(), stem+suffix); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := s.ReadFiles(t.Context(), seg)
		if err != nil || got.TxnDamaged || got.TxnIndex != nil || !slices.Equal(got.IndexDamaged, []string{"snapshot"}) {
			t.Errorf("%s, two gone: %+v, %v", name, got, err)
		}
	}
}

// A manifest of another segment at this one's key must not be believed.
func TestManifestOfAnotherSegment(t *testing.T) {
	log := testLog(5000)
	w := &writer{chunk: 1000}
	seg := testSegment(len(log))
	stored, _, good := w.objects(seg, log, testFiles())
	const meta, id = "remoteLogSegmentMetadata.", "remoteLogSegmentMetadata.remoteLogSegmentId."
	for path, value := range map[string]any{
		id + "id": "adh9f8BMS4anaUnD8KWfWg", id + "topicIdPartition.topicId": "lZ6vvmajTWKDBUTV6SQAtQ",
		id + "topicIdPartition.topicPartition.partition": 8, meta + "startOffset": 1230, meta + "endOffset": 3000,
		"chunkIndex": object{"type": "fixed", "originalChunkSize": 1000, "originalFileSize": 4000, "transformedChunkSize": 1000,
			"finalTransformedChunkSize": 1000},
	} {
		s := newStand(t, Options{})
		s.Set(mainPath(seg)+SuffixLog, stored)
		s.Set(mainPath(seg)+SuffixManifest, change(t, good, path, value))
		_, err1 := s.ReadLog(t.Context(), seg, make([]byte, 10), 0)
		_, _, err2 := s.ReadFiles(t.Context(), seg)
		if !isContentError(err1) || !isContentError(err2) || !strings.HasPrefix(err1.Error(), mainPath(seg)+SuffixManifest) {
			t.Errorf("%s: %v, %v", path, err1, err2)
		}
	}
}

// Errors of the content say what to do; after the manifest is repaired the next read works, without a restart.
func TestManifestErrors(t *testing.T) {
	log := testLog(5000)
	w := &writer{chunk: 1000, keyID: "k9", key: testKey()}
	s := newStand(t, Options{})
	seg := s.putSegment(w, log)
	key := mainPath(seg) + SuffixManifest
	var m object
	if err := json.Unmarshal(s.Bytes(key), &m); err != nil {
		t.Fatal(err)
	}
	broken := map[string][]byte{
		`key id "k9"`:                       toJSON(m),
		`unsupported manifest version: "7"`: change(t, m, "version", "7"),
		"unexpected end":                    s.Bytes(key)[:100],
	}
	w.keyID = "k1"
	rewrapped := change(t, m, "encryption.dataKey", w.wrap())
	for says, raw := range broken {
		s.Set(key, raw)
		_, cost, err := s.ReadFiles(t.Context(), seg)
		if e, ok := err.(*layout.Error); !ok || e.Object != key || !strings.Contains(err.Error(), says) || cost.Requests != 1 {
			t.Errorf("%v, want %q", err, says)
		}
		if _, err := s.ReadLog(t.Context(), seg, make([]byte, 10), 0); !isContentError(err) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	s.Set(key, rewrapped)
	mustRead(t, s, seg, log, 0, 5000)
}

// After key.prefix changed, old segments are found where their metadata says, or under the prefixes of old.
func TestChangedPrefix(t *testing.T) {
	log := testLog(5000)
	old := "old/"
	for name, tt := range map[string]struct {
		custom   []byte
		prefixes []string
		requests int
	}{
		"recorded":        {customOf(10, &old, nil), []string{"new/"}, 3},
		"configured":      {nil, []string{"new/", "older/", "old/"}, 5},
		"record is wrong": {customOf(10, &[]string{"nowhere/"}[0], nil), []string{"old/"}, 4},
	} {
		s := newStand(t, Options{Prefixes: tt.prefixes})
		w := &writer{chunk: 1000, compressed: true, prefix: old}
		seg := s.putSegment(w, log)
		seg.Custom = tt.custom
		mustRead(t, s, seg, log, 0, 5000)
		if got, _, err := s.ReadFiles(t.Context(), seg); err != nil || !bytes.Equal(got.OffsetIndex, testFiles().OffsetIndex) {
			t.Errorf("%s: %v", name, err)
		}
		if n := s.gets(""); n != tt.requests {
			t.Errorf("%s: %d requests, want %d: %v", name, n, tt.requests, s.faults.Calls())
		}
	}
	// An operator moved the manifests to where the plugin looks for them, and nothing else.
	s := newStand(t, Options{Prefixes: []string{"new/", "old/"}})
	seg := s.putSegment(&writer{chunk: 1000, prefix: old}, log)
	s.Set("new/"+mainPath(seg)+SuffixManifest, s.Bytes(old+mainPath(seg)+SuffixManifest))
	if err := s.Delete(t.Context(), old+mainPath(seg)+SuffixManifest); err != nil {
		t.Fatal(err)
	}
	mustRead(t, s, seg, log, 0, 5000)
	s.faults.Reset()
	mustRead(t, s, seg, log, 10, 20)
	if n := s.gets(""); n != 1 {
		t.Errorf("%d requests after the log was found", n)
	}
}

// TestPrefixesAreRemembered: each segment is searched for once, and the next one first where the last one was.
func TestPrefixesAreRemembered(t *testing.T) {
	log := testLog(5000)
	s := newStand(t, Options{Prefixes: []string{"new/", "old/"}, ManifestMemory: 1}) // no manifest is kept
	var segments [3]*tier.Segment
	for i, prefix := range []string{"old/", "old/", "new/"} {
		seg := testSegment(len(log))
		seg.ID[0] = byte(i + 1)
		w := &writer{chunk: 1000, prefix: prefix}
		w.put(s.Memory, seg, log, testFiles())
		segments[i] = seg
	}
	for i, want := range []int{3, 2, 3, 2} { // manifest and log, and a place where the manifest is not
		s.faults.Reset()
		mustRead(t, s, segments[min(i, 2)], log, 0, 5000)
		if n := s.gets(""); n != want {
			t.Errorf("read %d takes %d requests, want %d: %v", i, n, want, s.faults.Calls())
		}
	}
	s.faults.Reset()
	mustRead(t, s, segments[0], log, 0, 5000)
	if n := s.gets(""); n != 2 {
		t.Errorf("the first segment takes %d requests once more: %v", n, s.faults.Calls())
	}
}
