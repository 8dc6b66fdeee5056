package offload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"coldtap/segment"
)

// readAll reads a log to its end or its first error.
func readAll(log []byte, base, next int64) (batches []batch, err error) {
	r := newBatchReader(context.Background(), "log", bytes.NewReader(log), int64(len(log)), base, next)
	for {
		b, err := r.read()
		if errors.Is(err, io.EOF) && err == io.EOF {
			return batches, nil
		}
		if err != nil {
			return batches, err
		}
		b.Bytes = bytes.Clone(b.Bytes)
		batches = append(batches, b)
	}
}

func TestBatchLargerThanTheBuffer(t *testing.T) {
	small := encode(0, 0, batchSpec{value: []byte("a")})
	large := encode(1, 0, batchSpec{value: bytes.Repeat([]byte("0123456789"), 350_000)}) // 3.5 MB
	last := encode(2, 0, batchSpec{value: []byte("b")})
	log := bytes.Join([][]byte{small, large, last}, nil)
	batches, err := readAll(log, 0, 3)
	if err != nil || len(batches) != 3 || batches[1].Bytes != nil || batches[1].Size() != int64(len(large)) || !bytes.Equal(batches[2].Bytes, last) {
		t.Fatalf("%d batches, %v", len(batches), err)
	}
	for _, at := range []int{len(small) + 30, len(small) + wholeBatch, len(small) + len(large) - 1} {
		spoiled := bytes.Clone(log)
		spoiled[at] ^= 1
		var d *damage
		if batches, err := readAll(spoiled, 0, 3); !errors.As(err, &d) || len(batches) != 1 {
			t.Errorf("byte %d flipped: %d batches, %v", at, len(batches), err)
		}
	}
}

func TestBatchExactlyAsLargeAsTheBuffer(t *testing.T) {
	empty := encode(0, 0, batchSpec{value: make([]byte, 1<<19)})
	log := encode(0, 0, batchSpec{value: make([]byte, wholeBatch-(len(empty)-1<<19))})
	for len(log) != wholeBatch {
		t.Fatalf("the test's batch has %d bytes", len(log))
	}
	batches, err := readAll(append(log, encode(1, 0, batchSpec{})...), 0, 2)
	if err != nil || len(batches) != 2 || batches[0].Bytes == nil {
		t.Errorf("%d batches, %v", len(batches), err)
	}
}

