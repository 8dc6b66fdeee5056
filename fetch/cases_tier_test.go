package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// D2: overlapping segments after a leader change give each offset once.
func TestD2Overlap(t *testing.T) {
	s := newHarness(t, shape{chunk: 512})
	s.topic("t", 0)
	s.apply(tier.LineageChanged{Partition: tier.PartitionID{Topic: testTopic},
		Epochs: []segment.EpochStart{{Epoch: 5, StartOffset: 0}, {Epoch: 7, StartOffset: 15}, {Epoch: 9, StartOffset: 100}}})
	var all [][]byte
	var size int64
	var index []int64
	for o := int64(0); o <= 150; o++ {
		all = append(all, one(o, 1000+o, 200))
	}
	s.add(stored{base: 0, end: 50, log: joined(all[:51]...), epochs: []segment.EpochStart{{Epoch: 5, StartOffset: 0}, {Epoch: 7, StartOffset: 15}}})
	for o := int64(14); o <= 150; o++ {
		if o%10 == 0 {
			index = append(index, o, size)
		}
		size += 200
	}
	s.add(stored{base: 14, end: 150, log: joined(all[14:]...), files: segment.Files{OffsetIndex: offsetIndex(14, index...)},
		epochs: []segment.EpochStart{{Epoch: 5, StartOffset: 14}, {Epoch: 7, StartOffset: 15}, {Epoch: 9, StartOffset: 100}}})
	want(t, "in one go", s.records(from(0)), offsetsOf(0, 150), EndTier, 151)
	if a := s.raw(from(0)); fmt.Sprint(a.offsets) != fmt.Sprint(offsetsOf(0, 150)) {
		t.Errorf("raw: %v", a)
	}
	var got []int64
	r := from(0)
	r.MaxBytes = 700
	for {
		a := s.records(r)
		if a.err != nil {
			t.Fatal(a.err)
		}
		got = append(got, a.offsets...)
		if a.end == EndTier {
			break
		}
		r.Offset = a.next
	}
	if fmt.Sprint(got) != fmt.Sprint(offsetsOf(0, 150)) {
		t.Errorf("in steps: %v", got)
	}
}

// H3: a segment that is deleted while an answer streams from it: the answer fails visibly, and the next is out of
// range.
func TestH3DeletedWhileStreaming(t *testing.T) {
	for _, how := range []string{"metadata first", "bytes first"} {
		for _, view := range []string{"raw", "records"} {
			t.Run(how+" "+view, func(t *testing.T) {
				s := newHarness(t, shape{chunk: 4 << 10, window: -1})
				segs := s.plain()
				st, err := s.Open(context.Background(), from(0))
				if err != nil {
					t.Fatal(err)
				}
				defer st.Close()
				var run Run
				defer run.Release()
				next := func() error {
					if view == "raw" {
						return st.NextRun(context.Background(), &run)
					}
					return st.NextRecord(context.Background(), new(segment.Record))
				}
				for range 3 {
					if err := next(); err != nil {
						t.Fatal(err)
					}
				}
				if how == "metadata first" {
					s.drop(segs[0])
				} else {
					s.loadLog = func(id segment.UUID, _ int64) error {
						if id == segs[0].ID {
							return failure(Missing, nil, "404")
						}
						return nil
					}
					s.refresh = func() error { s.drop(segs[0]); return nil }
				}
				n := 0
				for err = next(); err == nil; err = next() {
					n++
				}
				var e *Error
				if !errors.As(err, &e) || e.Kind != OutOfRange || e.Bounds.Start != 100 || n > 10 {
					t.Fatalf("after %d more: %v", n, err)
				}
				if again := next(); again == nil || again == io.EOF {
					t.Errorf("after the error: %v", again)
				}
				s.loadLog, s.refresh = nil, nil
				wantKind(t, "the next read", s.records(from(st.NextOffset())), OutOfRange)
				want(t, "from the new start", s.records(from(100)), offsetsOf(100, 299), EndTier, 300)
			})
		}
	}
}

