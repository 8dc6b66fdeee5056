package segment

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/snappy"
)

func TestG6SnappyFramedRawAndLookalike(t *testing.T) {
	payload := recordBytes(plainRecords(0, 20))
	// A value that makes the records exactly 130 bytes: a raw block of them starts with 0x82, as xerial's magic does.
	lookalike := recordBytes([]testRecord{{value: bytes.Repeat([]byte("x"), 121)}})
	if len(lookalike) != 130 || snappy.Encode(nil, lookalike)[0] != 0x82 {
		t.Fatalf("lookalike of %d bytes", len(lookalike))
	}
	framed := xerial(payload[:100], payload[100:])
	for name, compressed := range map[string][]byte{
		"framed":                 framed,
		"raw":                    snappy.Encode(nil, payload),
		"two streams":            append(xerial(payload[:100]), xerial(payload[100:200], payload[200:])...),
		"stream after a header":  append(xerial(), xerial(payload)...),
		"many chunks":            xerial(payload[:50], payload[50:51], payload[51:200], payload[200:]),
		"framing of a newer one": append([]byte(xerialMagic+"\x00\x00\x00\x02\x00\x00\x00\x01"), xerial(payload)[16:]...),
	} {
		t.Run(name, func(t *testing.T) {
			wantPlain(t, mustDecode(t, buildBatch(0, 2, 19, 20, compressed)), 0, 20)
		})
	}
	if r := mustDecode(t, buildBatch(0, 2, 0, 1, snappy.Encode(nil, lookalike))); len(r[0].Value) != 121 {
		t.Fatalf("value of %d bytes", len(r[0].Value))
	}

	// Cut anywhere, a framed payload is an error: never fewer records.
	for n := range framed {
		if _, err := decodeAll(NewDecoder(1<<20, nil), buildBatch(0, 2, 19, 20, framed[:n])); err == nil {
			t.Fatalf("cut at %d of %d: accepted", n, len(framed))
		}
	}
}

func TestSnappyStreams(t *testing.T) {
	hello := unhex(t, "051068656c6c6f")
	for name, c := range map[string]struct {
		src  []byte
		want string
	}{
		"raw":         {hello, "hello"},
		"two streams": {append(xerial([]byte("hello")), xerial([]byte("hello"))...), "hellohello"},
		"magic alone": {xerial(), ""},
	} {
		o := output{limit: 100}
		if err := o.unsnappy(c.src); err != nil || string(o.b) != c.want {
			t.Errorf("%s: %q, %v", name, o.b, err)
		}
	}
}

func TestSnappyRefuses(t *testing.T) {
	chunk := func(n uint32, b ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(xerial(), n), b...)
	}
	for name, c := range map[string]struct {
		src  []byte
		want Kind
	}{
		"nothing":                   {nil, Corrupt},
		"chunk beyond the payload":  {chunk(6, 1, 2, 3), Corrupt},
		"chunk length negative":     {chunk(0xffffffff, 1, 2, 3), Corrupt},
		"chunk length cut":          {append(xerial([]byte("x")), 0, 0), Corrupt},
		"second header cut":         {append(xerial([]byte("x")), xerial()[:12]...), Corrupt},
		"second header of no magic": {append(xerial([]byte("x")), "\x82SNAPPX\x00\x00\x00\x00\x01\x00\x00\x00\x01"...), Corrupt},
		"framing version 0":         {[]byte(xerialMagic + "\x00\x00\x00\x00\x00\x00\x00\x01"), Unsupported},
		"garbage block":             {chunk(4, 0x20, 0xff, 0xff, 0xff), Corrupt},
		"size of 4 GiB in 5 bytes":  {unhex(t, "ffffffff0f00"), Corrupt},
		"size without the bytes":    {append(unhex(t, "808004"), make([]byte, 100)...), Corrupt},
	} {
		budget := &testBudget{limit: 1 << 20}
		o := output{limit: 1 << 30, budget: budget}
		err := o.unsnappy(c.src)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		wantKind(t, err, c.want)
		if budget.peak > 64<<10 {
			t.Errorf("%s: %d bytes reserved", name, budget.peak)
		}
	}
}

func FuzzSnappy(f *testing.F) {
	f.Add(xerial([]byte("hello"), []byte("world")))
	f.Add(append(xerial([]byte("hello")), xerial([]byte("hello"))...))
	f.Add(snappy.Encode(nil, bytes.Repeat([]byte("abc"), 50)))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := output{limit: 1 << 20}
		if err := o.unsnappy(b); err == nil && int64(len(o.b)) > o.limit {
			t.Fatalf("%d bytes", len(o.b))
		}
	})
}