func TestLogThatIsShorterThanItWasIsNoEnd(t *testing.T) {
	log := bytes.Join([][]byte{encode(0, 0, batchSpec{}), encode(1, 0, batchSpec{})}, nil)
	r := newBatchReader(t.Context(), "log", bytes.NewReader(log[:len(log)-10]), int64(len(log)), 0, 2)
	if _, err := r.read(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.read(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

// TestBatchesOutOfOrder: each follows a batch of offset 10 in epoch 3, in a segment that the next one's base 20 ends.
func TestBatchesOutOfOrder(t *testing.T) {
	first := encode(10, 3, batchSpec{})
	for name, tt := range map[string]struct {
		second []byte
		says   string // "" = it is in order
	}{
		"the next offset":            {encode(11, 3, batchSpec{}), ""},
		"the same offset":            {encode(10, 3, batchSpec{}), "11 is the least possible"},
		"up to the segment's end":    {encode(11, 3, batchSpec{offsets: 9}), ""},
		"one offset beyond":          {encode(11, 3, batchSpec{offsets: 10}), "the next segment begins at 20"},
		"a later epoch":              {encode(11, 4, batchSpec{}), ""},
		"an earlier epoch":           {encode(11, 2, batchSpec{}), "leader epoch 2 behind epoch 3"},
		"the first epoch":            {encode(11, 0, batchSpec{}), "leader epoch 0 behind epoch 3"},
		"no epoch":                   {encode(11, -1, batchSpec{}), ""},
		"zeros and then another one": {append(make([]byte, 100_000), 1), "corrupt"},
		"zeros":                      {make([]byte, 100_000), "nothing but zeros to the end, 100000 bytes"},
		"the beginning of a batch":   {encode(11, 3, batchSpec{})[:30], "a batch is cut short, 30 bytes are left"},
	} {
		batches, err := readAll(append(bytes.Clone(first), tt.second...), 10, 20)
		if tt.says == "" && (err != nil || len(batches) != 2) || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %d batches, %v", name, len(batches), err)
		}
	}
}

// TestReadBelow: what lies at or beyond the offset is not looked at, even when it is damaged.
func TestReadBelow(t *testing.T) {
	log := bytes.Join([][]byte{encode(0, 0, batchSpec{}), encode(1, 0, batchSpec{}), encode(2, 0, batchSpec{})[:8]}, nil)
	for to, want := range []int{0, 1, 2} {
		r := newBatchReader(t.Context(), "log", bytes.NewReader(log), int64(len(log)), 0, maxOffset)
		n := 0
		for {
			_, err := r.readBelow(int64(to), false)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("below %d: %v", to, err)
			}
			n++
		}
		if n != want {
			t.Errorf("%d batches below %d", n, to)
		}
	}
	log = append(encode(0, 0, batchSpec{}), encode(5, 0, batchSpec{})[:20]...)
	r := newBatchReader(t.Context(), "log", bytes.NewReader(log), int64(len(log)), 0, maxOffset)
	if _, err := r.readBelow(5, false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.readBelow(5, false); err != io.EOF {
		t.Errorf("behind a gap: %v", err)
	}
}

func TestOffsetsUpToTheLargest(t *testing.T) {
	base := int64(math.MaxInt64 - 10)
	log := bytes.Join([][]byte{encode(base, 0, batchSpec{offsets: 5}), encode(base+5, 0, batchSpec{offsets: 5})}, nil)
	if batches, err := readAll(log, base, maxOffset); err != nil || len(batches) != 2 {
		t.Errorf("%d batches, %v", len(batches), err)
	}
}

// A segment of messages of magic 1 that goes over to magic 2, as an old topic's does.
func TestOldMessages(t *testing.T) {
	old := []byte("\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x18\xe4\xe3\x21\xbc\x01\x00\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x01\x6b\x00\x00\x00\x01\x76")
	log := append(bytes.Clone(old), encode(11, 4, batchSpec{timestamp: 2000})...)
	batches, err := readAll(log, 10, 12)
	if err != nil || len(batches) != 2 || batches[0].Magic != 1 || batches[0].gap || batches[1].gap || batches[0].MaxTimestamp != 1000 {
		t.Errorf("%+v, %v", batches, err)
	}
}

// FuzzBatchReader feeds logs whose checksums are right, since no chance finds them. Its inputs are short, for the
// engine spends its time on shortening long ones.
func FuzzBatchReader(f *testing.F) {
	f.Add(encode(3, 1, batchSpec{producer: 9, control: true}), int64(3))
	f.Add(append(encode(0, 0, batchSpec{producer: 9, txn: true, offsets: 2}), encode(2, 0, batchSpec{producer: 9, control: true})...), int64(0))
	f.Add(append(encode(5, 2, batchSpec{offsets: 3, count: -1}), make([]byte, 20)...), int64(0))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x10\x1f\xec\xd7\x0a\x00\x00\x00\x00\x00\x01k\x00\x00\x00\x01v"), int64(10))
	f.Fuzz(func(t *testing.T, log []byte, base int64) {
		log = bytes.Clone(log)
		for rest := log; len(rest) >= segment.HeaderSize && rest[16] == 2; {
			h, err := segment.ParseHeader(rest, int64(len(rest)))
			if err != nil {
				break
			}
			seal(rest[:h.Size()])
			rest = rest[h.Size():]
		}
		got, err := readAll(log, base, maxOffset)
		at := int64(0)
		txns := startTransactions(base, false)
		x := newIndexes(max(base, 0), int64(len(log)), log, nil, log, nil)
		for i := range got {
			b := &got[i]
			raw := log[at:][:b.Size()]
			at += b.Size()
			if b.Position+b.Size() != at || sha256.Sum256(b.Bytes) != sha256.Sum256(raw) && b.Bytes != nil {
				t.Fatalf("batch %d is not the bytes at %d", i, b.Position)
			}
			if err := segment.VerifyCRC(&b.Header, raw); err != nil {
				t.Fatalf("batch %d was let through: %v", i, err)
			}
			if b.BaseOffset < base {
				t.Fatalf("batch %d at offset %d, base %d", i, b.BaseOffset, base)
			}
			txns.apply(b)
			x.checkBatch(b)
		}
		if err == nil && at != int64(len(log)) {
			t.Fatalf("%d bytes of %d were looked at", at, len(log))
		}
	})
}
