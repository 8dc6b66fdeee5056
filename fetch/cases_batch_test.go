package fetch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"coldtap/segment"
)

// The cases named here, and in the other files cases_*_test.go, are faults that readers of Kafka logs have had.

// A2: the first surviving batch lies above the segment's base offset.
func TestA2FirstBatchAboveBase(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 99, log: dense(0, 95, false)})
	s.add(stored{base: 100, end: 199, log: dense(105, 199, false), files: segment.Files{OffsetIndex: offsetIndex(100, 199, 0)}})
	for _, offset := range []int64{96, 99, 100, 103, 105} {
		r := from(offset)
		r.MaxRecords = 2
		want(t, fmt.Sprint("records at ", offset), s.records(r), []int64{105, 106}, EndLimit, 107)
		if a := s.raw(r); len(a.batches) != 1 || a.offsets[0] != 105 || a.next != 200 {
			t.Errorf("raw at %d: %v", offset, a)
		}
	}
	r := from(90)
	r.EndOffset = 98
	want(t, "an end in the gap", s.records(r), offsetsOf(90, 95), EndRange, 98)
}

// A3: a batch with zero records, whose header names a codec.
func TestA3EmptyBatch(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	empty := batchOf{base: 10, last: 9, attrs: 2}.encode()
	if len(empty) != 61 {
		t.Fatalf("the empty batch has %d bytes", len(empty))
	}
	log := joined(dense(0, 9, false), empty, dense(20, 29, false))
	s.add(stored{base: 0, end: 29, log: log})
	r := from(12)
	r.MaxBytes = 1
	if a := s.raw(r); len(a.batches) != 2 || !bytes.Equal(joined(a.batches...), log[len(dense(0, 9, false)):]) || a.next != 30 {
		t.Errorf("raw: %v, %d batches", a, len(a.batches))
	}
	r.MaxRecords = 1
	want(t, "records", s.records(r), []int64{20}, EndLimit, 21)
	r.EndOffset = 15
	want(t, "only the empty batch", s.records(r), nil, EndRange, 15)
}

// A4: a segment that holds only markers.
func TestA4OnlyMarkers(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 100)
	var log []byte
	for o := int64(100); o < 105; o++ {
		b := marker(o, 7, 1, 5000)
		if len(b) != 78 {
			t.Fatalf("a marker has %d bytes", len(b))
		}
		log = append(log, b...)
	}
	decided := segment.Files{Decided: true}
	s.add(stored{base: 100, end: 104, log: log, files: decided})
	s.add(stored{base: 105, end: 124, log: joined(dense(105, 114, false), dense(115, 124, false)), files: decided})
	for _, isolation := range []Isolation{ReadCommitted, ReadUncommitted} {
		r := from(100)
		r.Isolation, r.MaxRecords, r.MaxBytes = isolation, 10, 1
		want(t, "records", s.records(r), offsetsOf(105, 114), EndLimit, 115)
	}
	r := from(100)
	r.Isolation, r.EndOffset = ReadCommitted, 105
	want(t, "nothing to show", s.records(r), nil, EndRange, 105)
	if a := s.raw(r); len(a.batches) != 0 || a.next != 105 || a.end != EndRange {
		t.Errorf("raw, committed: %v", a)
	}
	r.Isolation = ReadUncommitted
	if a := s.raw(r); !bytes.Equal(joined(a.batches...), log) || a.next != 105 {
		t.Errorf("raw, uncommitted: markers are to pass unchanged: %v", a)
	}
}

// A5: a start in the middle of a batch.
func TestA5MiddleOfBatch(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	first, second, third := dense(0, 9, true), dense(10, 19, true), dense(20, 29, true)
	s.add(stored{base: 0, end: 29, log: joined(first, second, third)})
	r := from(15)
	r.MaxBytes = int64(len(first) + len(second) - 1)
	if a := s.raw(r); len(a.batches) != 1 || !bytes.Equal(a.batches[0], second) || a.next != 20 || a.end != EndLimit {
		t.Errorf("raw: %d batches, %v", len(a.batches), a)
	}
	r.MaxRecords = 3
	want(t, "records", s.records(r), []int64{15, 16, 17}, EndLimit, 18)
	if a := s.raw(r); len(a.batches) != 1 || a.next != 20 {
		t.Errorf("raw with max records: %v", a)
	}
	r.MaxRecords, r.MaxBytes = 6, 1<<20
	if a := s.raw(r); len(a.batches) != 2 || a.next != 30 {
		t.Errorf("raw: the batch that reaches the sixth record is the last: %v", a)
	}
}

