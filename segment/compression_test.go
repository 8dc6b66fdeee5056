package segment

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func skippable(n int) []byte {
	return append([]byte{0x53, 0x2a, 0x4d, 0x18, byte(n), byte(n >> 8), 0, 0}, make([]byte, n)...)
}

func TestG7StreamsOfSeveralFrames(t *testing.T) {
	payload := recordBytes(plainRecords(0, 300))
	for name, c := range map[string]struct {
		codec Codec
		src   []byte
	}{
		"zstd without size":      {Zstd, zstdStream(t, payload)},
		"zstd with size":         {Zstd, zstdWhole(t, payload)},
		"zstd, two frames":       {Zstd, append(zstdStream(t, payload[:999]), zstdWhole(t, payload[999:])...)},
		"zstd, skippable first":  {Zstd, append(skippable(70), zstdStream(t, payload)...)},
		"zstd, skippable last":   {Zstd, append(zstdStream(t, payload), skippable(0)...)},
		"zstd, skippable middle": {Zstd, slices.Concat(zstdWhole(t, payload[:9]), skippable(300), zstdWhole(t, payload[9:]))},
		"zstd, empty frame":      {Zstd, append(zstdWhole(t, nil), zstdStream(t, payload)...)},
		"gzip":                   {Gzip, gzipped(t, payload)},
		"gzip, two members":      {Gzip, gzipped(t, payload[:999], payload[999:])},
		"gzip, empty member":     {Gzip, gzipped(t, nil, payload, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			wantPlain(t, mustDecode(t, buildBatch(0, int16(c.codec), 299, 300, c.src)), 0, 300)
			for n := 0; n < len(c.src); n += 7 {
				d := NewDecoder(1<<20, nil)
				records, err := decodeAll(d, buildBatch(0, int16(c.codec), 299, 300, c.src[:n]))
				if err == nil && len(records) != 300 {
					t.Fatalf("cut at %d of %d: %d records and no error", n, len(c.src), len(records))
				}
			}
			_, err := decodeAll(NewDecoder(1<<20, nil), buildBatch(0, int16(c.codec), 299, 300, append(c.src, 1, 2, 3, 4, 5, 6, 7, 8)))
			wantKind(t, err, Corrupt)
		})
	}
}

// bomb gives what decompresses to n zero bytes.
func bomb(tb testing.TB, codec Codec, n int64) []byte {
	tb.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case Gzip:
		w = gzip.NewWriter(&out)
	case Zstd:
		var err error
		if w, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1)); err != nil {
			tb.Fatal(err)
		}
	}
	zeros := make([]byte, 1<<20)
	for ; n > 0; n -= int64(len(zeros)) {
		if _, err := w.Write(zeros[:min(n, int64(len(zeros)))]); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func TestG8DecompressionBombs(t *testing.T) {
	const size = 12 << 20
	zeros := make([]byte, 60_000)
	zstdBomb := bomb(t, Zstd, size)
	for name, c := range map[string]struct {
		codec Codec
		src   []byte
	}{
		"gzip":               {Gzip, bomb(t, Gzip, size)},
		"zstd":               {Zstd, zstdBomb},
		"zstd, many frames":  {Zstd, slices.Repeat(bomb(t, Zstd, 3<<19), 10)},
		"zstd after records": {Zstd, append(zstdWhole(t, recordBytes(plainRecords(0, 10))), zstdBomb...)},
		"snappy":             {Snappy, xerial(slices.Repeat([][]byte{zeros}, 200)...)},
		"lz4":                {LZ4, lz4Frame(t, make([]byte, size))},
		"lz4, many frames":   {LZ4, slices.Repeat(lz4Frame(t, make([]byte, 1<<20)), 12)},
	} {
		t.Run(name, func(t *testing.T) {
			b := buildBatch(0, int16(c.codec), 9, 10, c.src)
			const limit = 3 << 20
			budget := &testBudget{limit: math.MaxInt64}
			d := NewDecoder(limit, budget)
			_, err := decodeAll(d, b)
			wantKind(t, err, TooLarge)
			if budget.peak > limit*9/4+2*zstdBlock+zstdSlack {
				t.Errorf("%d bytes reserved at the peak", budget.peak)
			}
			if int64(cap(d.out.b)) > limit+zstdSlack {
				t.Errorf("buffer of %d bytes", cap(d.out.b))
			}
			d.Close()

			// With little left in the budget it ends early.
			d = NewDecoder(math.MaxInt64, &testBudget{limit: 2 << 20})
			_, err = decodeAll(d, b)
			wantKind(t, err, OverBudget)
			d.Close()
		})
	}
}

// What the codecs' readers allocate beside the reserved buffer stays small, whatever the bytes claim.
func TestG8NothingIsAllocatedUnreserved(t *testing.T) {
	window := func(descriptor byte) []byte { // a frame without size, of one stored byte, that asks for a window
		return []byte{0x28, 0xb5, 0x2f, 0xfd, 0, descriptor, 9, 0, 0, 'x'}
	}
	claim := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x58}, 0, 0, 0, 0, 1, 0, 0, 0) // 4 GiB, then one stored byte
	claim = append(claim, 9, 0, 0, 'x')
	gz := gzipped(t, []byte("x"))
	copy(gz[len(gz)-4:], "\xff\xff\xff\x7f")
	for name, c := range map[string]struct {
		codec Codec
		src   []byte
	}{
		"zstd bomb":                {Zstd, bomb(t, Zstd, 12<<20)},
		"zstd window of 256 MiB":   {Zstd, window(18 << 3)},
		"zstd window of 1 TiB":     {Zstd, window(30 << 3)},
		"zstd claims 4 GiB":        {Zstd, claim},
		"gzip bomb":                {Gzip, bomb(t, Gzip, 12<<20)},
		"gzip claims 2 GiB":        {Gzip, gz},
		"lz4 claims 4 MiB a block": {LZ4, lz4Frame(t, []byte("x"))},
	} {
		b := buildBatch(0, int16(c.codec), 9, 10, c.src)
		const limit = 2 << 20
		bytes := allocated(func() {
			d := NewDecoder(limit, nil)
			if _, err := decodeAll(d, b); err == nil {
				t.Errorf("%s: accepted", name)
			}
			d.Close()
		})
		if bytes > 4*limit {
			t.Errorf("%s: %d bytes allocated, limit %d", name, bytes, limit)
		}
	}
}

