package aiven

import (
	"strings"
	"testing"

	"coldtap/bench/simstore"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

var _ layout.Reader = (*Layout)(nil)

func TestPieceSize(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct{ chunk, max, want int64 }{
		{0, 4 * mib, 4 * mib}, {0, 5 * mib, 4 * mib}, {0, 4095, 4095}, // as a file
		{4 * mib, 4 * mib, 4 * mib}, {65536, 4 * mib, 4 * mib}, {50_000, 4 * mib, 83 * 50_000}, {3 * mib, 4 * mib, 3 * mib}, {1, 10, 10},
		{64 * mib, 4 * mib, 4 * mib}, {5 * mib, 4 * mib, 5 * mib / 2}, {5_000_000, 4 * mib, 2_500_000}, {1<<30 - 1, 4 * mib, 3848537},
		{10_485_767, 4 * mib, 3495256}, // a prime: three parts, of which the last is shorter
		{1 << 30, 1, 1}, {7, 2, 1}, {7, 3, 1},
	} {
		got := pieceSize(tt.chunk, tt.max)
		if got != tt.want {
			t.Errorf("chunks of %d, at most %d: %d, want %d", tt.chunk, tt.max, got, tt.want)
		}
		if got < 1 || got > tt.max {
			t.Errorf("chunks of %d: %d is not within 1 and %d", tt.chunk, got, tt.max)
		}
	}
	for chunk := int64(1); chunk < 2000; chunk += 7 {
		for most := int64(1); most < 300; most += 11 {
			if got := pieceSize(chunk, most); got < 1 || got > most {
				t.Fatalf("chunks of %d, at most %d: %d", chunk, most, got)
			}
		}
	}
}

func TestHostileNamesMakeNoKey(t *testing.T) {
	for name, spoil := range map[string]func(*tier.Segment){
		"climbing topic":     func(s *tier.Segment) { s.Topic = "../../etc/passwd" },
		"empty topic":        func(s *tier.Segment) { s.Topic = "" },
		"slash":              func(s *tier.Segment) { s.Topic = "a/b" },
		"long topic":         func(s *tier.Segment) { s.Topic = strings.Repeat("a", 250) },
		"no topic id":        func(s *tier.Segment) { s.Partition.Topic = segment.UUID{} },
		"negative partition": func(s *tier.Segment) { s.Partition.Partition = -1 },
		"no segment id":      func(s *tier.Segment) { s.ID = segment.UUID{} },
		"negative offset":    func(s *tier.Segment) { s.BaseOffset = -1 },
		"negative size":      func(s *tier.Segment) { s.Size = -1 },
	} {
		s := newStand(t, Options{})
		seg := testSegment(100)
		spoil(seg)
		_, err1 := s.ReadLog(t.Context(), seg, nil, 0)
		_, _, err2 := s.ReadFiles(t.Context(), seg)
		if !isContentError(err1) || !isContentError(err2) || len(s.faults.Calls()) > 0 {
			t.Errorf("%s: %v, %v, %v", name, err1, err2, s.faults.Calls())
		}
	}
	// A path in the custom metadata that leaves the bucket is not asked for by the store's client, and is no way around.
	s := newStand(t, Options{})
	seg := testSegment(100)
	up := "../../" + seg.ID.String()[:2] + "-" + seg.ID.String()
	seg.Custom = customOf(-1, nil, &up)
	if _, err := s.ReadLog(t.Context(), seg, make([]byte, 1), 0); !rangeio.IsKind(err, rangeio.BadKey) {
		t.Errorf("%v", err)
	}
}

func TestUselessOptions(t *testing.T) {
	client := rangeio.NewClient(simstore.NewMemory(), rangeio.Config{})
	for name, o := range map[string]Options{
		"key":      {Keys: []PrivateKey{{ID: "a", PEM: []byte("x")}}},
		"prefixes": {Prefixes: make([]string, maxPrefixes+1)},
		"memory":   {Memory: -1},
		"parallel": {Parallel: -1},
	} {
		if _, err := New(client, o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// The manifests kept have a bound, and the least recently used goes.
func TestManifestsKept(t *testing.T) {
	log := testLog(5000)
	s := newStand(t, Options{ManifestMemory: 3 * (entryCost + 8*6)})
	var segs []*tier.Segment
	for i := range 4 {
		seg := testSegment(len(log))
		seg.ID[15] = byte(10 + i)
		(&writer{chunk: 1000, compressed: true}).put(s.Memory, seg, log, testFiles())
		segs = append(segs, seg)
	}
	for _, i := range []int{0, 1, 2, 0, 3, 0, 2} {
		mustRead(t, s, segs[i], log, 0, 10)
	}
	if n := s.gets(SuffixManifest); n != 4 {
		t.Errorf("%d manifests were read", n)
	}
	mustRead(t, s, segs[1], log, 0, 10)
	if n := s.gets(SuffixManifest); n != 5 {
		t.Errorf("%d manifests were read after one was forgotten", n)
	}
	c := s.manifests
	if c.used > c.limit || c.used != int64(len(c.entries))*(entryCost+8*6) || c.loading.LenLocked() != 0 {
		t.Errorf("%d bytes in %d entries", c.used, len(c.entries))
	}
}