// A6: the last record's offset is lower than the batch's last offset.
func TestA6RecordsMissingAtEnd(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 30)
	thinned := batchOf{base: 30, last: 9}
	for i := range 7 {
		thinned.records = append(thinned.records, rec{delta: i, time: 1000})
	}
	s.add(stored{base: 30, end: 49, log: joined(thinned.encode(), dense(40, 49, false))})
	r := from(38)
	r.MaxRecords = 1
	want(t, "at 38", s.records(r), []int64{40}, EndLimit, 41)
	r = from(30)
	r.MaxRecords = 7
	want(t, "seven records", s.records(r), offsetsOf(30, 36), EndLimit, 40)
	if a := s.raw(from(38)); len(a.batches) != 2 || !bytes.Equal(a.batches[0], thinned.encode()) {
		t.Errorf("raw at 38: %v", a)
	}
	r = from(33)
	r.MaxRecords = 5
	if a := s.raw(r); len(a.batches) != 2 {
		t.Errorf("raw from 33: the first batch holds 4 of the 5 records: %v", a)
	}
}

// A7: segments of exactly one batch.
func TestA7OneBatchSegments(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	for o := int64(0); o < 3; o++ {
		s.add(stored{base: o, end: o, log: one(o, 1000+o, 100)})
	}
	for o := int64(0); o < 3; o++ {
		r := from(o)
		r.EndOffset = o + 1
		want(t, "alone", s.records(r), []int64{o}, EndRange, o+1)
		got, err := s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, 1000+o, ReadUncommitted, 0)
		if err != nil || got.Offset != o {
			t.Errorf("at time %d: %+v %v", 1000+o, got, err)
		}
	}
	want(t, "in one go", s.records(from(0)), []int64{0, 1, 2}, EndTier, 3)
	if a := s.raw(from(0)); len(a.batches) != 3 {
		t.Errorf("raw: %v", a)
	}
}

// E1: a batch larger than every limit, and larger than many chunks, comes whole and once.
func TestE1OversizeBatch(t *testing.T) {
	s := newHarness(t, shape{chunk: 64 << 10, memory: 256 << 10, decode: 16 << 20})
	s.topic("t", 100)
	big := one(100, 1000, 3<<20)
	s.add(stored{base: 100, end: 101, log: joined(big, one(101, 1001, 100))})
	r := from(100)
	r.MaxBytes = 1 << 10
	if a := s.raw(r); len(a.batches) != 1 || !bytes.Equal(a.batches[0], big) || a.next != 101 || a.end != EndLimit {
		t.Errorf("raw: %v", a)
	}
	want(t, "records", s.records(r), []int64{100}, EndLimit, 101)
	want(t, "both", s.records(from(100)), []int64{100, 101}, EndTier, 102)

	small := newHarness(t, shape{chunk: 64 << 10, memory: 256 << 10, decode: 1 << 20})
	small.topic("t", 100)
	small.add(stored{base: 100, end: 100, log: big})
	if a := small.raw(from(100)); len(a.batches) != 1 || !bytes.Equal(a.batches[0], big) {
		t.Errorf("raw, above the decode memory's share: %v", a)
	}
	if e := wantKind(t, "above the decode memory's share", small.records(from(100)), TooLarge); e.NextOffset != 101 {
		t.Errorf("%+v", e)
	}
}

// E9: the batch that does not fit any more is left out, never cut.
func TestE9NoCutBatch(t *testing.T) {
	s := newHarness(t, shape{})
	s.plain()
	r := from(0)
	r.MaxBytes = 2500
	if a := s.raw(r); len(a.batches) != 2 || a.next != 2 || a.end != EndLimit {
		t.Errorf("raw: %v", a)
	}
	want(t, "records", s.records(r), []int64{0, 1}, EndLimit, 2)
}

