package fetch

import (
	"strings"
	"testing"

	"coldtap/segment"
)

// txn is a transactional batch of one record each.
func txn(producer, first, last int64) []byte {
	b := batchOf{base: first, attrs: 0x10, producer: producer}
	for o := first; o <= last; o++ {
		b.records = append(b.records, rec{delta: int(o - first), time: 1000 + o})
	}
	return b.encode()
}

func committed(offset int64) *Request {
	r := from(offset)
	r.Isolation = ReadCommitted
	return r
}

func aborts(txns ...segment.AbortedTxn) []byte { return segment.AppendTxnIndex(nil, txns...) }

// snapshotOf makes a producer snapshot in which producers have transactions open: pairs of producer and first offset.
func snapshotOf(pairs ...int64) []byte {
	states := []segment.ProducerState{{ProducerID: 4000, LastSequence: 3, LastOffset: 2, TxnFirstOffset: -1}}
	for i := 0; i < len(pairs); i += 2 {
		states = append(states, segment.ProducerState{ProducerID: pairs[i], LastOffset: pairs[i+1], TxnFirstOffset: pairs[i+1]})
	}
	return segment.AppendSnapshot(nil, states)
}

// bothWays runs a case on segments that carry their complete lists, and on segments that have only what brokers upload.
func bothWays(t *testing.T, list []segment.AbortedTxn, segments []stored, check func(t *testing.T, s *harness)) {
	for _, decided := range []bool{true, false} {
		name := map[bool]string{true: "decided", false: "walked"}[decided]
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, shape{})
			s.topic("t", 0)
			for _, x := range segments {
				if decided {
					x.files.Decided = true
					x.files.Aborted = list
				}
				s.add(x)
			}
			check(t, s)
		})
	}
}

// B4: duplicate and unsorted entries, a producer that aborts, commits and aborts again, over overlapping segments.
func TestB4UnsortedAborts(t *testing.T) {
	first := segment.AbortedTxn{ProducerID: 1, FirstOffset: 0, LastOffset: 2, LastStableOffset: 3}
	second := segment.AbortedTxn{ProducerID: 1, FirstOffset: 6, LastOffset: 8, LastStableOffset: 9}
	log0 := joined(txn(1, 0, 1), marker(2, 1, 0, 1000), txn(1, 3, 4), marker(5, 1, 1, 1000))
	log1 := joined(txn(1, 6, 7), marker(8, 1, 0, 1000), dense(9, 9, false))
	s0 := stored{n: 1, base: 0, end: 5, log: log0, files: segment.Files{TxnIndex: aborts(first), Snapshot: snapshotOf()}}
	again := s0
	again.n = 2
	s1 := stored{n: 3, base: 6, end: 9, log: log1, files: segment.Files{TxnIndex: aborts(second), Snapshot: snapshotOf()}}
	bothWays(t, []segment.AbortedTxn{second, first, second, first}, []stored{s0, again, s1}, func(t *testing.T, s *harness) {
		want(t, "records", s.records(committed(0)), []int64{3, 4, 9}, EndTier, 10)
		if a := s.raw(committed(0)); len(a.batches) != 2 || a.next != 10 {
			t.Errorf("raw: %v", a)
		}
		want(t, "uncommitted", s.records(from(0)), []int64{0, 1, 3, 4, 6, 7, 9}, EndTier, 10)
		want(t, "from the aborted range", s.records(committed(7)), []int64{9}, EndTier, 10)
	})
}

// B5: no transaction index is no aborts; one that is lost or damaged refuses read_committed, and only that.
func TestB5MissingTxnIndex(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 9, log: dense(0, 9, false), files: segment.Files{Snapshot: snapshotOf()}})
	want(t, "none", s.records(committed(0)), offsetsOf(0, 9), EndTier, 10)

	for name, files := range map[string]segment.Files{
		"lost": {TxnDamaged: true, Decided: true},
		"gone": {TxnDamaged: true, TxnMissing: "the.indexes"},
		"torn": {TxnIndex: append([]byte{9}, make([]byte, 33)...), Snapshot: snapshotOf()},
	} {
		s := newHarness(t, shape{})
		s.topic("t", 0)
		seg := s.add(stored{base: 0, end: 9, log: dense(0, 9, false), files: files})
		for _, a := range []*answer{s.records(committed(0)), s.raw(committed(0))} {
			kind := Damaged
			if files.TxnMissing != "" {
				kind = Missing // and the object is named
			}
			if e := wantKind(t, name, a, kind); e.Segment != seg.ID || len(a.offsets) != 0 || !strings.Contains(e.Error(), files.TxnMissing) {
				t.Errorf("%s: %v", name, a)
			}
		}
		want(t, name+", uncommitted", s.records(from(0)), offsetsOf(0, 9), EndTier, 10)
	}
}

