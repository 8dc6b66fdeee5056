package aiven

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A leader-epoch checkpoint that the plugin sealed.
func TestUnsealOfThePlugin(t *testing.T) {
	aead, err := newAEAD(fromHex(t, "7623ec732aa0f6291a9d7e688d33af6b8d8286cff67500a761595f762a7af7ae"))
	if err != nil {
		t.Fatal(err)
	}
	aad := fromHex(t, "6be2336cb3da4dd3f75957b65a8d535c1b9bfd6b34c7e29129a90d4542a816fe")
	const sealed = "3ac35cb75aed9c2e36199d2918f6375b9b20db6c21d2017e1d3f76294317182daa43ca99"
	for _, out := range [][]byte{nil, make([]byte, 0, 8), {}} {
		if b, err := unseal(aead, aad, fromHex(t, sealed), out); err != nil || string(b) != "0\n1\n0 0\n" {
			t.Errorf("%q, %v", b, err)
		}
	}
	for i := range len(sealed) / 2 {
		b := fromHex(t, sealed)
		b[i] ^= 0x10
		if _, err := unseal(aead, aad, b, nil); !errors.Is(err, errSeal) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := unseal(aead, aad, fromHex(t, sealed)[:i], nil); !errors.Is(err, errSeal) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
}

// testEntry is an entry for chunks of w.
func testEntry(tb testing.TB, w *writer) *manifestEntry {
	tb.Helper()
	m := &manifestEntry{Manifest: &Manifest{Compressed: w.compressed, Encrypted: w.keyID != ""}}
	if m.Encrypted {
		w.dataKey, w.aad = bytes.Repeat([]byte{7}, dataKeySize), []byte("aad")
		aead, err := newAEAD(w.dataKey)
		if err != nil {
			tb.Fatal(err)
		}
		m.aead, m.seal.aad = aead, w.aad
	}
	return m
}

func mustOpener(tb testing.TB, parallel int) *opener {
	tb.Helper()
	o, err := newOpener(parallel)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func TestDamagedChunks(t *testing.T) {
	chunk := testLog(40_000)
	zeros := make([]byte, len(chunk))
	unsized := compressUnsized(t, chunk)
	for name, tt := range map[string]struct {
		w      writer
		stored []byte
		says   string
	}{
		"not zstd":         {writer{compressed: true}, []byte("no zstd frame here"), "zstd"},
		"bomb":             {writer{compressed: true}, compress(make([]byte, 4<<20)), "4194304 bytes where 40000 belong"},
		"shorter":          {writer{compressed: true}, compress(chunk[1:]), "where 40000 belong"},
		"no size":          {writer{compressed: true}, unsized, "where 40000 belong"},
		"skippable":        {writer{compressed: true}, append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0}, 1, 2, 3, 4), "where 40000"},
		"two frames":       {writer{compressed: true}, append(compress(zeros), compress(chunk)...), "zstd"},
		"cut":              {writer{compressed: true}, compress(chunk)[:10_000], "zstd"},
		"not sealed":       {writer{compressed: true, keyID: "k1"}, compress(chunk), "authentication"},
		"sealed and short": {writer{keyID: "k1"}, []byte("short"), "authentication"},
	} {
		m := testEntry(t, &tt.w)
		units := []unit{{chunk: 5, stored: bytes.Clone(tt.stored), out: make([]byte, len(chunk))}}
		err := mustOpener(t, 1).openAll(context.Background(), m, units)
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "chunk 5") {
			t.Errorf("%s: %v, want something about %q", name, err, tt.says)
		}
	}
}

// A claim of the right size over a frame that holds more must not reach the bytes behind.
func TestChunkStaysInItsPlace(t *testing.T) {
	frame := compress(bytes.Repeat([]byte("a"), 300))
	at := bytes.IndexByte(frame, byte(300-256)) // the size field, two bytes less 256
	if at < 0 {
		t.Fatal("no size in the frame")
	}
	lying := bytes.Clone(frame)
	lying[at]-- // 299
	for name, b := range map[string][]byte{"true": frame, "lying": lying} {
		out := bytes.Repeat([]byte{'-'}, 400)
		n := 300
		if name == "lying" {
			n = 299
		}
		z, err := newDecoder()
		if err != nil {
			t.Fatal(err)
		}
		_, err = unpack(z, b, out[:n])
		z.Close()
		if (err == nil) != (name == "true") {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(out[n:], bytes.Repeat([]byte{'-'}, 400-n)) {
			t.Errorf("%s: bytes behind the chunk were written", name)
		}
	}
}

func TestOpenInParallel(t *testing.T) {
	for _, parallel := range []int{1, 3} {
		o := mustOpener(t, parallel)
		for name, w := range writers(10_000) {
			if name == "plain" {
				continue
			}
			m := testEntry(t, w)
			log := testLog(95_000)
			stored, sizes := w.store(log)
			got := make([]byte, len(log))
			var units []unit
			for i, at := 0, 0; i < len(sizes); i++ {
				from, to := i*w.chunk, min((i+1)*w.chunk, len(log))
				units = append(units, unit{i, stored[at : at+sizes[i]], got[from:to]})
				at += sizes[i]
			}
			if err := o.openAll(t.Context(), m, units); err != nil || !bytes.Equal(got, log) {
				t.Errorf("%s, %d at a time: %v", name, parallel, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := o.openAll(ctx, m, units); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: after the caller left: %v", name, err)
			}
			if len(o.decoders) != parallel {
				t.Errorf("%s: %d decoders of %d came back", name, len(o.decoders), parallel)
			}
		}
	}
}

// FuzzOpen opens hostile chunks: each gives the whole chunk or an error.
func FuzzOpen(f *testing.F) {
	chunk := testLog(5000)
	for _, w := range []*writer{{compressed: true}, {keyID: "k1"}, {compressed: true, keyID: "k1"}} {
		w.chunk = 5000
		testEntry(f, w)
		stored, _ := w.store(chunk)
		f.Add(stored, w.compressed, w.keyID != "", 5000)
	}
	f.Add(compress(make([]byte, 1<<20)), true, false, 5000)
	o := mustOpener(f, 1)
	f.Fuzz(func(t *testing.T, stored []byte, compressed, sealed bool, size int) {
		if size < 1 || size > 32<<10 || !compressed && !sealed {
			return
		}
		w := &writer{compressed: compressed}
		if sealed {
			w.keyID = "k1"
		}
		m := testEntry(t, w)
		out := bytes.Repeat([]byte{0xaa}, size+64)
		err := o.openAll(context.Background(), m, []unit{{0, bytes.Clone(stored), out[:size:size]}})
		if !bytes.Equal(out[size:], bytes.Repeat([]byte{0xaa}, 64)) {
			t.Fatal("bytes behind the chunk were written")
		}
		if err == nil && sealed {
			b, err := unseal(m.aead, m.seal.aad, bytes.Clone(stored), nil)
			if err != nil || !compressed && !bytes.Equal(b, out[:size]) {
				t.Fatalf("opened, yet %v", err)
			}
		}
	})
}

// compressUnsized makes a frame without the size of its content.
func compressUnsized(t *testing.T, b []byte) []byte {
	t.Helper()
	var frame bytes.Buffer
	z, err := zstd.NewWriter(&frame, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{b[:1000], b[1000:]} {
		if _, err := z.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return frame.Bytes()
}
