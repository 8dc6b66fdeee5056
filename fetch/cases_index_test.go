package fetch

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// indexed is one segment of a hundred batches of 1,000 bytes with the given files.
func indexed(t *testing.T, files segment.Files) *harness {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	var log []byte
	for o := int64(0); o < 100; o++ {
		log = append(log, one(o, 1000+o, 1000)...)
	}
	s.add(stored{base: 0, end: 99, log: log, files: files})
	return s
}

// F1: positions beyond the log, or where no batch begins, or beyond the offset, cost only time.
func TestF1WrongPositions(t *testing.T) {
	for name, index := range map[string][]byte{
		"beyond the log":       offsetIndex(0, 10, 10_000, 50, 999_999),
		"inside a batch":       offsetIndex(0, 10, 10_000, 50, 50_123),
		"all inside batches":   offsetIndex(0, 10, 10_001, 50, 50_123),
		"beyond the offset":    offsetIndex(0, 10, 10_000, 50, 70_000),
		"all beyond":           offsetIndex(0, 10, 60_000, 50, 70_000),
		"near the end":         offsetIndex(0, 10, 10_000, 50, 99_999),
		"descending":           offsetIndex(0, 50, 50_000, 10, 10_000),
		"ragged":               offsetIndex(0, 50, 50_000)[:7],
		"offsets beyond claim": offsetIndex(0, 50, 50_000, 500, 60_000),
	} {
		s := indexed(t, segment.Files{OffsetIndex: index})
		r := from(60)
		r.MaxBytes = 2000
		want(t, name, s.records(r), []int64{60, 61}, EndLimit, 62)
		if a := s.raw(r); fmt.Sprint(a.offsets) != "[60 61]" || a.next != 62 {
			t.Errorf("%s, raw: %v", name, a)
		}
		r.EndOffset = 75
		r.MaxBytes = 1 << 20
		want(t, name+", with an end", s.records(r), offsetsOf(60, 74), EndRange, 75)
	}
}

// F1: a batch that is damaged where the index points is damage, not a wrong index.
func TestF1DamageIsNotTheIndex(t *testing.T) {
	s := indexed(t, segment.Files{OffsetIndex: offsetIndex(0, 10, 10_000, 50, 50_000)})
	for _, l := range s.logs {
		l.log[50_500] ^= 1
	}
	for _, a := range []*answer{s.records(from(50)), s.raw(from(50))} {
		if e := wantKind(t, "damage", a, Damaged); e.Position != 50_000 || e.NextOffset != 51 {
			t.Errorf("at %d, next %d", e.Position, e.NextOffset)
		}
	}
	want(t, "behind it", s.records(from(55)), offsetsOf(55, 99), EndTier, 100)
	if n := testutil.ToFloat64(s.metrics.fallbacks); n != 2 {
		t.Errorf("%v positions of a right index are called wrong", n)
	}
}

// F2: indexes of zero bytes, or none.
func TestF2EmptyIndexes(t *testing.T) {
	for _, files := range []segment.Files{{OffsetIndex: []byte{}, TimeIndex: []byte{}}, {}} {
		s := indexed(t, files)
		r := from(60)
		r.MaxRecords = 1
		want(t, "records", s.records(r), []int64{60}, EndLimit, 61)
		if got := s.at(1060, ReadUncommitted); got.Offset != 60 {
			t.Errorf("by time: %+v", got)
		}
	}
}

// F3: preallocated indexes with their zero tail.
func TestF3ZeroTailIndex(t *testing.T) {
	var offsets, times []int64
	for o := int64(5); o < 100; o += 5 {
		offsets = append(offsets, o, o*1000)
		times = append(times, 1000+o, o)
	}
	s := indexed(t, segment.Files{
		OffsetIndex: append(offsetIndex(0, offsets...), make([]byte, 64<<10)...),
		TimeIndex:   append(timeIndex(0, times...), make([]byte, 12<<10)...),
	})
	for _, offset := range []int64{99, 5, 4, 50} {
		before := s.logGets()
		r := from(offset)
		r.MaxBytes = 1000
		if a := s.records(r); len(a.offsets) != 1 || a.offsets[0] != offset {
			t.Errorf("at %d: %v", offset, a)
		}
		if got := s.at(1000+offset, ReadUncommitted); got.Offset != offset {
			t.Errorf("at time %d: %+v", 1000+offset, got)
		}
		if n := s.logGets() - before; n > 5 {
			t.Errorf("offset %d took %d reads", offset, n)
		}
	}
}

// F4: a segment that spans more than 2^31 offsets.
func TestF4WideSegment(t *testing.T) {
	far := int64(math.MaxInt32) + 1
	wide := batchOf{base: 20, last: math.MaxInt32 - 20, records: []rec{{time: 1}}}.encode()
	s := newHarness(t, shape{})
	s.topic("t", 0)
	index := append(offsetIndex(0, 9, 0), 0x80, 0, 0, 0, 0, 0, 0, 1)
	s.add(stored{base: 0, end: far + 9, log: joined(dense(0, 9, false), wide, dense(far, far+9, false)), files: segment.Files{OffsetIndex: index}})
	want(t, "far", s.records(from(far+2)), offsetsOf(far+2, far+9), EndTier, far+10)
	r := from(10)
	r.MaxRecords = 2
	want(t, "near", s.records(r), []int64{20, far}, EndLimit, far+1)
}

// F6: ranges of a segment file end where they should, whatever the chunk length.
func TestF6FileRanges(t *testing.T) {
	for _, chunk := range []int64{1000, 10_001, 10_000, 4096} {
		s := newHarness(t, shape{chunk: chunk})
		s.topic("t", 0)
		log := one(0, 1000, 10_001)
		if len(log) != 10_001 {
			t.Fatal(len(log))
		}
		seg := s.add(stored{base: 0, end: 0, log: log})
		f, err := s.OpenFile(t.Context(), "t", segment.UUID{}, 0, seg.ID.String(), "log", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range [][2]int64{{0, 10_001}, {0, 1}, {999, 1001}, {10_000, 10_001}, {10_001, 10_001}, {4095, 9000}, {-5, 20_000}, {7, 3}} {
			got := readFile(t, f, r[0], r[1])
			lo, hi := max(r[0], 0), min(r[1], 10_001)
			if !bytes.Equal(got, log[lo:max(lo, hi)]) {
				t.Errorf("chunks of %d: [%d, %d) gave %d bytes", chunk, r[0], r[1], len(got))
			}
		}
	}
}

// F7: a header cut by a chunk border at each of its bytes, cold and warm, and with no memory for two chunks.
func TestF7StraddledHeader(t *testing.T) {
	const chunk = 256
	for cut := 0; cut <= segment.HeaderSize+30; cut++ {
		s := newHarness(t, shape{chunk: chunk, memory: 4 * chunk})
		s.topic("t", 0)
		log := joined(one(0, 1000, chunk-cut), dense(1, 9, false), one(10, 1000, 100), one(11, 1000, 900), one(12, 1001, 100))
		s.add(stored{base: 0, end: 12, log: log})
		for range 2 {
			want(t, fmt.Sprint("records, cut ", cut), s.records(from(0)), offsetsOf(0, 12), EndTier, 13)
			if a := s.raw(from(0)); !bytes.Equal(joined(a.batches...), log) {
				t.Errorf("raw, cut %d: %v", cut, a)
			}
			want(t, fmt.Sprint("from the cut batch ", cut), s.records(from(1)), offsetsOf(1, 12), EndTier, 13)
		}
	}
}