// zstd frames of small blocks may give far less than their headers allow; they must decode all the same, even when the
// limit lies between the two.
func TestZstdOfManySmallBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 900_000)
	for i := range data {
		data[i] = byte(random.IntN(16))
	}
	src := zstdStream(t, data) // a block per 1,000 bytes: 128 KiB each as far as headers tell
	f, err := measureZstd(src)
	if err != nil || f.size != len(src) || f.most < 100<<20 {
		t.Fatalf("%+v, %v", f, err)
	}
	for _, limit := range []int64{900_000, 1 << 20, 8 << 20} {
		budget := &testBudget{limit: 12 << 20}
		o := output{limit: limit, budget: budget}
		if err := o.unzstd(src); err != nil || !bytes.Equal(o.b, data) {
			t.Fatalf("limit %d: %v", limit, err)
		}
		o.close()
	}
	o := output{limit: 899_999}
	wantKind(t, o.unzstd(src), TooLarge)

	// Twice as much does not fit the first room, so it is tried again; frames follow one another in one buffer.
	big := slices.Repeat(data, 2)
	o = output{limit: 64 << 20}
	if err := o.unzstd(slices.Concat(zstdStream(t, big), src, zstdWhole(t, data))); err != nil ||
		!bytes.Equal(o.b, slices.Concat(big, data, data)) {
		t.Fatal(err)
	}
}

func TestZstdRefuses(t *testing.T) {
	frame := zstdWhole(t, bytes.Repeat([]byte("coldtap"), 100))
	low := bytes.Clone(frame)
	if low[4]>>6 != 1 {
		t.Fatalf("frame header %x", low[:8])
	}
	size := 5 // the content's size, 16 bits above 256, which a window descriptor may precede
	if low[4]&0x20 == 0 {
		size++
	}
	low[size] = 0
	for name, c := range map[string]struct {
		src  []byte
		want Kind
	}{
		"other magic":         {[]byte("zstandard"), Corrupt},
		"content size low":    {low, Corrupt},
		"checksum":            {append(bytes.Clone(frame[:len(frame)-1]), frame[len(frame)-1]^1), Corrupt},
		"reserved block":      {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 7, 0, 0}, Corrupt},
		"block of 256 KiB":    {append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 1, 0, 0x20}, make([]byte, 256<<10)...), Corrupt},
		"last block cut":      {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 5<<3 | 1, 0, 0, 'x'}, Corrupt},
		"dictionary":          {[]byte{0x28, 0xb5, 0x2f, 0xfd, 1, 0x58, 9, 9, 0, 0, 'x'}, Corrupt},
		"skippable frame cut": {skippable(9)[:12], Corrupt},
	} {
		o := output{limit: 1 << 20}
		err := o.unzstd(c.src)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		wantKind(t, err, c.want)
	}
	// A refusal leaves nothing behind in the pooled decoders.
	o := output{limit: 1 << 20}
	if err := o.unzstd(frame); err != nil || len(o.b) != 700 {
		t.Fatalf("%d bytes, %v", len(o.b), err)
	}
}

// Decoders share pools of codec readers.
func TestDecodersInParallel(t *testing.T) {
	payload := recordBytes(plainRecords(0, 300))
	batches := [][]byte{
		buildBatch(0, 1, 299, 300, gzipped(t, payload)), buildBatch(0, 2, 299, 300, xerial(payload)),
		buildBatch(0, 3, 299, 300, lz4Frame(t, payload)), buildBatch(0, 4, 299, 300, zstdStream(t, payload)),
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			d := NewDecoder(1<<20, nil)
			defer d.Close()
			for j := range 40 {
				records, err := decodeAll(d, batches[(i+j)%len(batches)])
				if err != nil || len(records) != 300 || string(records[299].Value) != "value-299" {
					t.Errorf("%d records, %v", len(records), err)
				}
			}
		})
	}
	all.Wait()
}

