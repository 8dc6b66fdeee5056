package aiven

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// listed is an object as a listing has it.
func (s *stand) listed(t *testing.T, key string) rangeio.Object {
	t.Helper()
	b := s.Bytes(key)
	if b == nil {
		t.Fatalf("%s is not there", key)
	}
	return rangeio.Object{Key: key, Size: int64(len(b))}
}

func TestScanOnRealSets(t *testing.T) {
	sets := openSets(t)
	for _, set := range realSets {
		s := loadSet(t, sets, set.name, set.prefix, Options{})
		scan := s.Layout
		if got := scan.Prefixes(); !slices.Equal(got, []string{set.prefix}) {
			t.Errorf("prefixes %q", got)
		}
		parts := map[layout.Part]int{}
		for _, key := range s.Keys() {
			part, name := scan.Classify(key)
			parts[part]++
			if part != layout.ManifestPart {
				continue
			}
			before := len(s.faults.Calls())
			d, cost, err := scan.ReadManifest(t.Context(), s.listed(t, key))
			if err != nil {
				t.Fatal(err)
			}
			seg := &d.Segment
			if cost.Requests != 1 || len(s.faults.Calls()) != before+1 {
				t.Errorf("%s: cost %+v", key, cost)
			}
			if name.Prefix+mainPath(seg)+SuffixManifest != key || name.ID != seg.ID || name.Partition != seg.Partition || name.BaseOffset != seg.BaseOffset {
				t.Errorf("%s: named %+v, described %+v", key, name, seg)
			}
			stem := name.Prefix + mainPath(seg)
			if d.LogSize != s.listed(t, stem+SuffixLog).Size || d.FilesSize != s.listed(t, stem+SuffixIndexes).Size {
				t.Errorf("%s: %d bytes of log, %d of indexes", key, d.LogSize, d.FilesSize)
			}
			files, _, err := s.ReadFiles(t.Context(), seg)
			if err != nil {
				t.Fatal(err)
			}
			want, err := segment.ParseEpochCheckpoint(files.LeaderEpochs)
			if err != nil {
				t.Fatal(err)
			}
			got, cost, err := scan.ReadCheckpoint(t.Context(), seg, 0)
			if err != nil || !slices.Equal(got.Epochs, want) || got.Start != want[0].StartOffset {
				t.Errorf("%s: checkpoint %+v, want %v: %v", key, got, want, err)
			}
			// The manifest is at hand by now, and of the indexes nothing else is read.
			if most := int64(len(files.LeaderEpochs)) + sealSize; cost.Requests != 1 || cost.Bytes > most {
				t.Errorf("%s: cost %+v of a checkpoint of at most %d bytes", key, cost, most)
			}
		}
		if parts[layout.ManifestPart] == 0 || parts[layout.ManifestPart] != parts[layout.LogPart] || parts[layout.LogPart] != parts[layout.FilesPart] || len(parts) != 3 {
			t.Errorf("%s: parts %v", set.name, parts)
		}
	}
}

func TestScanPrefixes(t *testing.T) {
	s := newStand(t, Options{Prefixes: []string{"ts/new-", "ts", "old/", "old/er"}})
	scan := s.Layout
	if got := scan.Prefixes(); !slices.Equal(got, []string{"old/", "ts"}) && !slices.Equal(got, []string{"ts", "old/"}) {
		t.Errorf("prefixes %q", got)
	}
	seg := testSegment(10)
	for _, prefix := range []string{"ts/new-", "ts", "old/", "old/er"} {
		part, name := scan.Classify(prefix + mainPath(seg) + SuffixLog)
		if part != layout.LogPart || name.Prefix != prefix || name.Topic != seg.Topic || name.ID != seg.ID {
			t.Errorf("%s: %v %+v", prefix, part, name)
		}
	}
	for _, key := range []string{"", "ts", "x/" + mainPath(seg) + SuffixLog, "ts/" + mainPath(seg) + ".txnindex", "ts" + mainPath(seg), "old/er/y/" + mainPath(seg) + SuffixLog} {
		if part, name := scan.Classify(key); part != layout.ForeignPart || name != (layout.Name{}) {
			t.Errorf("%q: %v %+v", key, part, name)
		}
	}
}

func TestScanRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(object, *tier.Segment)
		is    error
	}{
		"version":     {func(o object, _ *tier.Segment) { o["version"] = "9" }, layout.ErrVersion},
		"undescribed": {func(o object, _ *tier.Segment) { delete(o, "remoteLogSegmentMetadata") }, layout.ErrUndescribed},
		"misplaced":   {func(_ object, s *tier.Segment) { s.BaseOffset-- }, layout.ErrMisplaced},
	} {
		s := newStand(t, Options{})
		seg := testSegment(100)
		w := &writer{chunk: 1000}
		w.put(s.Memory, seg, testLog(100), testFiles())
		var o object
		if err := json.Unmarshal(s.Bytes(mainPath(seg)+SuffixManifest), &o); err != nil {
			t.Fatal(err)
		}
		tt.spoil(o, seg)
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		key := mainPath(seg) + SuffixManifest
		s.Set(key, raw)
		_, _, err = s.Layout.ReadManifest(t.Context(), s.listed(t, key))
		if e, ok := errors.AsType[*layout.Error](err); !ok || e.Object != key || !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := newStand(t, Options{})
	scan := s.Layout
	if _, _, err := scan.ReadManifest(t.Context(), rangeio.Object{Key: "x", Size: MaxManifest + 1}); !isContentError(err) {
		t.Error(err)
	}
	if _, _, err := scan.ReadStart(t.Context(), rangeio.Object{Key: "start"}); !isContentError(err) || len(s.faults.Calls()) > 0 {
		t.Error(err)
	}
	if n := scan.memory.InUse(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

func TestScanCheckpointThatFailsAuthentication(t *testing.T) {
	s := newStand(t, Options{Keys: testKeys(t)})
	seg := testSegment(100)
	(&writer{chunk: 1000, keyID: "k1", key: testKey()}).put(s.Memory, seg, testLog(100), testFiles())
	scan := s.Layout
	if c, _, err := scan.ReadCheckpoint(t.Context(), seg, 0); err != nil || c.Start != 1234 {
		t.Fatalf("%+v, %v", c, err)
	}
	key := mainPath(seg) + SuffixIndexes
	good := s.Bytes(key)
	bad := bytes.Clone(good)
	for i := range bad {
		bad[i] ^= 1
	}
	s.Set(key, bad)
	if _, _, err := scan.ReadCheckpoint(t.Context(), seg, 0); !errors.Is(err, errSeal) || !isContentError(err) {
		t.Error(err)
	}
	s.Set(key, good[:len(good)-1])
	if _, _, err := scan.ReadCheckpoint(t.Context(), seg, 0); !rangeio.IsKind(err, rangeio.BadAnswer) {
		t.Error(err)
	}
}

// TestPartitionPrefixes: with them all keys of a partition are listed, each once, and none of a neighbour's.
func TestPartitionPrefixes(t *testing.T) {
	id := tier.PartitionID{Topic: segment.UUID{1, 15: 9}, Partition: 1}
	folder := "lat-" + id.Topic.String() + "/1/"
	for _, tt := range []struct {
		prefixes, want []string
	}{
		{[]string{""}, []string{folder}},
		{[]string{"ts/", "old/"}, []string{"old/" + folder, "ts/" + folder}},
		{[]string{"ts", "ts-old/"}, []string{"ts" + folder, "ts-old/" + folder}}, // of the bucket, "ts" holds both
		{[]string{"", folder}, []string{folder}},                                 // one folder in the other
	} {
		s := newStand(t, Options{Prefixes: tt.prefixes})
		scan := s.Layout
		got := scan.PartitionPrefixes("lat", id)
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.prefixes, got, tt.want)
		}
	}
	scan := newStand(t, Options{}).Layout
	for _, bad := range []struct {
		topic string
		id    tier.PartitionID
	}{{"", id}, {"../x", id}, {"lat", tier.PartitionID{}}, {"lat", tier.PartitionID{Topic: id.Topic, Partition: -1}}} {
		if got := scan.PartitionPrefixes(bad.topic, bad.id); got != nil {
			t.Errorf("%q %v: %q", bad.topic, bad.id, got)
		}
	}
}
