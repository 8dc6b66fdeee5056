package segment

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestParseHeaderFields(t *testing.T) {
	b := goldenBytes(t, "A1")
	got, err := ParseHeader(b[:HeaderSize], int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	want := Header{
		BaseOffset: 100, Length: 82, LeaderEpoch: 5, Magic: 2, CRC: 0x55e98469, Attributes: 0x10, LastOffsetDelta: 2,
		BaseTimestamp: 1700000000000, MaxTimestamp: 1700000000005, ProducerID: 4000, ProducerEpoch: 1, BaseSequence: 7,
		Count: 3,
	}
	if got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if got.Size() != 94 || got.LastOffset() != 102 || got.Codec() != None || !got.IsTransactional() || got.IsControl() {
		t.Fatalf("derived fields of %+v", got)
	}
}

func TestParseHeaderLegacy(t *testing.T) {
	for id, want := range map[string]Header{
		"A6": {BaseOffset: 10, Length: 16, LeaderEpoch: -1, Magic: 0, CRC: 0x1fecd70a, BaseTimestamp: -1,
			MaxTimestamp: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 1},
		"A9": {BaseOffset: 11, Length: 77, LeaderEpoch: -1, Magic: 1, CRC: 0xd45bd00f, Attributes: 1,
			BaseTimestamp: 1001, MaxTimestamp: 1001, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: -1},
	} {
		got, err := ParseHeader(goldenBytes(t, id), 1<<20)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", id, got, err, want)
		}
		if got.LastOffset() != got.BaseOffset || got.IsTransactional() || got.IsControl() {
			t.Errorf("%s: derived fields", id)
		}
	}
	// Bits that mean "transactional" and "control" in v2 mean nothing before.
	b := buildMessage(1, 3, 0x30, 0, nil, []byte("v"))
	if h, err := ParseHeader(b, 100); err != nil || h.IsTransactional() || h.IsControl() {
		t.Errorf("magic 1 with attributes 0x30: %+v, %v", h, err)
	}
}

// A reader that has only the start of a batch learns its size first and the rest when it has more.
func TestParseHeaderCutAnywhere(t *testing.T) {
	for id, full := range map[string]int{"A1": HeaderSize, "A3": HeaderSize, "A6": 26, "A7": 34} {
		b := goldenBytes(t, id)
		want, err := ParseHeader(b, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for n := range b {
			h, err := ParseHeader(b[:n], 1000)
			if n >= full {
				if err != nil || h != want {
					t.Fatalf("%s cut at %d: %+v, %v", id, n, h, err)
				}
				continue
			}
			wantKind(t, err, Truncated)
			if n >= EntryPrefix && (h.Size() != want.Size() || h.Magic != want.Magic || h.BaseOffset != want.BaseOffset) {
				t.Fatalf("%s cut at %d: %+v", id, n, h)
			}
		}
	}
}

func TestG9LyingLengthAndCount(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int
		v    uint32
		want Kind
	}{
		{"length negative", 8, 0xfffffff0, Corrupt},
		{"length huge", 8, 0x7ffffff0, TooLarge},
		{"length zero", 8, 0, Corrupt},
		{"length 13", 8, 13, Corrupt},
		{"length below a v2 header", 8, 48, Corrupt},
		{"count negative", 57, 0xffffffff, Corrupt},
		{"count huge", 57, 0x7fffffff, Corrupt},
		{"count above offsets", 57, 4, Corrupt},
		{"last offset delta negative", 23, 0xfffffffb, Corrupt},
		{"base offset negative", 0, 0x80000000, Corrupt},
		{"last offset beyond int64", 0, 0x7fffffff, Corrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := goldenBytes(t, "A1")
			if c.at == 0 {
				binary.BigEndian.PutUint64(b, math.MaxUint64>>1)
			}
			binary.BigEndian.PutUint32(b[c.at:], c.v)
			_, err := ParseHeader(b, 1<<20)
			wantKind(t, err, c.want)
			if err := NewDecoder(1<<20, nil).Open(b); err == nil {
				t.Fatal("opened")
			}
		})
	}

	// Offsets enough for the count, but bytes that cannot hold it: refused before anything is sized by it.
	b := goldenBytes(t, "A1")
	binary.BigEndian.PutUint32(b[23:], math.MaxInt32-1)
	binary.BigEndian.PutUint32(b[57:], math.MaxInt32)
	wantKind(t, NewDecoder(1<<20, nil).Open(b), Corrupt)
}