// H3: an answer that has all of its range is complete, whatever is deleted meanwhile.
func TestH3CompleteBeforeDelete(t *testing.T) {
	s := newHarness(t, shape{chunk: 100_000})
	segs := s.plain()
	r := from(90)
	r.EndOffset = 100
	st, err := s.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var rec segment.Record
	for o := int64(90); o < 100; o++ {
		if err := st.NextRecord(t.Context(), &rec); err != nil || rec.Offset != o {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
	}
	s.drop(segs[0])
	if err := st.NextRecord(t.Context(), &rec); err != io.EOF || st.NextOffset() != 100 {
		t.Errorf("%v, next %d", err, st.NextOffset())
	}
}

// A segment that is replaced by another of the same offsets while it is read: the answer goes on in the other.
func TestReplacedWhileStreaming(t *testing.T) {
	s := newHarness(t, shape{chunk: 4 << 10, window: -1})
	s.topic("t", 0)
	var log []byte
	for o := int64(0); o < 50; o++ {
		log = append(log, one(o, 1000, 1000)...)
	}
	first := s.add(stored{base: 0, end: 49, log: log})
	st, err := s.Open(context.Background(), from(0))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var rec segment.Record
	for o := range int64(50) {
		if o == 10 {
			s.add(stored{base: 0, end: 49, log: log, epochs: first.Epochs})
			s.apply(tier.SegmentUpdated{Partition: first.Partition, ID: first.ID, State: tier.DeleteStarted, At: 2})
		}
		if err := st.NextRecord(context.Background(), &rec); err != nil || rec.Offset != o {
			t.Fatalf("offset %d, want %d: %v", rec.Offset, o, err)
		}
	}
	if s.gets[idOf(2)] == 0 {
		t.Error("the other segment was not read")
	}
}

// Bytes that are missing although the metadata says that they are there.
func TestMissingObject(t *testing.T) {
	s := newHarness(t, shape{})
	segs := s.plain()
	s.loadLog = func(segment.UUID, int64) error {
		return &Error{Kind: Missing, Detail: "404", Segment: segs[1].ID, Position: -1, NextOffset: -1}
	}
	refreshed := 0
	s.refresh = func() error { refreshed++; return nil }
	for _, a := range []*answer{s.records(from(150)), s.raw(from(150))} {
		if e := wantKind(t, "missing", a, Missing); e.Segment != segs[1].ID || e.NextOffset != 150 {
			t.Errorf("got %+v", e)
		}
	}
	if refreshed != 2 {
		t.Errorf("the metadata was refreshed %d times for 2 reads", refreshed)
	}
	s.refresh = func() error { return io.ErrUnexpectedEOF }
	wantKind(t, "no metadata to tell", s.records(from(150)), NotReady)
}

// H5: the tier's start lies within a segment and a batch.
func TestH5StartWithinBatch(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 15)
	s.add(stored{base: 0, end: 29, log: joined(dense(0, 9, false), dense(10, 19, false), dense(20, 29, false)),
		files: segment.Files{OffsetIndex: offsetIndex(0, 19, int64(len(dense(0, 9, false))))}})
	for _, offset := range []int64{0, 10, 14} {
		if e := wantKind(t, "below the start", s.records(from(offset)), OutOfRange); e.Bounds.Start != 15 || e.Bounds.TieredEnd != 30 {
			t.Errorf("bounds %+v", e.Bounds)
		}
	}
	want(t, "at the start", s.records(from(15)), offsetsOf(15, 29), EndTier, 30)
	r := from(0)
	r.Start = FromEarliest
	a := s.records(r)
	want(t, "earliest", a, offsetsOf(15, 29), EndTier, 30)
	if a.start != 15 {
		t.Errorf("earliest is %d", a.start)
	}
	if a := s.raw(r); len(a.batches) != 2 {
		t.Errorf("raw: %v", a)
	}
	if got := s.at(0, ReadUncommitted); got.Offset != 15 {
		t.Errorf("the first record by time: %+v", got)
	}
}

// H6: out of range is said only when it is certain, and data is never skipped silently.
func TestH6OutOfRangeIsCertain(t *testing.T) {
	s := newHarness(t, shape{})
	s.plain()
	s.ready = errors.New("3 of 5 partitions loaded")
	if e := wantKind(t, "while loading", s.records(from(1000)), NotReady); e.RetryAfter <= 0 {
		t.Errorf("no Retry-After: %+v", e)
	}
	s.ready = nil
	s.refresh = func() error { return io.ErrUnexpectedEOF }
	wantKind(t, "above the end, refresh failed", s.records(from(301)), NotReady)
	want(t, "at the end", s.records(from(300)), nil, EndTier, 300)
	s.refresh = nil
	e := wantKind(t, "above the end", s.records(from(301)), OutOfRange)
	if e.Bounds != (Bounds{Start: 0, LocalStart: -1, TieredEnd: 300, LastStable: -1, HighWatermark: -1}) {
		t.Errorf("bounds %+v", e.Bounds)
	}
	s.refresh = func() error { s.add(stored{base: 300, end: 309, log: dense(300, 309, false)}); return nil }
	want(t, "the refresh brings it", s.records(from(305)), offsetsOf(305, 309), EndTier, 310)

	gap := newHarness(t, shape{})
	gap.topic("t", 0)
	gap.add(stored{base: 0, end: 9, log: dense(0, 9, false)})
	gap.add(stored{base: 20, end: 29, log: dense(20, 29, false)})
	a := gap.records(from(0))
	if e := wantKind(t, "a hole in the tier", a, Missing); len(a.offsets) != 10 || e.NextOffset != 10 {
		t.Errorf("%v, %+v", a, e)
	}
	gap.apply(tier.HoleRecorded{Partition: tier.PartitionID{Topic: testTopic}, Hole: tier.Hole{From: 10, To: 20, Reason: "damaged"}})
	want(t, "a recorded hole", gap.records(from(0)), append(offsetsOf(0, 9), offsetsOf(20, 29)...), EndTier, 30)
	want(t, "from within it", gap.records(from(12)), offsetsOf(20, 29), EndTier, 30)
}

