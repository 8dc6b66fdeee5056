package inspect

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

func (s *stand) verify(t *testing.T, topic string, deep bool) ([]map[string]any, Summary) {
	t.Helper()
	var summary Summary
	values, err := lines(t, func(o *Output) (err error) {
		summary, err = Verify(t.Context(), o, VerifyConfig{Metadata: s.reader, Store: s.store, Topic: topic, Deep: deep})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return values[:len(values)-1], summary
}

func TestASoundTierHasNoFindings(t *testing.T) {
	s := newStand(t)
	n := len(s.segments(t))
	for _, topic := range []string{"", "plain", s.segments(t)[0].Partition.Topic.String()} {
		findings, summary := s.verify(t, topic, true)
		if len(findings) > 0 || summary.Problems > 0 || summary.Segments != n || summary.Objects != 2*n || summary.BytesRead != summary.Bytes || summary.Bytes == 0 {
			t.Errorf("topic %q: %+v %+v", topic, summary, findings)
		}
	}
	_, err := lines(t, func(o *Output) error {
		_, err := Verify(t.Context(), o, VerifyConfig{Metadata: s.reader, Store: s.store, Topic: "none"})
		return err
	})
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Unknown {
		t.Errorf("a topic that is not there: %v", err)
	}
}

func TestVerifyFindsEveryDamage(t *testing.T) {
	flip := func(at int64) func(*testing.T, *stand, string) {
		return func(t *testing.T, _ *stand, file string) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if at < 0 {
				at += int64(len(raw))
			}
			raw[at] ^= 1
			if err := os.WriteFile(file, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(t *testing.T, _ *stand, file string) { os.Remove(file) }
	for _, c := range []struct {
		name   string
		meta   bool // the .meta is damaged, not the .log
		damage func(t *testing.T, s *stand, file string)
		deep   bool
		want   []Problem
	}{
		{"no log", false, remove, false, []Problem{MissingLog}},
		{"no meta", true, remove, false, []Problem{MissingMeta}},
		{"short log", false, func(_ *testing.T, _ *stand, file string) { os.Truncate(file, 100) }, false, []Problem{WrongSize}},
		{"a flipped bit in a batch", false, flip(1000), true, []Problem{WrongCRC, WrongChecksum}},
		{"a flipped bit in a leader epoch, outside the CRC", false, flip(15), true, []Problem{WrongChecksum}},
		{"a flipped bit in an offset", false, flip(7), true, []Problem{DamagedLog, WrongChecksum}},
		{"a flipped bit in a length", false, flip(8), true, []Problem{DamagedLog, WrongChecksum}},
		{"a flipped bit in the manifest", true, flip(40), true, []Problem{DamagedMeta}},
		{"a flipped bit in a small file", true, flip(-1), true, []Problem{DamagedFile}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t)
			seg := s.segments(t)[1]
			key := s.layout.LogKey(seg)
			if c.meta {
				key = s.layout.MetaKey(seg)
			}
			c.damage(t, s, s.file(key))
			if quick, _ := s.verify(t, "", false); c.deep && len(quick) > 0 {
				t.Errorf("found without reading: %v", quick)
			}
			findings, summary := s.verify(t, "", true)
			var got []Problem
			for _, f := range findings {
				got = append(got, Problem(f["problem"].(string)))
				if f["object"] != key || f["segment_id"] != seg.ID.String() || f["topic"] != "plain" {
					t.Errorf("%v", f)
				}
			}
			if len(got) != len(c.want) || summary.Problems != len(c.want) {
				t.Fatalf("%v, want %v", findings, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("%v, want %v", findings, c.want)
				}
			}
		})
	}
}

// A manifest that denies gaps which the log has would make every read of it fail.
func TestVerifyFindsAWrongClaimOfNoGaps(t *testing.T) {
	s := newStandOf(t, "gaps")
	wrong := 0
	for _, seg := range s.segments(t) {
		file := s.file(s.layout.MetaKey(seg))
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, files, err := native.DecodeMeta(raw)
		if err != nil {
			t.Fatal(err)
		}
		if files.Dense {
			continue
		}
		wrong++
		files.Dense = true
		if raw, err = native.EncodeMeta(m, files); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	findings, _ := s.verify(t, "", true)
	if wrong == 0 || len(findings) != wrong {
		t.Fatalf("%d wrong claims, %v", wrong, findings)
	}
	for _, f := range findings {
		if f["problem"] != string(DamagedMeta) || !strings.Contains(f["detail"].(string), "has no gaps, but offset") {
			t.Errorf("%v", f)
		}
	}
}

func TestWhatIsUnderWayIsNoProblem(t *testing.T) {
	s := newStand(t)
	all := s.segments(t)
	put := func(key string) {
		if _, err := s.store.Put(t.Context(), key, bytes.NewReader([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	copying := *all[0]
	copying.ID, copying.State, copying.BaseOffset, copying.EndOffset = segment.UUID{7}, tier.CopyStarted, 9000, 9001
	copying.Epochs = []segment.EpochStart{{Epoch: 0, StartOffset: 9000}}
	if err := s.db.StartCopy(t.Context(), copying); err != nil {
		t.Fatal(err)
	}
	put(s.layout.LogKey(&copying))
	if err := s.db.StartDelete(t.Context(), all[0].Partition, all[0].ID); err != nil {
		t.Fatal(err)
	}
	os.Remove(s.file(s.layout.MetaKey(all[0])))
	put("somebody/elses/object")
	if err := s.reader.Refresh(t.Context(), tier.PartitionID{}); err != nil {
		t.Fatal(err)
	}
	findings, summary := s.verify(t, "", true)
	if len(findings) > 0 || summary.Unfinished != 2 || summary.Foreign != 1 {
		t.Errorf("%+v %v", summary, findings)
	}
	// What nobody has begun is an orphan, also when only one character of the name is another.
	stranger := copying
	stranger.ID = segment.UUID{8}
	put(s.layout.MetaKey(&stranger))
	moved := *all[1]
	moved.BaseOffset--
	put(s.layout.LogKey(&moved))
	gone := tier.PartitionID{Topic: segment.UUID{1}, Partition: 3}
	put(s.layout.StartKey("gone", gone))
	findings, _ = s.verify(t, "", false)
	objects := make(map[any]bool)
	for _, f := range findings {
		if f["problem"] != string(Orphan) {
			t.Errorf("%v", f)
		}
		objects[f["object"]] = true
	}
	if len(findings) != 3 || !objects[s.layout.MetaKey(&stranger)] || !objects[s.layout.LogKey(&moved)] || !objects[s.layout.StartKey("gone", gone)] {
		t.Errorf("%v", findings)
	}
}

func TestStartObjects(t *testing.T) {
	s := newStand(t)
	id := s.segments(t)[0].Partition
	put := func(raw []byte) {
		if _, err := s.store.Put(t.Context(), s.layout.StartKey("plain", id), bytes.NewReader(raw)); err != nil {
			t.Fatal(err)
		}
	}
	ahead, err := native.EncodeStart(&native.Start{Topic: "plain", TopicID: id.Topic, Partition: 0, Offset: 50})
	if err != nil {
		t.Fatal(err)
	}
	put(ahead)
	if findings, _ := s.verify(t, "", true); len(findings) > 0 {
		t.Errorf("a start that the metadata does not know yet: %v", findings)
	}
	later := tier.PartitionID{Topic: id.Topic, Partition: 5}
	if err := s.db.PutPartition(t.Context(), later, 100, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.layout.PutStart(t.Context(), &native.Start{Topic: "plain", TopicID: id.Topic, Partition: 5, Offset: 99}); err != nil {
		t.Fatal(err)
	}
	if findings, _ := s.verify(t, "", true); len(findings) != 1 || findings[0]["problem"] != string(StartBehind) || findings[0]["partition"] != 5.0 {
		t.Errorf("a start below the metadata's: %v", findings)
	}
	os.Remove(s.file(s.layout.StartKey("plain", later)))
	put([]byte("nonsense"))
	if findings, _ := s.verify(t, "", true); len(findings) != 1 || findings[0]["problem"] != string(DamagedStart) {
		t.Errorf("a damaged start: %v", findings)
	}
}

// deaf is a store that lists and then does not answer.
type deaf struct{ rangeio.Backend }

func (deaf) Stat(context.Context, string) (rangeio.Info, error) {
	return rangeio.Info{}, &rangeio.Error{Kind: rangeio.Unavailable, Op: "stat"}
}

func TestAStoreThatDoesNotAnswerIsNoFinding(t *testing.T) {
	s := newStand(t)
	os.RemoveAll(s.dir)
	_, err := table(t, func(o *Output) error {
		summary, err := Verify(t.Context(), o, VerifyConfig{Metadata: s.reader, Store: s.store, Deep: true})
		if summary.Problems > 0 {
			t.Errorf("%+v", summary)
		}
		return err
	})
	if !rangeio.IsKind(err, rangeio.NoBucket) {
		t.Errorf("%v", err)
	}
	if _, err := OpenObject(t.Context(), rangeio.NewClient(deaf{s.backend}, rangeio.Config{Attempts: 1}), "k"); !rangeio.IsKind(err, rangeio.Unavailable) {
		t.Errorf("open: %v", err)
	}
}

func TestSegmentsAndSegment(t *testing.T) {
	s := newStand(t)
	all := s.segments(t)
	snapshot := s.reader.Snapshot()
	values, err := lines(t, func(o *Output) error { return Segments(o, snapshot, "plain:0") })
	if err != nil || len(values) != len(all) {
		t.Fatalf("%d of %d segments, %v", len(values), len(all), err)
	}
	if v := values[1]; v["segment_id"] != all[1].ID.String() || v["base_offset"] != float64(all[1].BaseOffset) || v["readable"] != true || v["state"] != "COPY_SEGMENT_FINISHED" {
		t.Errorf("%v", v)
	}
	text, err := table(t, func(o *Output) error { return Segments(o, snapshot, "plain") })
	if err != nil || !strings.Contains(text, "plain-0  start 0  tiered end 554") || !strings.Contains(text, all[2].ID.String()) {
		t.Errorf("%v\n%s", err, text)
	}
	os.Remove(s.file(s.layout.LogKey(all[0])))
	values, err = lines(t, func(o *Output) error {
		return Segment(t.Context(), o, snapshot, s.store, native.New(s.store, ""), all[0].ID.String())
	})
	if err != nil || len(values) != 1 {
		t.Fatalf("%v %v", values, err)
	}
	objects := values[0]["objects"].([]any)
	if objects[0].(map[string]any)["exists"] != false || objects[1].(map[string]any)["exists"] != true ||
		values[0]["manifest"].(map[string]any)["topic"] != "plain" || values[0]["segment"].(map[string]any)["topic"] != "plain" {
		t.Errorf("%v", values[0])
	}
	text, err = table(t, func(o *Output) error {
		return Segment(t.Context(), o, snapshot, s.store, native.New(s.store, ""), all[0].ID.String())
	})
	if err != nil || !strings.Contains(text, "missing") || !strings.Contains(text, "log SHA-256") {
		t.Errorf("%v\n%s", err, text)
	}
	for what, kind := range map[string]Kind{"none": Unknown, "plain:9": Unknown, "plain:x": Misused, "plain:-1": Misused} {
		_, err := lines(t, func(o *Output) error { return Segments(o, snapshot, what) })
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != kind {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, kind := range map[string]Kind{"none": Misused, (segment.UUID{5}).String(): Unknown} {
		_, err := lines(t, func(o *Output) error {
			return Segment(t.Context(), o, snapshot, s.store, native.New(s.store, ""), what)
		})
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != kind {
			t.Errorf("%s: %v", what, err)
		}
	}
}