func TestG11UnknownMagicAndCodec(t *testing.T) {
	b := goldenBytes(t, "A1")
	b[16] = 3
	_, err := ParseHeader(b, 1000)
	wantKind(t, err, Unsupported)
	if want := "batch header: unsupported at byte 16: magic 3 at offset 100"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	b[16] = 0xff
	_, err = ParseHeader(b, 1000)
	wantKind(t, err, Unsupported)

	// A codec is no business of those who pass the bytes on.
	for codec := byte(5); codec < 8; codec++ {
		b = goldenBytes(t, "A1")
		b[22] |= codec
		if _, err := ParseHeader(b, 1000); err != nil {
			t.Errorf("codec %d: %v", codec, err)
		}
		wantKind(t, NewDecoder(1<<20, nil).Open(b), Unsupported)
	}
	wantKind(t, NewDecoder(1<<20, nil).Open(buildMessage(1, 3, 4, 0, nil, zstdWhole(t, nil))), Unsupported)
}

func TestG12ZeroTailIsCorrupt(t *testing.T) {
	_, err := ParseHeader(make([]byte, 4096), 1<<20)
	wantKind(t, err, Corrupt)

	log := append(plainBatch(0, 3), make([]byte, 4096)...)
	var positions []int64
	var last error
	for b, err := range Batches(log) {
		positions, last = append(positions, b.Position), err
	}
	wantKind(t, last, Corrupt)
	if len(positions) != 2 || positions[1] != int64(len(log)-4096) {
		t.Errorf("positions %d of %d bytes", positions, len(log))
	}
}

func TestVerifyCRC(t *testing.T) {
	for id := range golden {
		if id == "A16" || id == "A17" {
			continue
		}
		b := goldenBytes(t, id)
		h, err := ParseHeader(b, int64(len(b)))
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		// A batch may straddle two buffers anywhere, header included.
		for cut := range len(b) + 1 {
			if err := VerifyCRC(&h, b[:cut], b[cut:]); err != nil {
				t.Fatalf("%s cut at %d: %v", id, cut, err)
			}
		}
		for cut := range b {
			wantKind(t, VerifyCRC(&h, b[:cut]), Truncated)
		}
		wantKind(t, VerifyCRC(&h, b, []byte{0}), Corrupt)

		skip := crcStartV2
		if h.Magic < 2 {
			skip = crcStartLegacy
		}
		for i := skip; i < len(b); i++ {
			b[i] ^= 0x10
			wantKind(t, VerifyCRC(&h, b), Corrupt)
			b[i] ^= 0x10
		}
	}
}

// The leader epoch is outside the CRC, so a broker may rewrite it.
func TestG10cLeaderEpochIsOutsideTheCRC(t *testing.T) {
	b := goldenBytes(t, "A1")
	binary.BigEndian.PutUint32(b[12:], 77)
	h, err := ParseHeader(b, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifyCRC(&h, b); err != nil {
		t.Fatal(err)
	}
	if records := mustDecode(t, b); records[0].LeaderEpoch != 77 {
		t.Fatalf("leader epoch %d", records[0].LeaderEpoch)
	}
}

func TestHeaderAllocatesNothing(t *testing.T) {
	b := goldenBytes(t, "A1")
	if n := testing.AllocsPerRun(100, func() {
		h, err := ParseHeader(b, 1000)
		if err != nil || VerifyCRC(&h, b[:30], b[30:]) != nil {
			t.Fatal("refused")
		}
		if _, err := ParseHeader(b[:20], 1000); err == nil {
			t.Fatal("accepted")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParseHeader(b *testing.B) {
	raw := goldenBytes(b, "A1")
	b.ReportAllocs()
	var sum int64
	for b.Loop() {
		h, _ := ParseHeader(raw, 1000)
		sum += h.LastOffset()
	}
	_ = sum
}

func FuzzHeader(f *testing.F) {
	for id := range golden {
		f.Add(goldenBytes(f, id), int64(1000))
	}
	f.Fuzz(func(t *testing.T, b []byte, limit int64) {
		h, err := ParseHeader(b, limit)
		if err != nil {
			return
		}
		if h.Size() > limit || h.Size() < minSizeV0 || h.BaseOffset < 0 || h.LastOffset() < h.BaseOffset ||
			h.LastOffset()+1 < 0 || int64(h.Count) > h.LastOffset()-h.BaseOffset+1 {
			t.Fatalf("unsafe header %+v", h)
		}
		_ = VerifyCRC(&h, b)
	})
}
