package segment

import (
	"math"
	"testing"
)

func TestTimeIndexLookup(t *testing.T) {
	x, err := ParseTimeIndex(unhex(t, "0000018bcfe56805000000020000018bcfe569f4000000fa"), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ target, timestamp, offset int64 }{
		{math.MinInt64, -1, 100}, {0x18bcfe56804, -1, 100}, {0x18bcfe56805, 0x18bcfe56805, 102},
		{0x18bcfe569f3, 0x18bcfe56805, 102}, {0x18bcfe569f4, 0x18bcfe569f4, 350}, {math.MaxInt64, 0x18bcfe569f4, 350},
	} {
		if timestamp, offset := x.Lookup(c.target); timestamp != c.timestamp || offset != c.offset {
			t.Errorf("Lookup(%d) = %d, %d", c.target, timestamp, offset)
		}
	}
}

func TestDamagedTimeIndex(t *testing.T) {
	for name, raw := range map[string]string{
		"timestamp negative": "ffffffffffffffff00000001",
		"timestamp twice":    "000000000000000500000001" + "000000000000000500000002",
		"timestamp descends": "000000000000000500000001" + "000000000000000400000002",
		"offset descends":    "000000000000000500000002" + "000000000000000600000001",
		"offset below base":  "0000000000000005ffffffff",
		"zeros between":      "000000000000000500000001" + "000000000000000000000000" + "000000000000000600000002",
		"ragged length":      "0000000000000005000000010000",
	} {
		_, err := ParseTimeIndex(unhex(t, raw), 100)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		wantKind(t, err, Corrupt)
	}
	// Entries may share an offset: an append that grew the maximum twice within a batch.
	if x, err := ParseTimeIndex(unhex(t, "000000000000000500000001"+"000000000000000600000001"), 100); err != nil || x.Len() != 2 {
		t.Errorf("%d entries, %v", x.Len(), err)
	}
}

// Each entry of a real broker's time index holds against the log beside it.
func TestTimeIndexOfSample(t *testing.T) {
	entries := 0
	sampleIndexes(t, ".timeindex", func(name string, base int64, raw, log []byte) {
		x, err := ParseTimeIndex(raw, base)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		entries += x.Len()
		for i := range x.Len() {
			timestamp, offset := x.Entry(i)
			for b := range Batches(log) {
				if b.Header.LastOffset() <= offset && b.Header.MaxTimestamp > timestamp {
					t.Fatalf("%s: %d at offset %d, but %d at %d", name, timestamp, offset,
						b.Header.MaxTimestamp, b.Header.LastOffset())
				}
			}
		}
	})
	if entries < 100 {
		t.Errorf("%d entries in the whole sample", entries)
	}
}

func FuzzTimeIndex(f *testing.F) {
	sampleIndexes(f, ".timeindex", func(_ string, base int64, raw, _ []byte) {
		f.Add(raw[:min(len(raw), 256)], base, int64(1_700_000_000_000))
	})
	f.Fuzz(func(t *testing.T, raw []byte, base, target int64) {
		x, err := ParseTimeIndex(raw, base)
		if err != nil {
			return
		}
		if timestamp, offset := x.Lookup(target); timestamp > target && timestamp != -1 || offset < base {
			t.Fatalf("Lookup(%d) = %d, %d", target, timestamp, offset)
		}
	})
}
