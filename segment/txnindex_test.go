package segment

import (
	"bytes"
	"slices"
	"testing"
)

func TestTxnIndexGolden(t *testing.T) {
	want := []AbortedTxn{{4000, 100, 103, 104}, {4001, 90, 200, 150}}
	got, err := ParseTxnIndex(goldenBytes(t, "A17"), 100)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	if raw := AppendTxnIndex(nil, want...); !bytes.Equal(raw, goldenBytes(t, "A17")) {
		t.Errorf("wrote %x", raw)
	}
	if got, err := ParseTxnIndex(nil, 100); err != nil || len(got) != 0 {
		t.Errorf("no bytes: %+v, %v", got, err)
	}
}

func TestB7DamagedTxnIndex(t *testing.T) {
	raw := goldenBytes(t, "A17")
	version := bytes.Clone(raw[:34])
	version[1] = 9
	for _, c := range []struct {
		name string
		raw  []byte
		base int64
		want Kind
	}{
		{"33 bytes", raw[:33], 0, Truncated},
		{"part of a second entry", raw[:50], 0, Truncated},
		{"version 9", version, 0, Unsupported},
		{"marker below the segment", raw, 104, Corrupt},
		{"markers descend", AppendTxnIndex(nil, AbortedTxn{1, 5, 9, 10}, AbortedTxn{2, 6, 8, 9}), 0, Corrupt},
		{"marker twice", AppendTxnIndex(nil, AbortedTxn{1, 5, 9, 10}, AbortedTxn{1, 5, 9, 10}), 0, Corrupt},
		{"last before first", AppendTxnIndex(nil, AbortedTxn{1, 10, 9, 10}), 0, Corrupt},
		{"first negative", AppendTxnIndex(nil, AbortedTxn{1, -1, 9, 10}), 0, Corrupt},
		{"producer negative", AppendTxnIndex(nil, AbortedTxn{-1, 1, 9, 10}), 0, Corrupt},
		{"stable offset negative", AppendTxnIndex(nil, AbortedTxn{1, 1, 9, -2}), 0, Corrupt},
		{"zeros after an entry", append(AppendTxnIndex(nil, AbortedTxn{1, 5, 9, 10}), make([]byte, 34)...), 0, Corrupt},
	} {
		got, err := ParseTxnIndex(c.raw, c.base)
		if err == nil || got != nil {
			t.Errorf("%s: %+v, %v", c.name, got, err)
			continue
		}
		wantKind(t, err, c.want)
	}
}

// Each entry of a real transaction index names an ABORT marker in the log beside it.
func TestTxnIndexOfSample(t *testing.T) {
	sampleIndexes(t, ".txnindex", func(name string, base int64, raw, log []byte) {
		txns, err := ParseTxnIndex(raw, base)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(AppendTxnIndex(nil, txns...), raw) {
			t.Errorf("%s: written differently", name)
		}
		markers := map[int64]int64{}
		for b := range Batches(log) {
			if b.Header.IsControl() {
				if kind, _, ok, _ := ParseControl(b.Bytes); ok && kind == ControlAbort {
					markers[b.Header.LastOffset()] = b.Header.ProducerID
				}
			}
		}
		if len(txns) == 0 {
			t.Errorf("%s: no entries", name)
		}
		for _, x := range txns {
			if markers[x.LastOffset] != x.ProducerID {
				t.Errorf("%s: %+v has no marker", name, x)
			}
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	f.Add(goldenBytes(f, "A17"), int64(100))
	sampleIndexes(f, ".txnindex", func(_ string, base int64, raw, _ []byte) { f.Add(raw, base) })
	f.Fuzz(func(t *testing.T, raw []byte, base int64) {
		if txns, err := ParseTxnIndex(raw, base); err == nil && !bytes.Equal(AppendTxnIndex(nil, txns...), raw) {
			t.Fatalf("%+v", txns)
		}
	})
}
