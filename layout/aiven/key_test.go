package aiven

import (
	"slices"
	"strings"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

func mustUUID(t *testing.T, s string) segment.UUID {
	t.Helper()
	id, err := segment.ParseUUID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestMainPath(t *testing.T) {
	seg := &tier.Segment{
		ID: mustUUID(t, "adh9f8BMS4anaUnD8KWfWg"), Topic: "my-topic.a", BaseOffset: 1234, EndOffset: 1234,
		Partition: tier.PartitionID{Topic: mustUUID(t, "lZ6vvmajTWKDBUTV6SQAtQ"), Partition: 42},
	}
	const want = "my-topic.a-lZ6vvmajTWKDBUTV6SQAtQ/42/00000000000000001234-adh9f8BMS4anaUnD8KWfWg"
	if got := mainPath(seg); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	k, err := ParseKey("pre/"+want+SuffixLog, "pre/")
	if err != nil || k != (Key{seg.Topic, seg.Partition.Topic, 42, 1234, seg.ID, SuffixLog}) {
		t.Errorf("read back as %+v, %v", k, err)
	}
}

// A topic "lat-1", its partition 0, must not be taken for partition 1-0 of "lat"; a prefix need not end with a slash.
func TestParseKeyFromTheRight(t *testing.T) {
	const stem = "lat-1-LjYA_ahlTk2NzfaEVBxs_g/0/00000000000000000007--_-_-_-_-_-_-_-_-_-_-A"
	for _, prefix := range []string{"", "ts/pre-", "a/b/", "tiered"} {
		k, err := ParseKey(prefix+stem+SuffixManifest, prefix)
		if err != nil || k.Topic != "lat-1" || k.Partition != 0 || k.BaseOffset != 7 || k.Suffix != SuffixManifest {
			t.Errorf("prefix %q: %+v, %v", prefix, k, err)
		}
	}
}

func TestForeignKeys(t *testing.T) {
	const folder, id = "t-LjYA_ahlTk2NzfaEVBxs_g/0/", "adh9f8BMS4anaUnD8KWfWg"
	for key, part := range map[string]string{
		"other/" + folder + "00000000000000000007-" + id + ".log":             "prefix",
		"p/x/" + folder + "00000000000000000007-" + id + ".log":               "topic, partition",
		"p/" + folder + id + "-00000000000000000007.log_0":                    "prototype",
		"p/" + folder + "00000000000000000007-" + id + ".meta":                "no object of the plugin",
		"p/" + folder + "00000000000000000007-" + id:                          "no segment's object",
		"p/" + folder + "0000000000000000000x-" + id + ".log":                 "digits",
		"p/" + folder + "99999999999999999999-" + id + ".log":                 "digits",
		"p/" + folder + "00000000000000000007-adh9f8BMS4anaUnD8KWfW!.log":     "segment id",
		"p/t-LjYA_ahlTk2NzfaEVBxs_g/00/00000000000000000007-" + id + ".log":   "partition",
		"p/t-LjYA_ahlTk2NzfaEVBxs_g/-1/00000000000000000007-" + id + ".log":   "partition",
		"p/-LjYA_ahlTk2NzfaEVBxs_g/0/00000000000000000007-" + id + ".log":     "topic name",
		"p/t=LjYA_ahlTk2NzfaEVBxs_g/0/00000000000000000007-" + id + ".log":    "end with an id",
		"p/short/0/00000000000000000007-" + id + ".log":                       "end with an id",
		"p/" + folder + strings.Repeat("\u0667", 20) + "-" + id + ".log":      "digits",
		"p/" + folder + "00000000000000000007_adh9f8BMS4anaUnD8KWfWg.indexes": "digits",
	} {
		if k, err := ParseKey(key, "p/"); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %+v, %v; want an error about %q", key, k, err, part)
		}
	}
}

func TestStems(t *testing.T) {
	seg := testSegment(1)
	path := mainPath(seg)
	elsewhere := "odd/" + seg.ID.String()[:3] + "-" + seg.ID.String()
	foreign := "lat-1-AAAAAAAAAAAAAAAAAAAAAA/0/00000000000000000000-adh9f8BMS4anaUnD8KWfWg"
	empty, old := "", "old/"
	tests := map[string]struct {
		custom []byte
		known  string
		want   []string
	}{
		"nothing recorded":    {nil, "", []string{"now/" + path, "then/" + path}},
		"found under another": {nil, "then/" + path, []string{"then/" + path, "now/" + path}},
		"prefix":              {customOf(100, &old, nil), "", []string{"old/" + path, "now/" + path, "then/" + path}},
		"what is known beats the record": {customOf(100, &old, nil), "now/" + path,
			[]string{"now/" + path, "old/" + path, "then/" + path}},
		"empty prefix": {customOf(-1, &empty, nil), "", []string{path, "now/" + path, "then/" + path}},
		"path": {customOf(-1, nil, &elsewhere), "",
			[]string{"now/" + elsewhere, "then/" + elsewhere, "now/" + path, "then/" + path}},
		"both": {customOf(5, &old, &elsewhere), "",
			[]string{"old/" + elsewhere, "now/" + elsewhere, "then/" + elsewhere, "old/" + path, "now/" + path, "then/" + path}},
		"another segment's path": {customOf(-1, nil, &foreign), "", []string{"now/" + path, "then/" + path}},
		"damaged":                {[]byte{3, 0}, "", []string{"now/" + path, "then/" + path}},
	}
	for name, tt := range tests {
		seg.Custom = tt.custom
		if got := stems(seg, tt.known, []string{"now/", "then/"}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("pre/my-topic.a-lZ6vvmajTWKDBUTV6SQAtQ/42/00000000000000001234-adh9f8BMS4anaUnD8KWfWg.log", "pre/")
	f.Add("t-LjYA_ahlTk2NzfaEVBxs_g/0/adh9f8BMS4anaUnD8KWfWg-00000000000000000007.log_0", "")
	f.Fuzz(func(t *testing.T, key, prefix string) {
		k, err := ParseKey(key, prefix)
		if err != nil {
			return
		}
		seg := &tier.Segment{ID: k.SegmentID, Topic: k.Topic, BaseOffset: k.BaseOffset,
			Partition: tier.PartitionID{Topic: k.TopicID, Partition: k.Partition}}
		if again := prefix + mainPath(seg) + k.Suffix; again != key {
			t.Errorf("%q was read as %q", key, again)
		}
	})
}
