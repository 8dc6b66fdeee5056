package segment

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pierrec/lz4/v4"
)

func TestG4LZ4HeaderChecksumOfOldProducers(t *testing.T) {
	inner0, inner1 := innerMessages(0, 7), innerMessages(1, 0)
	records := recordBytes(plainRecords(0, 1))
	small := lz4.BlockSizeOption(lz4.Block64Kb)
	wrong := func(data []byte) []byte {
		frame := lz4Frame(t, data, small)
		if string(frame[:7]) != "\x04\x22\x4d\x18\x60\x40\x82" {
			t.Fatalf("frame starts %x", frame[:7])
		}
		frame[6] = 0x1a
		return frame
	}
	for name, b := range map[string][]byte{
		"Kafka's own, magic 0":  goldenBytes(t, "A10"),
		"Kafka's own, magic 1":  goldenBytes(t, "A11"),
		"Kafka's own, v2":       goldenBytes(t, "A14"),
		"magic 0, wrong":        buildMessage(0, 7, 3, 0, nil, wrong(inner0)),
		"magic 0, right as now": buildMessage(0, 7, 3, 0, nil, lz4Frame(t, inner0, small)),
		"magic 1, right":        buildMessage(1, 7, 3, 0, nil, lz4Frame(t, inner1, small)),
		"v2, right":             buildBatch(7, 3, 0, 1, lz4Frame(t, records, small)),
	} {
		if got := mustDecode(t, b); len(got) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, b := range map[string][]byte{
		"magic 1, wrong": buildMessage(1, 7, 3, 0, nil, wrong(inner1)),
		"v2, wrong":      buildBatch(7, 3, 0, 1, wrong(records)),
	} {
		_, err := decodeAll(NewDecoder(1<<20, nil), b)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		wantKind(t, err, Corrupt)
	}
}

func TestG5LZ4FrameOptions(t *testing.T) {
	payload := recordBytes(plainRecords(0, 100))

	stored := slices.Concat(unhex(t, "04224d18604082"), binary.LittleEndian.AppendUint32(nil, lz4Stored|uint32(len(payload))),
		payload, make([]byte, 4))
	frames := map[string][]byte{
		"plain":            lz4Frame(t, payload),
		"content size":     lz4Frame(t, payload, lz4.SizeOption(uint64(len(payload)))),
		"content checksum": lz4Frame(t, payload, lz4.ChecksumOption(true)),
		"block checksums":  lz4Frame(t, payload, lz4.BlockChecksumOption(true)),
		"everything": lz4Frame(t, payload, lz4.SizeOption(uint64(len(payload))), lz4.ChecksumOption(true),
			lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block256Kb)),
		"stored block": stored,
		"two frames": append(lz4Frame(t, payload[:500], lz4.ChecksumOption(true)),
			lz4Frame(t, payload[500:], lz4.ChecksumOption(true))...),
		"empty frame first": append(lz4Frame(t, nil), lz4Frame(t, payload)...),
	}
	for name, frame := range frames {
		wantPlain(t, mustDecode(t, buildBatch(0, 3, 99, 100, frame)), 0, 100)
		for n := range frame {
			_, err := decodeAll(NewDecoder(1<<20, nil), buildBatch(0, 3, 99, 100, frame[:n]))
			if err == nil {
				t.Fatalf("%s cut at %d of %d: accepted", name, n, len(frame))
			}
		}
	}

	// Where checksums cover everything, no flipped bit goes unnoticed.
	for _, name := range []string{"everything", "two frames"} {
		frame := frames[name]
		for i := range frame {
			frame[i] ^= 0x04
			if _, err := decodeAll(NewDecoder(1<<20, nil), buildBatch(0, 3, 99, 100, frame)); err == nil {
				t.Fatalf("%s: bit flipped in byte %d: accepted", name, i)
			}
			frame[i] ^= 0x04
		}
	}
}

