package segment

import (
	"math"
	"testing"
)

func offsetIndex(tb testing.TB, base, logSize int64, raw string) OffsetIndex {
	tb.Helper()
	x, err := ParseOffsetIndex(unhex(tb, raw), base, logSize)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

func TestOffsetIndexLookup(t *testing.T) {
	x := offsetIndex(t, 100, 1<<20, "0000000200001234000000fa00010000")
	for _, c := range []struct{ target, offset, position int64 }{
		{math.MinInt64, 100, 0}, {99, 100, 0}, {100, 100, 0}, {101, 100, 0}, {102, 102, 0x1234}, {349, 102, 0x1234},
		{350, 350, 0x10000}, {math.MaxInt64, 350, 0x10000},
	} {
		if offset, position := x.Lookup(c.target); offset != c.offset || position != c.position {
			t.Errorf("Lookup(%d) = %d, %d", c.target, offset, position)
		}
	}
	for _, c := range []struct {
		from, offset, position int64
		ok                     bool
	}{
		{-5, 102, 0x1234, true}, {0x1234, 102, 0x1234, true}, {0x1235, 350, 0x10000, true}, {0x10000, 350, 0x10000, true},
		{0x10001, 0, 0, false}, {math.MaxInt64, 0, 0, false},
	} {
		if offset, position, ok := x.UpperBound(c.from); offset != c.offset || position != c.position || ok != c.ok {
			t.Errorf("UpperBound(%d) = %d, %d, %t", c.from, offset, position, ok)
		}
	}
}

func TestF2EmptyIndexes(t *testing.T) {
	for _, raw := range [][]byte{nil, {}} {
		x, err := ParseOffsetIndex(raw, 100, 0)
		if err != nil || x.Len() != 0 {
			t.Fatal(err)
		}
		if offset, position := x.Lookup(160); offset != 100 || position != 0 {
			t.Errorf("Lookup = %d, %d", offset, position)
		}
		if _, _, ok := x.UpperBound(0); ok {
			t.Error("UpperBound found something")
		}
		y, err := ParseTimeIndex(raw, 100)
		if err != nil || y.Len() != 0 {
			t.Fatal(err)
		}
		if timestamp, offset := y.Lookup(160); timestamp != -1 || offset != 100 {
			t.Errorf("time Lookup = %d, %d", timestamp, offset)
		}
	}
	var zero OffsetIndex
	if offset, position := zero.Lookup(5); offset != 0 || position != 0 {
		t.Errorf("zero value: %d, %d", offset, position)
	}
}

// Files are preallocated; the tail must not turn the search around.
func TestF3ZeroTail(t *testing.T) {
	raw := make([]byte, 10<<20)
	copy(raw, unhex(t, "0000000200001234000000fa00010000"))
	x, err := ParseOffsetIndex(raw, 100, 1<<20)
	if err != nil || x.Len() != 2 {
		t.Fatalf("%d entries, %v", x.Len(), err)
	}
	if offset, position := x.Lookup(101); offset != 100 || position != 0 {
		t.Errorf("Lookup = %d, %d", offset, position)
	}
	if offset, _ := x.Lookup(1000); offset != 350 {
		t.Errorf("Lookup = %d", offset)
	}
	if x, err := ParseOffsetIndex(raw[1<<10:], 100, 1<<20); err != nil || x.Len() != 0 {
		t.Errorf("all zeros: %d entries, %v", x.Len(), err)
	}
	// A position whose last byte is zero is no tail.
	if x := offsetIndex(t, 0, 1<<20, "00000100000001000000000000000000"); x.Len() != 1 {
		t.Errorf("%d entries", x.Len())
	}

	raw = make([]byte, 12*1000)
	copy(raw, unhex(t, "0000018bcfe56805000000020000018bcfe569f4000000fa"))
	y, err := ParseTimeIndex(raw, 100)
	if err != nil || y.Len() != 2 {
		t.Fatalf("%d entries, %v", y.Len(), err)
	}
	if timestamp, offset := y.Lookup(math.MaxInt64); timestamp != 0x18bcfe569f4 || offset != 350 {
		t.Errorf("Lookup = %d, %d", timestamp, offset)
	}
}

func TestF1DamagedOffsetIndex(t *testing.T) {
	for name, raw := range map[string]string{
		"position at the end of the log":     "00000002000186a0",
		"position beyond the log":            "00000032000f423f",
		"position negative":                  "00000002ffffffff",
		"relative offset above int32":        "0000000100000001" + "8000000000000002",
		"offset twice":                       "0000000200000001" + "0000000200000002",
		"offset descends":                    "0000000300000001" + "0000000200000002",
		"position twice":                     "0000000200000001" + "0000000300000001",
		"position descends":                  "0000000200000002" + "0000000300000001",
		"zeros between entries":              "0000000200000001" + "0000000000000000" + "0000000300000002",
		"ragged length":                      "0000000200000001" + "00000003",
		"offsets fine, first entry negative": "ffffffff00000001",
	} {
		_, err := ParseOffsetIndex(unhex(t, raw), 0, 100_000)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		wantKind(t, err, Corrupt)
	}
	for _, base := range []int64{-1, math.MaxInt64} {
		_, err := ParseOffsetIndex(nil, base, 100)
		wantKind(t, err, Corrupt)
		_, err = ParseTimeIndex(nil, base)
		wantKind(t, err, Corrupt)
	}
}

func TestF4RelativeOffsetAtTheInt32Edge(t *testing.T) {
	x := offsetIndex(t, 5, 1<<31, "000000090000000a"+"7fffffff7ffffff0")
	if offset, position := x.Lookup(math.MaxInt64); offset != 5+math.MaxInt32 || position != 0x7ffffff0 {
		t.Errorf("Lookup = %d, %d", offset, position)
	}
	if offset, position := x.Lookup(5 + math.MaxInt32 - 1); offset != 14 || position != 10 {
		t.Errorf("Lookup = %d, %d", offset, position)
	}
}

// A real broker's index, looked up for every record of the log beside it, leads to that record.
func TestOffsetIndexOfSample(t *testing.T) {
	entries := 0
	sampleIndexes(t, ".index", func(name string, base int64, raw, log []byte) {
		x, err := ParseOffsetIndex(raw, base, int64(len(log)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		entries += x.Len()
		batches := map[int64]Header{}
		for b, err := range Batches(log) {
			if err != nil {
				t.Fatal(err)
			}
			batches[b.Position] = b.Header
			for target := b.Header.BaseOffset; target <= b.Header.LastOffset(); target++ {
				_, position := x.Lookup(target)
				if at, ok := batches[position]; position != 0 && !ok || position > b.Position || position > 0 && at.BaseOffset > target {
					t.Fatalf("%s: Lookup(%d) = %d, its batch is at %d", name, target, position, b.Position)
				}
			}
			if offset, _, ok := x.UpperBound(b.Position); ok && offset < b.Header.LastOffset() {
				t.Fatalf("%s: UpperBound(%d) = %d, below %d", name, b.Position, offset, b.Header.LastOffset())
			}
		}
		for i := range x.Len() {
			offset, position := x.Entry(i)
			if h, ok := batches[position]; !ok || h.LastOffset() != offset {
				t.Fatalf("%s: entry %d, %d at %d, names no batch", name, i, offset, position)
			}
		}
	})
	if entries < 100 {
		t.Errorf("%d entries in the whole sample", entries)
	}
}

func FuzzOffsetIndex(f *testing.F) {
	f.Add(unhex(f, "0000000200001234000000fa00010000"), int64(100), int64(1<<20), int64(102))
	sampleIndexes(f, ".index", func(_ string, base int64, raw, log []byte) {
		f.Add(raw[:min(len(raw), 256)], base, int64(len(log)), base+5)
	})
	f.Fuzz(func(t *testing.T, raw []byte, base, logSize, target int64) {
		x, err := ParseOffsetIndex(raw, base, logSize)
		if err != nil {
			return
		}
		offset, position := x.Lookup(target)
		if position < 0 || position > 0 && (offset > target || position >= logSize) || offset < base {
			t.Fatalf("Lookup(%d) = %d, %d", target, offset, position)
		}
		if _, position, ok := x.UpperBound(target); ok && (position < target || position >= logSize) {
			t.Fatalf("UpperBound(%d) = %d", target, position)
		}
	})
}