// G9: lengths and counts that lie end in an error before any memory is taken for them; the batches before are served.
func TestG9LyingFields(t *testing.T) {
	lies := map[string]func(b []byte){
		"length 0xFFFFFFF0": func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0xFFFFFFF0) },
		"length 0x7FFFFFF0": func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0x7FFFFFF0) },
		"length 0":          func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0) },
		"length 13":         func(b []byte) { binary.BigEndian.PutUint32(b[8:], 13) },
		"count -1":          func(b []byte) { binary.BigEndian.PutUint32(b[57:], 0xFFFFFFFF); seal(b) },
		"count 0x7FFFFFFF":  func(b []byte) { binary.BigEndian.PutUint32(b[57:], 0x7FFFFFFF); seal(b) },
		"last delta -5":     func(b []byte) { binary.BigEndian.PutUint32(b[23:], 0xFFFFFFFB); seal(b) },
		"magic 3":           func(b []byte) { b[16] = 3 },
		"offset above":      func(b []byte) { binary.BigEndian.PutUint64(b, 1<<40) },
		"offset below":      func(b []byte) { binary.BigEndian.PutUint64(b, 3) },
		"offset negative":   func(b []byte) { binary.BigEndian.PutUint64(b, 1<<63) },
	}
	for name, lie := range lies {
		s := newHarness(t, shape{})
		s.topic("t", 0)
		bad := dense(10, 19, false)
		lie(bad)
		first := dense(0, 9, false)
		seg := s.add(stored{base: 0, end: 29, log: joined(first, bad, dense(20, 29, false)), maxTime: 1,
			files: segment.Files{OffsetIndex: offsetIndex(0, 29, int64(len(first)+len(bad)))}})
		for _, a := range []*answer{s.records(from(0)), s.raw(from(0))} {
			e := wantKind(t, name, a, Damaged)
			if e.Segment != seg.ID || e.Position != int64(len(first)) || e.NextOffset != 20 || len(a.offsets) != 10 {
				t.Errorf("%s: %v at %d, next %d, after %v", name, e, e.Position, e.NextOffset, a.offsets)
			}
		}
		want(t, name+", an offset behind", s.records(from(22)), offsetsOf(22, 29), EndTier, 30)
	}
}

// G10: a wrong checksum is never served, whichever batch before it was; the leader epoch is outside of it.
func TestG10BadChecksum(t *testing.T) {
	for _, chunk := range []int64{4 << 10, 777, 1 << 20} {
		s := newHarness(t, shape{chunk: chunk})
		segs := s.plain()
		log := s.logs[segs[0].ID].log
		log[50*1000+500] ^= 1
		for _, a := range []*answer{s.raw(from(40)), s.records(from(40)), s.records(from(40))} {
			e := wantKind(t, "from 40", a, Damaged)
			if fmt.Sprint(a.offsets) != fmt.Sprint(offsetsOf(40, 49)) || e.NextOffset != 51 || e.Position != 50_000 {
				t.Errorf("chunks of %d: %v, position %d", chunk, a, e.Position)
			}
		}
		want(t, "behind it", s.records(from(51)), offsetsOf(51, 299), EndTier, 300)
		s = newHarness(t, shape{chunk: chunk})
		s.logs[s.plain()[0].ID].log[20*1000+15] = 9 // the leader epoch
		r := from(20)
		r.EndOffset = 22
		want(t, "leader epoch", s.records(r, func(rec *segment.Record) {
			if rec.Offset == 20 && rec.LeaderEpoch != 9 {
				t.Errorf("leader epoch %d", rec.LeaderEpoch)
			}
		}), []int64{20, 21}, EndRange, 22)
	}
}