// B6: the data is there and the transaction index of a later segment, which holds the marker, can't be read: nothing is
// served until it can.
func TestB6IndexUnavailable(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	abort := segment.AbortedTxn{ProducerID: 7, FirstOffset: 5, LastOffset: 25, LastStableOffset: 26}
	s.add(stored{base: 0, end: 9, log: joined(dense(0, 4, false), txn(7, 5, 9)), files: segment.Files{Snapshot: snapshotOf(7, 5)}})
	s.add(stored{base: 10, end: 19, log: dense(10, 19, false), noTxns: true, files: segment.Files{Snapshot: snapshotOf(7, 5)}})
	last := s.add(stored{base: 20, end: 29, log: joined(dense(20, 24, false), marker(25, 7, 0, 1000), dense(26, 29, false)),
		files: segment.Files{TxnIndex: aborts(abort), Snapshot: snapshotOf()}})
	s.loadFile = func(id segment.UUID) error {
		if id == last.ID {
			return failure(Unreachable, nil, "503")
		}
		return nil
	}
	for range 3 {
		for _, a := range []*answer{s.records(committed(0)), s.raw(committed(0))} {
			wantKind(t, "unreachable", a, Unreachable)
			if len(a.offsets) > 0 {
				t.Fatalf("records without the index: %v", a)
			}
		}
	}
	s.loadFile = nil
	want(t, "reachable", s.records(committed(0)), append(append(offsetsOf(0, 4), offsetsOf(10, 24)...), offsetsOf(26, 29)...), EndTier, 30)
}

// B8: several aborted transactions of one segment that does not begin at 0.
func TestB8RangesOfSegment(t *testing.T) {
	list := []segment.AbortedTxn{
		{ProducerID: 1, FirstOffset: 2, LastOffset: 5, LastStableOffset: 4},
		{ProducerID: 2, FirstOffset: 4, LastOffset: 6, LastStableOffset: 7},
	}
	segments := []stored{
		{base: 0, end: 1, log: dense(0, 1, false), files: segment.Files{Snapshot: snapshotOf()}},
		{base: 2, end: 7, log: joined(txn(1, 2, 2), dense(3, 3, false), txn(2, 4, 4), marker(5, 1, 0, 1), marker(6, 2, 0, 1), dense(7, 7, false)),
			files: segment.Files{TxnIndex: aborts(list...), Snapshot: snapshotOf()}},
	}
	bothWays(t, list, segments, func(t *testing.T, s *harness) {
		want(t, "from 2", s.records(committed(2)), []int64{3, 7}, EndTier, 8)
		want(t, "from 0", s.records(committed(0)), []int64{0, 1, 3, 7}, EndTier, 8)
	})
}

// openEnd has an undecided transaction of producer 9 from 280 on.
func openEnd(t *testing.T) *harness {
	s := newHarness(t, shape{})
	s.topic("t", 200)
	s.add(stored{base: 200, end: 299, log: joined(dense(200, 279, false), txn(9, 280, 284), dense(285, 299, false)),
		files: segment.Files{Snapshot: snapshotOf(9, 280)}})
	return s
}

// B9: read_committed ends where the oldest open transaction begins.
func TestB9Undecided(t *testing.T) {
	s := openEnd(t)
	a := s.records(committed(270))
	want(t, "from 270", a, offsetsOf(270, 279), EndUndecided, 280)
	if a.decided != 280 {
		t.Errorf("decided end %d", a.decided)
	}
	for _, offset := range []int64{280, 283, 290} {
		a := s.records(committed(offset))
		want(t, "beyond", a, nil, EndUndecided, offset)
		if a.decided != 280 {
			t.Errorf("decided end %d", a.decided)
		}
		want(t, "beyond, raw", s.raw(committed(offset)), nil, EndUndecided, offset)
	}
	want(t, "uncommitted", s.records(from(270)), offsetsOf(270, 299), EndTier, 300)
}

// A snapshot that is missing or damaged proves nothing.
func TestB9NoProof(t *testing.T) {
	for name, snapshot := range map[string][]byte{"missing": nil, "damaged": {1, 2, 3}} {
		s := newHarness(t, shape{})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 9, log: dense(0, 9, false), files: segment.Files{Snapshot: snapshotOf()}})
		s.add(stored{base: 10, end: 19, log: dense(10, 19, false), files: segment.Files{Snapshot: snapshot}})
		want(t, name, s.records(committed(0)), offsetsOf(0, 9), EndUndecided, 10)
	}
}

