package fetch

import (
	"fmt"
	"testing"

	"coldtap/segment"
)

func (s *harness) at(ts int64, isolation Isolation) TimedOffset {
	s.tb.Helper()
	got, err := s.OffsetForTime(s.tb.Context(), "t", segment.UUID{}, 0, ts, isolation, 0)
	if err != nil {
		s.tb.Fatal(err)
	}
	return got
}

// C4: timestamps out of order within and across segments.
func TestC4UnorderedTimes(t *testing.T) {
	for _, perBatch := range []int{1, 2, 9} {
		s := newHarness(t, shape{})
		s.topic("t", 0)
		for _, seg := range [][]int64{{100, 900, 200, 300, 950, 400}, {250, 960, 970}} {
			base := int64(0)
			if len(seg) == 3 {
				base = 6
			}
			var log []byte
			for i := 0; i < len(seg); i += perBatch {
				b := batchOf{base: base + int64(i), zip: perBatch == 9}
				for k, ts := range seg[i:min(i+perBatch, len(seg))] {
					b.records = append(b.records, rec{delta: k, time: ts})
				}
				log = append(log, b.encode()...)
			}
			s.add(stored{base: base, end: base + int64(len(seg)) - 1, log: log})
		}
		for ts, offset := range map[int64]int64{250: 1, 901: 4, 955: 7, 1000: -1, 0: 0, -5: 0, 970: 8} {
			if got := s.at(ts, ReadUncommitted); got.Offset != offset {
				t.Errorf("%d a batch, time %d: %+v, want offset %d", perBatch, ts, got, offset)
			}
		}
	}
}

// C6: a time beyond every record's costs no read at all.
func TestC6TimeBeyondEnd(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	for i := range int64(500) {
		s.add(stored{base: i, end: i, log: one(i, 1000+i, 100)})
	}
	if got := s.at(1500, ReadUncommitted); got != noOffset {
		t.Errorf("got %+v", got)
	}
	if s.logGets() != 0 || s.indexes != 0 {
		t.Errorf("%d log and %d index reads", s.logGets(), s.indexes)
	}
	r := from(0)
	r.Start, r.Timestamp = FromTimestamp, 1500
	want(t, "read from then on", s.records(r), nil, EndTier, 500)
}

// C9: a look-up by time reads a few chunks of the segment, not the segment.
func TestC9FewReads(t *testing.T) {
	s := newHarness(t, shape{chunk: 1 << 10})
	s.plain()
	for _, offset := range []int64{100, 150, 199} {
		before := s.logGets()
		if got := s.at(plainTime+offset, ReadCommitted); got.Offset != offset {
			t.Errorf("got %+v, want %d", got, offset)
		}
		if n := s.logGets() - before; n > 8 {
			t.Errorf("offset %d: %d chunks of 1 KiB read, index entries are 5,000 bytes apart", offset, n)
		}
	}
}

// C10: records without a timestamp match no time.
func TestC10NoTimestamps(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 1, maxTime: 5, log: joined(legacy(0, 0, 0, "a"), legacy(1, 0, 0, "b"))})
	for _, ts := range []int64{-1, 0, 1} {
		if got := s.at(ts, ReadUncommitted); got != noOffset {
			t.Errorf("at %d: %+v", ts, got)
		}
	}
}

// A segment whose metadata promises a later timestamp than it holds is no dead end, markers and aborted records never
// count, and a time index that leads too far costs only time.
func TestTimeGoesOn(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	abort := segment.AbortedTxn{ProducerID: 7, FirstOffset: 10, LastOffset: 12, LastStableOffset: 13}
	decided := segment.Files{Decided: true, Aborted: []segment.AbortedTxn{abort}}
	s.add(stored{base: 0, end: 9, maxTime: 1 << 40, log: dense(0, 9, false), files: decided})
	aborted := batchOf{base: 10, attrs: 0x10, producer: 7, records: []rec{{time: 90_000}, {delta: 1, time: 91_000}}}.encode()
	s.add(stored{base: 10, end: 13, log: joined(aborted, marker(12, 7, 0, 95_000), one(13, 500, 80)), files: decided})
	s.add(stored{base: 14, end: 99, log: dense(14, 99, false), files: decided})
	for isolation, offset := range map[Isolation]int64{ReadCommitted: 89, ReadUncommitted: 10} {
		if got := s.at(90_000, isolation); got.Offset != offset {
			t.Errorf("isolation %d: %+v, want %d", isolation, got, offset)
		}
	}
	if got := s.at(92_000, ReadUncommitted); got.Offset != 91 {
		t.Errorf("a marker of 95000 is no record: %+v", got)
	}
}

// An end by timestamp falls within a batch: raw gives the batch that holds wanted records, and says where the range
// ended.
func TestEndTimestamp(t *testing.T) {
	for _, chunk := range []int64{70, 4 << 10} {
		s := newHarness(t, shape{chunk: chunk})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 29, log: joined(dense(0, 9, true), dense(10, 19, false), dense(20, 29, false))})
		for _, c := range []struct {
			ts, from, end int64 // record at offset o has timestamp 1000·(o+1)
			batches       int
		}{
			{ts: 16_000, from: 0, end: 15, batches: 2},
			{ts: 16_000, from: 12, end: 15, batches: 1},
			{ts: 11_000, from: 0, end: 10, batches: 1},
			{ts: 10_001, from: 0, end: 10, batches: 1},
			{ts: 5_000, from: 7, end: 7, batches: 0}, // the start itself is beyond
		} {
			r := from(c.from)
			r.EndTimestamp = c.ts
			name := fmt.Sprintf("from %d to time %d", c.from, c.ts)
			want(t, name, s.records(r), offsetsOf(c.from, c.end-1), EndRange, c.end)
			if a := s.raw(r); a.err != nil || len(a.batches) != c.batches || a.end != EndRange || a.next != c.end {
				t.Errorf("%s, raw: %d batches, %v", name, len(a.batches), a)
			}
		}
		r := from(0)
		r.EndTimestamp = 1 << 50
		want(t, "beyond all", s.records(r), offsetsOf(0, 29), EndTier, 30)
	}
}
