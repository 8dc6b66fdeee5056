package fetch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"coldtap/segment"
)

// logBytes reads a range of the log of the segment that begins at offset 0: what came before the end or the error, in
// how many runs.
func (s *harness) logBytes(from, to int64) (got []byte, runs int, err error) {
	s.tb.Helper()
	f, err := s.OpenFile(s.tb.Context(), "t", segment.UUID{}, 0, "0", "log", 0)
	if err != nil {
		s.tb.Fatal(err)
	}
	fs := f.Range(from, to)
	defer fs.Close()
	var run Run
	defer run.Release()
	for {
		if err := fs.Next(s.tb.Context(), &run); err == io.EOF {
			return got, runs, nil
		} else if err != nil {
			return got, runs, err
		}
		if len(run.Bytes()) == 0 {
			s.tb.Fatal("an empty run")
		}
		got = append(got, run.Bytes()...)
		runs++
	}
}

// mixed is a log of batches of all sizes, with an index, and its batches' positions.
func mixed() (log, index []byte, starts []int64) {
	var pairs []int64
	for o := int64(0); o < 60; o++ {
		at := int64(len(log))
		if o > 0 && o%4 == 0 {
			pairs = append(pairs, o, at)
		}
		starts = append(starts, at)
		log = append(log, one(o, 1000, int(90+o*37%900))...)
	}
	return log, offsetIndex(0, pairs...), starts
}

// Every range comes out as stored, however batches, chunks and the range's edges lie to each other, and a whole log in
// one GET and at most two runs a chunk.
func TestLogRanges(t *testing.T) {
	log, index, _ := mixed()
	size := int64(len(log))
	for _, chunk := range []int64{130, 1000, 4096, size, 1 << 20} {
		for name, x := range map[string][]byte{"": index, " without an index": nil} {
			s := newHarness(t, shape{chunk: chunk, memory: max(64*chunk, 1<<16)})
			s.topic("t", 0)
			s.add(stored{base: 0, end: 59, log: log, files: segment.Files{OffsetIndex: x}})
			got, runs, err := s.logBytes(0, size)
			chunks := int((size + chunk - 1) / chunk)
			if err != nil || !bytes.Equal(got, log) || s.logGets() != chunks || chunk >= 1000 && runs > 2*chunks {
				t.Errorf("chunks of %d%s: %d bytes in %d runs, %d GETs for %d chunks: %v", chunk, name, len(got), runs, s.logGets(), chunks, err)
			}
			for from := int64(0); from < size; from += 97 {
				for _, n := range []int64{1, 50, 700, 5000} {
					to := min(from+n, size)
					if got, _, err := s.logBytes(from, to); err != nil || !bytes.Equal(got, log[from:to]) {
						t.Fatalf("chunks of %d%s, [%d, %d): %d bytes, %v", chunk, name, from, to, len(got), err)
					}
				}
			}
		}
	}
}

// No byte of a damaged batch is handed out, whichever part of it is asked for; all others are.
func TestLogRangeOfDamagedBatch(t *testing.T) {
	log, index, starts := mixed()
	size := int64(len(log))
	begin, end := starts[30], starts[31]
	for name, at := range map[string]int64{"first byte": begin, "length": begin + 11, "magic": begin + 16, "header": begin + 30, "last byte": end - 1} {
		bad := bytes.Clone(log)
		bad[at] ^= 0x10
		for _, chunk := range []int64{130, 1000, 1 << 16} {
			s := newHarness(t, shape{chunk: chunk, memory: max(1<<16, 64*chunk)})
			s.topic("t", 0)
			s.add(stored{base: 0, end: 59, log: bad, files: segment.Files{OffsetIndex: index}})
			for _, c := range [][2]int64{{0, size}, {begin - 700, begin + 1}, {begin - 1, size}, {begin, end}, {begin, begin + 1}, {end - 1, end}, {begin + 10, begin + 20}} {
				what := fmt.Sprintf("%s, chunks of %d, [%d, %d)", name, chunk, c[0], c[1])
				got, _, err := s.logBytes(c[0], c[1])
				e := wantKind(t, what, &answer{err: err}, Damaged)
				if e.Position != begin || e.Segment != idOf(1) {
					t.Errorf("%s: %v at %d, want %d", what, e, e.Position, begin)
				}
				if before := max(begin-c[0], 0); !bytes.Equal(got, log[c[0]:c[0]+before]) {
					t.Errorf("%s: %d bytes before the damage, want %d", what, len(got), before)
				}
			}
			for _, c := range [][2]int64{{0, begin}, {begin - 1, begin}, {starts[32], size}, {size - 1, size}} {
				if got, _, err := s.logBytes(c[0], c[1]); err != nil || !bytes.Equal(got, log[c[0]:c[1]]) {
					t.Errorf("%s, chunks of %d, [%d, %d) is sound: %d bytes, %v", name, chunk, c[0], c[1], len(got), err)
				}
			}
		}
	}
}

