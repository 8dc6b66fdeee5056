package segment

import (
	"slices"
	"testing"
)

func TestBatches(t *testing.T) {
	log := slices.Concat(plainBatch(0, 3), buildMessage(1, 3, 0, 0, nil, []byte("value-3")), plainBatch(4, 2))
	var at []int64
	for b, err := range Batches(log) {
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(b.Bytes)) != b.Header.Size() || &b.Bytes[0] != &log[b.Position] || cap(b.Bytes) != len(b.Bytes) {
			t.Fatalf("batch at %d is no exact view", b.Position)
		}
		at = append(at, b.Position)
	}
	if len(at) != 3 || at[0] != 0 {
		t.Fatalf("positions %d", at)
	}

	// Cut anywhere, the whole batches before come out and then the cut is told.
	for n := range log {
		whole := 0
		var last error
		for _, err := range Batches(log[:n]) {
			if last = err; err == nil {
				whole++
			}
		}
		if slices.Contains(at, int64(n)) {
			if last != nil || whole != slices.Index(at, int64(n)) {
				t.Fatalf("cut between batches at %d: %d, %v", n, whole, last)
			}
			continue
		}
		wantKind(t, last, Truncated)
		if want, _ := slices.BinarySearch(at, int64(n)); whole != want-1 {
			t.Fatalf("cut at %d: %d batches", n, whole)
		}
	}

	for range Batches(log) {
		break
	}
}