// B10: a reader of segments without transactions reads no index but those of the segments it reads, and a search for a
// marker passes over segments that have none.
func TestB10IndexReads(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	const n = 200
	for i := range int64(n) {
		snapshot := snapshotOf()
		if i < n-1 {
			snapshot = snapshotOf(7, 5)
		}
		s.add(stored{base: i * 10, end: i*10 + 9, log: dense(i*10, i*10+9, false), noTxns: true, files: segment.Files{Snapshot: snapshot}})
	}
	r := committed(0)
	r.EndOffset = 10
	want(t, "first", s.records(r), offsetsOf(0, 9), EndRange, 10)
	if s.indexes > 2 {
		t.Errorf("%d index reads for one segment", s.indexes)
	}
	before := s.indexes
	want(t, "again", s.records(r), offsetsOf(0, 9), EndRange, 10)
	if s.indexes != before {
		t.Errorf("%d more index reads for the same", s.indexes-before)
	}
}

// B11: an answer of nothing reads no index.
func TestB11EmptyAnswer(t *testing.T) {
	s := openEnd(t)
	r := committed(270)
	r.EndOffset = 270
	want(t, "empty range", s.records(r), nil, EndRange, 270)
	want(t, "tiered end", s.records(committed(300)), nil, EndTier, 300)
	if s.indexes != 0 || s.logGets() != 0 {
		t.Errorf("%d index and %d log reads for nothing", s.indexes, s.logGets())
	}
}

// C8: a look-up by time stays below the decided end.
func TestC8TimeBelowDecidedEnd(t *testing.T) {
	s := openEnd(t)
	ts := int64(1000 * 286) // of offset 285
	for isolation, offset := range map[Isolation]int64{ReadCommitted: -1, ReadUncommitted: 285} {
		got, err := s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, ts, isolation, 0)
		if err != nil || got.Offset != offset {
			t.Errorf("isolation %d: %+v %v, want %d", isolation, got, err, offset)
		}
	}
	r := committed(0)
	r.Start, r.Timestamp = FromTimestamp, ts
	a := s.records(r)
	if a.err != nil || a.end != EndUndecided || a.decided != 280 || len(a.offsets) > 0 {
		t.Errorf("read from that time: %v", a)
	}
}

// The sample's own transactions, without the complete lists: what the walk proves is what the consumer saw.
func TestWalkOfSample(t *testing.T) {
	for _, dir := range []string{"txn-0", "txn-1", "gaps-0", "plain-0"} {
		sample := closed(t, dir)
		for i := range sample.segments {
			sample.segments[i].files.Decided, sample.segments[i].files.Aborted = false, nil
		}
		s := newHarness(t, shape{})
		s.addAll(sample)
		all := sample.expected(t, dir, "read_committed")
		a := s.records(committed(0))
		if a.err != nil {
			t.Fatal(a.err)
		}
		end := sample.end
		if a.end == EndUndecided {
			end = a.decided
		}
		n := 0
		for ; n < len(all) && all[n].Offset < end; n++ {
			if n >= len(a.offsets) || a.offsets[n] != all[n].Offset {
				t.Fatalf("%s: differs at offset %d: %v", dir, all[n].Offset, a)
			}
		}
		if n != len(a.offsets) {
			t.Errorf("%s: %d records, want %d up to %d", dir, len(a.offsets), n, end)
		}
		t.Logf("%s: %v at %d of %d", dir, a.end, end, sample.end)
	}
}

// A batch whose last offset is the first one that is not decided is not handed out, whether its header is believed
// before its checksum (it follows on the batch before) or only after it (it is the first one read).
func TestUndecidedBatchOfOneRecord(t *testing.T) {
	for _, from := range []int64{20, 24, 25} {
		for view, read := range map[string]func(*harness, *Request) *answer{
			"raw": (*harness).raw, "records": func(s *harness, r *Request) *answer { return s.records(r) }} {
			a := read(planned(t), committed(from))
			if want(t, view, a, offsetsOf(from, 24), EndUndecided, 25); a.decided != 25 {
				t.Errorf("%s from %d: decided up to %d", view, from, a.decided)
			}
		}
	}
}

// Of a producer's aborted transactions that overlap, the one that ends last decides, not the one that begins last.
func TestOverlappingAbortedTransactions(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	log := joined(txn(7, 0, 9), txn(7, 10, 19), txn(7, 20, 29), marker(30, 7, 0, 1), txn(7, 31, 39), marker(40, 7, 1, 1))
	s.add(stored{base: 0, end: 40, log: log, files: segment.Files{Decided: true, Aborted: []segment.AbortedTxn{
		{ProducerID: 7, FirstOffset: 0, LastOffset: 30}, {ProducerID: 7, FirstOffset: 10, LastOffset: 15}}}})
	for _, from := range []int64{0, 12, 20} {
		want(t, "from the first batch on", s.records(committed(from)), offsetsOf(31, 39), EndTier, 41)
		want(t, "raw", s.raw(committed(from)), offsetsOf(31, 39), EndTier, 41)
	}
}
