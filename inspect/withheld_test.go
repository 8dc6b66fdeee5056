package inspect

import (
	"slices"
	"strings"
	"testing"

	"coldtap/bench/simstore"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout/aiven"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// Objects that the store does not give are reported with what to mend, and what is wrong behind them is found all the
// same.
func TestVerifyGoesOnBehindWithheldObjects(t *testing.T) {
	s := newStand(t)
	segments := s.segments(t)
	flipAt(1000)(s.file(s.layout.LogKey(segments[3])))
	store := faultstore.New(s.backend)
	store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(s.layout.MetaKey(segments[0])), Fault: faultstore.Fault{Kind: rangeio.Archived}})
	store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(s.layout.LogKey(segments[1])), Fault: faultstore.Fault{Kind: rangeio.Forbidden}})
	values, err := lines(t, func(o *Output) error {
		_, err := Verify(t.Context(), o, VerifyConfig{Metadata: s.reader, Store: rangeio.NewClient(store, rangeio.Config{Attempts: 1}), Deep: true})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range values[:len(values)-1] {
		got = append(got, v["problem"].(string))
		detail := v["detail"].(string)
		if v["problem"] == "withheld" && !strings.Contains(detail, "restore it") && !strings.Contains(detail, "permission") {
			t.Errorf("nothing to mend in %q", detail)
		}
	}
	slices.Sort(got)
	if want := []string{"withheld", "withheld", "wrong_checksum", "wrong_crc"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A healthy bucket of the plugin's has no findings: a segment that compaction left empty has no log, and a segment
// whose custom metadata places it under another prefix is no foreign object, wherever the listing began.
func TestVerifyOfAHealthyBucket(t *testing.T) {
	topicID := segment.UUID{0: 1, 15: 7}
	of := func(n byte, base, size int64, custom string) *tier.Segment {
		return &tier.Segment{
			ID: segment.UUID{0: 1, 15: n}, Partition: tier.PartitionID{Topic: topicID}, Topic: "orders", BaseOffset: base, EndOffset: base + 9,
			Epochs: []segment.EpochStart{{StartOffset: base}}, Size: size, State: tier.CopyFinished, Custom: []byte(custom),
		}
	}
	elsewhere := "\x01\x01\x05\x05old/" // tag 1, key.prefix
	for _, prefix := range []string{"", "new/", "o"} {
		empty, moved := of(1, 0, 0, ""), of(2, 10, 100, elsewhere)
		m := recorded{tier.New()}
		m.Apply(tier.TopicSeen{ID: topicID, Name: "orders"}, tier.SegmentLoaded{Segment: *empty}, tier.SegmentLoaded{Segment: *moved})
		mem := simstore.NewMemory()
		put := func(stem string, endings ...string) {
			for _, ending := range endings {
				mem.Set(stem+ending, []byte("x"))
			}
		}
		folder := "orders-" + topicID.String() + "/0/"
		put(prefix+folder+"00000000000000000000-"+empty.ID.String(), aiven.SuffixIndexes, aiven.SuffixManifest)
		put("old/"+folder+"00000000000000000010-"+moved.ID.String(), aiven.SuffixLog, aiven.SuffixIndexes, aiven.SuffixManifest)
		put(prefix+"notes", ".txt")
		store := rangeio.NewClient(mem, rangeio.Config{Attempts: 1})
		l, err := aiven.New(store, aiven.Options{Prefixes: []string{prefix}})
		if err != nil {
			t.Fatal(err)
		}
		var s Summary
		values, err := lines(t, func(o *Output) (err error) {
			s, err = Verify(t.Context(), o, VerifyConfig{Metadata: m, Store: store, Layout: l})
			return err
		})
		if err != nil || s.Problems > 0 || s.Foreign != 1 || s.Segments != 2 {
			t.Errorf("prefix %q: %+v, %v, %v", prefix, s, values, err)
		}
	}
}