// H7: everything was deleted.
func TestH7Empty(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 300)
	want(t, "at the start", s.records(from(300)), nil, EndTier, 300)
	wantKind(t, "below", s.records(from(299)), OutOfRange)
	wantKind(t, "above", s.records(from(301)), OutOfRange)
	for _, start := range []StartKind{FromEarliest, FromLatest, FromTimestamp} {
		r := from(0)
		r.Start = start
		want(t, fmt.Sprint("start ", start), s.records(r), nil, EndTier, 300)
	}
	if got := s.at(0, ReadCommitted); got != noOffset {
		t.Errorf("by time: %+v", got)
	}
}

func TestStarts(t *testing.T) {
	s := newHarness(t, shape{})
	s.plain()
	r := from(0)
	r.Start = FromLatest
	want(t, "latest", s.records(r), nil, EndTier, 300)
	r.Start = FromEarliestLocal
	wantKind(t, "earliest local without a cluster", s.records(r), BadRequest)
	s.apply(tier.BoundsChanged{Partition: tier.PartitionID{Topic: testTopic}, Bounds: tier.Bounds{Start: 0, LocalStart: 290, HighWatermark: 400, LastStable: 380}})
	a := s.records(r)
	want(t, "earliest local", a, offsetsOf(290, 299), EndTier, 300)
	latest := from(0)
	latest.Start, latest.Isolation = FromLatest, ReadCommitted
	want(t, "latest stable", s.records(latest), nil, EndTier, 380)
	latest.Isolation = ReadUncommitted
	want(t, "latest", s.records(latest), nil, EndTier, 400)
	if a.bounds.LocalStart != 290 || a.bounds.LastStable != 380 {
		t.Errorf("bounds %+v", a.bounds)
	}
	want(t, "above the tier, within the brokers' log", s.records(from(350)), nil, EndTier, 350)
	wantKind(t, "above everything", s.records(from(401)), OutOfRange)
	r = from(20)
	r.EndOffset = 19
	wantKind(t, "end before start", s.records(r), BadRequest)
	r.EndOffset = 20
	want(t, "empty range", s.records(r), nil, EndRange, 20)
	r = from(0)
	r.Start, r.Timestamp, r.EndTimestamp = FromTimestamp, plainTime+50, plainTime+49
	wantKind(t, "end time before start", s.records(r), BadRequest)
	r.EndTimestamp = plainTime + 52
	want(t, "two milliseconds", s.records(r), []int64{50, 51}, EndRange, 52)
	r.EndTimestamp, r.EndOffset = -1, 30
	want(t, "time beyond the end offset", s.records(r), nil, EndRange, 30)
	for _, topic := range []string{"", "t"} {
		r := from(299)
		r.Topic, r.TopicID = topic, testTopic
		want(t, "by id", s.records(r), []int64{299}, EndTier, 300)
	}
}

// uncertain says that a partition's bounds are not known; nil takes it back.
func uncertain(partition int32, reason error) tier.Change {
	c := tier.CertaintyChanged{Topic: testTopic}
	if reason != nil {
		c.Certainty = &tier.TopicCertainty{Except: map[int32]tier.Certainty{partition: {State: tier.BoundsUnknown, Reason: reason}}}
	}
	return c
}

// What the view does not vouch for is not answered.
func TestBoundsThatAreNotKnown(t *testing.T) {
	s := newHarness(t, shape{})
	s.plain()
	unknown := errors.New("nobody has told")
	s.apply(uncertain(0, unknown))
	wantKind(t, "not known", s.records(from(0)), NotReady)
	if _, err := s.Partition("t", segment.UUID{}, 0); kindOf(err) != NotReady || !errors.Is(err, unknown) {
		t.Errorf("its bounds: %v", err)
	}
	if _, err := s.Partition("t", segment.UUID{}, 1); kindOf(err) != PartitionUnknown {
		t.Errorf("another partition: %v", err)
	}
	s.apply(tier.CertaintyChanged{Topic: testTopic, Certainty: &tier.TopicCertainty{All: tier.Certainty{State: tier.BoundsStale}}})
	want(t, "stale bounds are used", s.records(from(290)), offsetsOf(290, 299), EndTier, 300)
	// The partition is cut, and known again only in the view after that.
	part := tier.PartitionID{Topic: testTopic}
	s.apply(tier.LineageChanged{Partition: part, Epochs: []segment.EpochStart{{Epoch: 9, StartOffset: 0}}}, uncertain(0, unknown))
	if _, err := s.Partition("t", segment.UUID{}, 0); kindOf(err) != NotReady {
		t.Errorf("cut: %v", err)
	}
	// A read waits for a round of asking the brokers.
	s.refresh = func() error {
		s.apply(tier.LineageChanged{Partition: part}, uncertain(0, nil))
		return nil
	}
	want(t, "known after a refresh", s.records(from(290)), offsetsOf(290, 299), EndTier, 300)
}