// What is damaged only in transit heals, as for records.
func TestLogRangeHeals(t *testing.T) {
	s, _ := repaired(t, shape{chunk: 10_000, memory: 1 << 20}, 50_500, 1)
	got, _, err := s.logBytes(0, 100_000)
	if err != nil || !bytes.Equal(got, s.logs[idOf(1)].log) || s.logGets() != 11 || s.refetches(healed) != 1 {
		t.Errorf("%d bytes, %d GETs, healed %v: %v", len(got), s.logGets(), s.refetches(healed), err)
	}
}

// A tail behind the last offset is no batch: it is given as it is. Zeros in place of batches are damage.
func TestLogRangeTail(t *testing.T) {
	log := joined(dense(0, 49, false), dense(50, 99, false))
	for _, zeros := range []int{1, 17, 5000} {
		for _, chunk := range []int64{300, 4096} {
			long := append(bytes.Clone(log), make([]byte, zeros)...)
			size := int64(len(long))
			s := newHarness(t, shape{chunk: chunk})
			s.topic("t", 0)
			s.add(stored{base: 0, end: 99, log: long})
			for _, from := range []int64{0, 10, int64(len(log)) - 1, int64(len(log)), size - 1} {
				if got, _, err := s.logBytes(from, size); err != nil || !bytes.Equal(got, long[from:]) {
					t.Errorf("%d zeros, chunks of %d, from %d: %d bytes, %v", zeros, chunk, from, len(got), err)
				}
			}
			s = newHarness(t, shape{chunk: chunk})
			s.topic("t", 0)
			s.add(stored{base: 0, end: 149, maxTime: 1, log: long})
			if got, _, err := s.logBytes(0, size); kindOf(err) != Damaged || !bytes.Equal(got, log) {
				t.Errorf("%d zeros for batches: %d bytes, %v", zeros, len(got), err)
			}
		}
	}
}

// Messages of magic 0 and 1 have checksums too.
func TestLogRangeOfLegacyMessages(t *testing.T) {
	log := joined(legacy(0, 0, 0, "a"), legacy(1, 1, 1000, "b"), legacy(4, 1, 1000, "c"), dense(6, 9, false))
	for _, chunk := range []int64{40, 4096} {
		s := newHarness(t, shape{chunk: chunk})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 9, log: log})
		for from := range int64(len(log)) {
			if got, _, err := s.logBytes(from, int64(len(log))); err != nil || !bytes.Equal(got, log[from:]) {
				t.Errorf("from %d: %d bytes, %v", from, len(got), err)
			}
		}
		bad := bytes.Clone(log)
		bad[26] ^= 1 // the first message's value
		s = newHarness(t, shape{chunk: chunk})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 9, log: bad})
		if got, _, err := s.logBytes(0, 100); kindOf(err) != Damaged || len(got) > 0 {
			t.Errorf("damaged: %d bytes, %v", len(got), err)
		}
	}
}

// An index that points anywhere makes a range slower, not wrong.
func TestLogRangeWithWrongIndex(t *testing.T) {
	log, index, starts := mixed()
	size := int64(len(log))
	for name, shift := range map[string]func(entry int) uint32{
		"one entry":      func(i int) uint32 { return map[bool]uint32{true: 13}[i == 7] },
		"two entries":    func(i int) uint32 { return map[bool]uint32{true: 13}[i == 7 || i == 6] },
		"every position": func(int) uint32 { return 5 },
	} {
		wrong := bytes.Clone(index)
		for i := 0; i < len(wrong); i += 8 {
			binary.BigEndian.PutUint32(wrong[i+4:], binary.BigEndian.Uint32(wrong[i+4:])+shift(i/8))
		}
		s := newHarness(t, shape{chunk: 1000})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 59, log: log, files: segment.Files{OffsetIndex: wrong}})
		from := starts[33]
		if got, _, err := s.logBytes(from, size); err != nil || !bytes.Equal(got, log[from:]) || s.refetches(healed)+s.refetches(stillDamaged) != 0 {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), size-from, err)
		}
	}
}

// Where there is no memory for two chunks, or a batch takes more, it is joined, and its memory given back.
func TestLogRangeOutlivesStream(t *testing.T) {
	log, _, _ := mixed()
	s := newHarness(t, shape{chunk: 100, memory: 400, window: -1})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 59, log: log})
	f, err := s.OpenFile(t.Context(), "t", segment.UUID{}, 0, "0", "log", 0)
	if err != nil {
		t.Fatal(err)
	}
	fs := f.Range(500, 5000)
	var runs [4]Run
	var got []byte
	for i := range runs {
		if err := fs.Next(t.Context(), &runs[i]); err != nil {
			t.Fatal(err)
		}
	}
	fs.Close()
	for i := range runs {
		got = append(got, runs[i].Bytes()...)
		runs[i].Release()
	}
	if !bytes.Equal(got, log[500:500+len(got)]) {
		t.Error("other bytes after the stream was closed")
	}
}