// A batch that is passed over is checked too: a flipped bit must not hide committed records.
func TestG10HiddenIsChecked(t *testing.T) {
	for name, flip := range map[string]func(b []byte){
		"control bit": func(b []byte) { b[22] ^= 0x20 },
		"last delta":  func(b []byte) { b[26] = 1 },
		"producer":    func(b []byte) { b[22] ^= 0x10; b[50] = 7 },
	} {
		s := newHarness(t, shape{})
		s.topic("t", 0)
		b := dense(0, 9, false)
		flip(b)
		s.add(stored{base: 0, end: 29, log: joined(b, dense(15, 29, false)), files: segment.Files{Decided: true,
			Aborted: []segment.AbortedTxn{{ProducerID: int64(b[50]), FirstOffset: 0, LastOffset: 14}}}})
		r := from(5)
		r.Isolation = ReadCommitted
		for _, a := range []*answer{s.raw(r), s.records(r)} {
			wantKind(t, name, a, Damaged)
		}
	}
}

// G12: a tail of zeros after the last offset is no data, and no damage; zeros instead of data are.
func TestG12ZeroTail(t *testing.T) {
	for _, zeros := range []int{1, 16, 17, 4096, 20_000} {
		s := newHarness(t, shape{})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 99, log: append(dense(0, 99, false), make([]byte, zeros)...)})
		s.add(stored{base: 100, end: 199, log: dense(100, 199, false)})
		r := from(90)
		r.EndOffset = 110
		want(t, fmt.Sprint(zeros, " zeros"), s.records(r), offsetsOf(90, 109), EndRange, 110)
		if a := s.raw(r); fmt.Sprint(a.offsets) != fmt.Sprint(offsetsOf(90, 109)) {
			t.Errorf("raw, %d zeros: %v", zeros, a)
		}

		s = newHarness(t, shape{})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 99, log: append(dense(0, 49, false), make([]byte, zeros)...)})
		wantKind(t, "zeros instead of 50 to 99", s.records(from(0)), Damaged)
	}
}

// A log that ends within a batch is damaged there.
func TestTornBatch(t *testing.T) {
	for _, left := range []int{1, 8, 16, 17, 40, 60, 61, 70} {
		s := newHarness(t, shape{chunk: 100})
		s.topic("t", 0)
		first := dense(0, 9, false)
		s.add(stored{base: 0, end: 19, maxTime: 1, log: append(first, dense(10, 19, false)[:left]...)})
		s.add(stored{base: 20, end: 29, log: dense(20, 29, false)})
		for _, a := range []*answer{s.records(from(0)), s.raw(from(0))} {
			e := wantKind(t, fmt.Sprint(left, " bytes left"), a, Damaged)
			if e.NextOffset != 20 || len(a.offsets) != 10 {
				t.Errorf("%d bytes left: %v", left, a)
			}
		}
	}
}

// G13: batches come out byte for byte as stored, however many share an entry of the index.
func TestG13BatchIdentity(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	var log []byte
	for o := int64(0); o < 50; o++ {
		log = append(log, one(o, 1000, 100)...)
	}
	s.add(stored{base: 0, end: 49, log: log, files: segment.Files{OffsetIndex: offsetIndex(0, 49, 4900)}})
	for o := int64(0); o < 50; o++ {
		r := from(o)
		r.MaxBytes = 1000
		n := min(10, 50-o)
		if a := s.raw(r); !bytes.Equal(joined(a.batches...), log[o*100:(o+n)*100]) || a.next != o+n {
			t.Errorf("from %d: %d batches, %v", o, len(a.batches), a)
		}
	}
}

// Messages of magic 0 and 1 may open a segment that goes on with batches.
func TestLegacyMessages(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 9, log: joined(legacy(0, 0, 0, "a"), legacy(1, 1, 1000, "b"), legacy(4, 1, 1000, "c"), dense(6, 9, false))})
	want(t, "records", s.records(from(0)), []int64{0, 1, 4, 6, 7, 8, 9}, EndTier, 10)
	r := from(2)
	r.EndOffset, r.MaxRecords = 8, 2
	want(t, "records from 2", s.records(r), []int64{4, 6}, EndLimit, 7)
	if a := s.raw(r); len(a.batches) != 2 || a.next != 8 || a.end != EndRange {
		t.Errorf("raw from 2: %v", a)
	}
}
