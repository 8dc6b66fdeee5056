package fetch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"coldtap/segment"

	"github.com/klauspost/compress/zstd"
)

// compressed is a batch of one record, whose value of size bytes is noise up to a share of 1/noise.
func compressed(base int64, codec segment.Codec, size, noise int) []byte {
	value := make([]byte, size)
	rng := rand.New(rand.NewPCG(uint64(size), 1))
	for i := range size / noise {
		value[i] = byte(rng.Uint32())
	}
	b := batchOf{base: base, records: []rec{{time: 1000, value: string(value)}}}.encode()
	payload := b[segment.HeaderSize:]
	var z bytes.Buffer
	switch codec {
	case segment.Gzip:
		w := gzip.NewWriter(&z)
		w.Write(payload)
		w.Close()
	case segment.Zstd:
		w, _ := zstd.NewWriter(&z)
		w.Write(payload)
		w.Close()
	}
	b = append(b[:segment.HeaderSize:segment.HeaderSize], z.Bytes()...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[22] |= byte(codec)
	seal(b)
	return b
}

// On an idle server nothing is Busy, which would invite the same request for ever: a batch can be decoded, or never.
func TestIdleIsNeverBusy(t *testing.T) {
	const decode = 512 << 10
	for _, codec := range []segment.Codec{segment.Gzip, segment.Zstd} {
		for _, noise := range []int{1, 1000} {
			for _, chunk := range []int64{32 << 10, 1 << 20} {
				served := 0
				for _, size := range []int{160_000, 238_000, 253_000, 268_000, 500_000} {
					t.Run(fmt.Sprintf("%v, 1 of %d bytes noise, chunks of %d, %d bytes", codec, noise, chunk, size), func(t *testing.T) {
						s := newHarness(t, shape{chunk: chunk, memory: 32 * chunk, decode: decode})
						s.topic("t", 0)
						s.add(stored{base: 0, end: 1, log: joined(one(0, 1000, 100), compressed(1, codec, size, noise))})
						// A caller has a buffer of its own.
						if !s.decode.TryAcquire(64 << 10) {
							t.Fatal("no memory")
						}
						defer s.decode.Release(64 << 10)
						a := s.records(from(1))
						if a.err == nil {
							served = size
							return
						}
						e := wantKind(t, "too large", a, TooLarge)
						undecoded := s.raw(from(1))
						if !strings.Contains(e.Detail, "limits.decode_memory") || strings.Contains(e.Detail, "damaged") || e.NextOffset != 2 ||
							!strings.Contains(e.Detail, "application/vnd.kafka.recordbatch") || undecoded.err != nil {
							t.Errorf("%+v; undecoded: %v", e, undecoded.err)
						}
						if s.refetches(stillDamaged) != 0 {
							t.Error("a sound batch was read again")
						}
					})
				}
				if served < decode*3/10 {
					t.Errorf("%v, 1/%d noise, chunks of %d: at most %d bytes are decoded", codec, noise, chunk, served)
				}
				t.Log(codec, noise, chunk, served)
			}
		}
	}
}

// The decompression buffer doubles. Where old and new buffer together would be too much, a smaller step must do.
func TestSmallerStepOfGrowth(t *testing.T) {
	s := newHarness(t, shape{chunk: 16 << 10, decode: 1 << 20})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 12, log: joined(dense(0, 9, true), compressed(10, segment.Gzip, 460_000, 10), compressed(11, segment.Gzip, 300_000, 10), dense(12, 12, true))})
	want(t, "all", s.records(from(0)), offsetsOf(0, 12), EndTier, 13)
}

// A caller that decodes beside the stream can tell what the stream holds.
func TestDecodeHeld(t *testing.T) {
	s := newHarness(t, shape{chunk: 1 << 20, memory: 8 << 20})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 1, log: joined(one(0, 1000, 100), compressed(1, segment.Gzip, 300_000, 2))})
	st, err := s.Open(t.Context(), from(0))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var rec segment.Record
	for _, least := range []int64{0, 300_000} {
		if err := st.NextRecord(t.Context(), &rec); err != nil {
			t.Fatal(err)
		}
		if held := st.DecodeHeld(); held < least || held > 2*least || held != s.decode.InUse() {
			t.Errorf("at offset %d: %d bytes, in use %d", rec.Offset, held, s.decode.InUse())
		}
	}
	if err := st.NextRecord(t.Context(), &rec); err == nil || st.DecodeHeld() != 0 {
		t.Errorf("at the end: %v, %d bytes", err, st.DecodeHeld())
	}
}

// Who opened a stream may wait for decode memory of its own next, and who was given a run may be a client that takes
// nothing: neither leaves a batch decoded that nobody looks at any more.
func TestNothingStaysDecodedForNobody(t *testing.T) {
	s := newHarness(t, shape{chunk: 1 << 20, memory: 8 << 20})
	s.topic("t", 0)
	var compacted batchOf // fewer records than offsets
	for i := range 50 {
		compacted.records = append(compacted.records, rec{delta: 2 * i, time: 2000 + int64(i), value: strings.Repeat("v", 4000)})
	}
	compacted.base, compacted.zip = 1, true
	s.add(stored{base: 0, end: 100, log: joined(one(0, 1000, 100), compacted.encode(), one(100, 3000, 100))})
	byTime := from(0)
	byTime.Start, byTime.Timestamp = FromTimestamp, 2010
	counted := from(10)
	counted.MaxRecords = 1000
	for name, r := range map[string]*Request{"by time": byTime, "so many records": counted} {
		st, err := s.Open(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if n := s.decode.InUse(); n != 0 {
			t.Errorf("%s: %d bytes of decode memory are held by a stream of which nothing was read", name, n)
		}
		var run Run
		for ; err == nil; err = st.NextRun(t.Context(), &run) {
			if n := s.decode.InUse(); n != 0 {
				t.Errorf("%s: %d bytes of decode memory are held beside a run", name, n)
			}
		}
		run.Release()
		st.Close()
	}
}

// A raw answer gives a batch that the decode memory cannot take, also where its records would tell whether it is
// wanted, or whether they end the answer: the error of the other formats says that raw gives it.
func TestRawGivesWhatCannotBeDecoded(t *testing.T) {
	for _, chunk := range []int64{4 << 10, 64 << 10} {
		s := newHarness(t, shape{chunk: chunk, memory: 1 << 20, decode: 256 << 10})
		s.topic("t", 0)
		large := batchOf{base: 1, zip: chunk > 4<<10}
		for i := range 50 {
			large.records = append(large.records, rec{delta: 2 * i, time: 2000 + int64(i), value: strings.Repeat("v", 8000)})
		}
		s.add(stored{base: 0, end: 100, log: joined(one(0, 1000, 100), large.encode(), one(100, 3000, 100))})
		wantKind(t, "records", s.records(from(10)), TooLarge)
		counted, inside, before := from(10), from(0), from(0)
		counted.MaxRecords = 20
		inside.EndTimestamp, inside.StartTimestamp, inside.HasStartTimestamp = 2010, 2005, true
		before.EndTimestamp, before.Lateness = 1500, 1000
		for name, r := range map[string]*Request{"so many records": counted, "up to a time in it": inside, "up to a time before it": before} {
			a := s.raw(r)
			given := false
			for _, b := range a.batches {
				h, _ := segment.ParseHeader(b, 1<<30)
				given = given || h.BaseOffset == 1
			}
			if a.err != nil || !given {
				t.Errorf("%s, chunks of %d: %v", name, chunk, a)
			}
		}
	}
}