func TestLZ4Refuses(t *testing.T) {
	header := func(flags, block byte, more ...byte) []byte {
		b := append([]byte{0x04, 0x22, 0x4d, 0x18, flags, block}, more...)
		return append(b, byte(xxh32(b[4:])>>8))
	}
	blocks := func(head []byte, size uint32, data ...byte) []byte {
		return append(append(binary.LittleEndian.AppendUint32(head, size), data...), 0, 0, 0, 0)
	}
	for name, c := range map[string]struct {
		src  []byte
		want Kind
	}{
		"nothing":                    {nil, Corrupt},
		"other magic":                {slices.Concat([]byte{1, 2, 3, 4}, blocks(header(0x60, 0x40), 0)), Corrupt},
		"version 2":                  {blocks(header(0xa0, 0x40), 0), Unsupported},
		"version 2, and no more":     {header(0xa0, 0x40), Unsupported},
		"content checksum":           {append(blocks(header(0x64, 0x40), lz4Stored|1, 'a'), 1, 2, 3, 4), Corrupt},
		"length goes on at the end":  {blocks(header(0x60, 0x40), 1, 0xf0), Corrupt},
		"match goes on at the end":   {blocks(header(0x60, 0x40), 4, 0x1f, 'a', 1, 0), Corrupt},
		"linked blocks":              {blocks(header(0x40, 0x40), 0), Unsupported},
		"dictionary":                 {blocks(header(0x61, 0x40, 1, 2, 3, 4), 0), Unsupported},
		"reserved flag":              {blocks(header(0x62, 0x40), 0), Unsupported},
		"reserved block bits":        {blocks(header(0x60, 0x41), 0), Unsupported},
		"block size 3":               {blocks(header(0x60, 0x30), 0), Unsupported},
		"block above the maximum":    {blocks(header(0x60, 0x40), 65537, make([]byte, 65537)...), Corrupt},
		"stored above the maximum":   {blocks(header(0x60, 0x40), lz4Stored|65537, make([]byte, 65537)...), Corrupt},
		"expands above the maximum":  {blocks(header(0x60, 0x40), 304, slices.Concat([]byte{0x1f, 'a', 1, 0}, bytes.Repeat([]byte{255}, 299), []byte{0, 0})[:304]...), Corrupt},
		"no literals at the end":     {blocks(header(0x60, 0x40), 4, 0x10, 'a', 1, 0), Corrupt},
		"offset before the start":    {blocks(header(0x60, 0x40), 7, 0x10, 'a', 9, 0, 0x20, 'b', 'c'), Corrupt},
		"content size of another":    {blocks(header(0x68, 0x40, 2, 0, 0, 0, 0, 0, 0, 0), lz4Stored|1, 'a'), Corrupt},
		"content size of 2^64-1":     {blocks(header(0x68, 0x40, bytes.Repeat([]byte{0xff}, 8)...), lz4Stored|1, 'a'), Corrupt},
		"garbage after the end mark": {append(blocks(header(0x60, 0x40), lz4Stored|1, 'a'), 1, 2, 3), Corrupt},
	} {
		o := output{limit: 1 << 20}
		err := o.unlz4(c.src, true)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		wantKind(t, err, c.want)
	}
}

// What a block gives is known only when its last length is whole.
func TestLZ4BlockSize(t *testing.T) {
	for raw, want := range map[string]int64{
		"00": 0, "1061": 1, "1061010020" + "6262": 7, "f000" + "616161616161616161616161616161": 15,
		"f0": -1, "f0ff": -1, "10": -1, "106101": -1, "1f610100": -1, "10610100": -1,
	} {
		if size, ok := lz4BlockSize(unhex(t, raw)); ok != (want >= 0) || ok && size != want {
			t.Errorf("%s: %d %t, want %d", raw, size, ok, want)
		}
	}
}

// A block that no end mark follows is decompressed first, within the limit.
func TestLZ4LimitComesBeforeTheEndMark(t *testing.T) {
	frame := append(unhex(t, "04224d18604082"), 5, 0, 0, 0x80, 'h', 'e', 'l', 'l', 'o')
	o := output{limit: 4}
	wantKind(t, o.unlz4(frame, true), TooLarge)
}

// A client that declares blocks of 4 MiB for a small batch does not cost 4 MiB.
func TestLZ4ReservesWhatItNeeds(t *testing.T) {
	payload := recordBytes(plainRecords(0, 100))
	budget := &testBudget{limit: 64 << 10}
	d := NewDecoder(8<<20, budget)
	defer d.Close()
	records, err := decodeAll(d, buildBatch(0, 3, 99, 100, lz4Frame(t, payload, lz4.BlockSizeOption(lz4.Block4Mb))))
	if err != nil {
		t.Fatal(err)
	}
	wantPlain(t, records, 0, 100)
}

// Against the library's own frame reader, over data of every kind of compressibility.
func TestLZ4AgainstTheLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		data := make([]byte, random.IntN(150_000))
		for j := range data {
			data[j] = byte(random.IntN(1 + i%7*i))
		}
		frame := lz4Frame(t, data, lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(i%2 == 0), lz4.BlockChecksumOption(i%3 == 0))
		o := output{limit: 1 << 20}
		if err := o.unlz4(frame, true); err != nil || !bytes.Equal(o.b, data) {
			t.Fatalf("%d bytes: %v", len(data), err)
		}
	}
}

func FuzzLZ4(f *testing.F) {
	f.Add(lz4Frame(f, []byte("hello hello hello hello hello")))
	f.Add(lz4Frame(f, bytes.Repeat([]byte("abc"), 50), lz4.ChecksumOption(true), lz4.BlockChecksumOption(true)))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := output{limit: 1 << 20}
		if err := o.unlz4(b, true); err != nil {
			return
		}
		if int64(len(o.b)) > o.limit {
			t.Fatalf("%d bytes", len(o.b))
		}
		// What we accept the library reads the same.
		got, err := io.ReadAll(lz4.NewReader(bytes.NewReader(b)))
		if err == nil && !bytes.Equal(got, o.b) {
			t.Fatalf("%x, the library has %x", o.b, got)
		}
	})
}