// Limits are exact: a batch of the limit decodes, one byte less refuses.
func TestLimitIsExact(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for codec, src := range map[Codec][]byte{
		Gzip: gzipped(t, data), Snappy: xerial(data[:30_000], data[30_000:]), LZ4: lz4Frame(t, data), Zstd: zstdWhole(t, data),
	} {
		d := NewDecoder(int64(len(data)), nil)
		if got, err := d.decompress(codec, src); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", codec, len(got), err)
		}
		// The kept buffer may be larger than what a smaller limit allows.
		d.out.limit--
		_, err := d.decompress(codec, src)
		wantKind(t, err, TooLarge)
	}
}

// gzip's window is 32 KiB: a batch of whole windows says that it ends only when more is asked for.
func TestLimitIsExactForWholeWindows(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	o := output{limit: int64(len(data))}
	if err := o.gunzip(gzipped(t, data)); err != nil || !bytes.Equal(o.b, data) {
		t.Errorf("%d bytes, %v", len(o.b), err)
	}
}

// countingBudget counts what is reserved.
type countingBudget struct {
	testBudget
	calls int
}

func (b *countingBudget) Reserve(n int64) error {
	b.calls++
	return b.testBudget.Reserve(n)
}

// What the bytes tell of the size is used: buffers are made once, and no larger than the frames can need.
func TestBuffersAreMadeOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	data := make([]byte, 1_800_000)
	for i := range data {
		data[i] = byte(random.IntN(16))
	}
	small, large := zstdWhole(t, data[:80_000]), zstdStream(t, data)
	room := 8 * int64(len(large))
	for name, c := range map[string]struct {
		codec       Codec
		src         []byte
		calls       int
		peak, limit int64
	}{
		"gzip, the size that its end claims": {Gzip, gzipped(t, data), 1, int64(len(data)), 64 << 20},
		"zstd, one block":                    {Zstd, small, 1, 80_000 + zstdSlack, 64 << 20},
		"zstd, blocks that might give more":  {Zstd, large, 2, room + zstdSlack + room + room/4 + 2*zstdBlock, 64 << 20},
	} {
		budget := &countingBudget{testBudget: testBudget{limit: math.MaxInt64}}
		d := NewDecoder(c.limit, budget)
		got, err := d.decompress(c.codec, c.src)
		if err != nil || !bytes.Equal(got, data[:len(got)]) {
			t.Fatalf("%s: %d bytes, %v", name, len(got), err)
		}
		if budget.calls != c.calls || budget.peak != c.peak {
			t.Errorf("%s: %d bytes in %d steps, want %d in %d", name, budget.peak, budget.calls, c.peak, c.calls)
		}
		size := cap(d.out.b)
		if _, err := d.decompress(c.codec, c.src); err != nil || cap(d.out.b) != size {
			t.Errorf("%s: again, the buffer of %d bytes has %d, %v", name, size, cap(d.out.b), err)
		}
		d.Close()
		if budget.used != 0 {
			t.Errorf("%s: %d bytes reserved after Close", name, budget.used)
		}
	}
	d := NewDecoder(64<<20, nil)
	two, size := slices.Concat(small, large), 0
	for n := range 3 {
		if _, err := d.decompress(Zstd, two); err != nil || n > 0 && cap(d.out.b) != size {
			t.Errorf("two frames, time %d: the buffer of %d bytes has %d, %v", n, size, cap(d.out.b), err)
		}
		size = cap(d.out.b)
	}
}

func BenchmarkDecompress(b *testing.B) {
	payload := recordBytes(plainRecords(0, 10_000))
	for codec, src := range map[Codec][]byte{
		Gzip: gzipped(b, payload), Snappy: xerial(slices.Collect(slices.Chunk(payload, 32<<10))...), LZ4: lz4Frame(b, payload),
		Zstd: zstdWhole(b, payload),
	} {
		b.Run(codec.String(), func(b *testing.B) {
			d := NewDecoder(64<<20, nil)
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.decompress(codec, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzZstd(f *testing.F) {
	data := bytes.Repeat([]byte("coldtap"), 100)
	f.Add(zstdStream(f, data))
	f.Add(append(zstdWhole(f, data), append(skippable(5), zstdStream(f, data)...)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := output{limit: 1 << 20}
		if err := o.unzstd(b); err != nil {
			return
		}
		// What we accept, the library's own way of reading frames gives too.
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		if got, err := z.DecodeAll(b, nil); err != nil || !bytes.Equal(got, o.b) || int64(len(got)) > o.limit {
			t.Fatalf("%d bytes, the library has %d, %v", len(o.b), len(got), err)
		}
	})
}
