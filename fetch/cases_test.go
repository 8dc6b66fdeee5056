package fetch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"coldtap/cache"
	"coldtap/internal/readcost"
	"coldtap/readerpool"
	"coldtap/segment"
	"coldtap/tier"
)

// C11: a look-up that can't be made is an error that a client repeats, never "offset 0" and never "no such offset".
func TestC11FailedLookup(t *testing.T) {
	ask := func(s *harness, ts int64) error {
		found, err := s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, ts, ReadUncommitted, 0)
		if err == nil {
			t.Errorf("time %d: %+v without an error", ts, found)
		}
		return err
	}
	loading := newHarness(t, shape{})
	loading.ready = errors.New("3 of 5 partitions loaded")
	if err := ask(loading, 0); kindOf(err) != NotReady {
		t.Errorf("an empty tier that still loads: %v", err)
	}
	for _, start := range []StartKind{FromEarliest, FromLatest, FromTimestamp} {
		r := from(0)
		r.Start = start
		wantKind(t, fmt.Sprint("start ", start), loading.records(r), NotReady)
	}
	down := newHarness(t, shape{})
	down.plain()
	down.loadLog = func(segment.UUID, int64) error { return failure(Unreachable, nil, "503") }
	if err := ask(down, plainTime+250); kindOf(err) != Unreachable {
		t.Errorf("the log is out of reach: %v", err)
	}
	down.loadFile = func(segment.UUID) error { return failure(Unreachable, nil, "503") }
	if err := ask(down, plainTime+50); kindOf(err) != Unreachable {
		t.Errorf("the indexes are out of reach: %v", err)
	}
}

// D5: retention has cut the epochs below the start off the lineage; every offset from the start on is still served, out
// of a segment that names the epochs before as well.
func TestD5PrunedLineage(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 150)
	part := tier.PartitionID{Topic: testTopic}
	s.apply(tier.LineageChanged{Partition: part, Epochs: []segment.EpochStart{{Epoch: 2, StartOffset: 150}}})
	var log []byte
	for o := int64(100); o < 200; o++ {
		log = append(log, one(o, 1000, 100)...)
	}
	s.add(stored{base: 100, end: 199, log: log, epochs: []segment.EpochStart{{Epoch: 0, StartOffset: 100}, {Epoch: 2, StartOffset: 120}}})
	s.add(stored{base: 200, end: 299, log: dense(200, 299, false), epochs: []segment.EpochStart{{Epoch: 2, StartOffset: 200}}})
	for _, offset := range []int64{150, 160, 199, 200, 299} {
		want(t, fmt.Sprint("from ", offset), s.records(from(offset)), offsetsOf(offset, 299), EndTier, 300)
	}
	want(t, "from the end", s.records(from(300)), nil, EndTier, 300)
	wantKind(t, "below the start", s.records(from(149)), OutOfRange)
}

// D7: leaders that wrote nothing are in the lineage and not in the segment; the segment is served all the same.
func TestD7EpochsWithoutRecords(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	s.apply(tier.LineageChanged{Partition: tier.PartitionID{Topic: testTopic},
		Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: 0}, {Epoch: 1, StartOffset: 50}, {Epoch: 2, StartOffset: 50}, {Epoch: 3, StartOffset: 50}}})
	s.add(stored{base: 0, end: 99, log: joined(dense(0, 49, false), dense(50, 99, false)), epochs: []segment.EpochStart{{Epoch: 0, StartOffset: 0}, {Epoch: 3, StartOffset: 50}}})
	want(t, "after the change of leaders", s.records(from(60)), offsetsOf(60, 99), EndTier, 100)
	want(t, "across it", s.records(from(45)), offsetsOf(45, 99), EndTier, 100)
}

// endOnly is a log of size bytes of which only the last ones exist.
type endOnly struct {
	size     int64
	end      []byte
	furthest atomic.Int64 // end of the range that went furthest
}

func (l *endOnly) LoadChunk(_ context.Context, off int64, dst []byte, _ readerpool.Lane) (readcost.Cost, error) {
	end := off + int64(len(dst))
	for was := l.furthest.Load(); end > was && !l.furthest.CompareAndSwap(was, end); was = l.furthest.Load() {
	}
	if from := l.size - int64(len(l.end)); end > from {
		at := max(from-off, 0)
		copy(dst[at:], l.end[off+at-from:])
	}
	return readcost.Cost{Requests: 1, Bytes: int64(len(dst))}, nil
}

// F5: the last batch of the largest segment that a broker can write, where position and length together pass 2^31 - 1.
func TestF5LastBatchOfTheLargestSegment(t *testing.T) {
	const size, position = 1<<31 - 1, 2_147_482_000
	l := &endOnly{size: size, end: one(1000, 1000, size-position)}
	if len(l.end) != size-position {
		t.Fatal(len(l.end))
	}
	for _, chunk := range []int64{4 << 10, 64 << 10, 1000} {
		l.furthest.Store(0)
		s := newHarness(t, shape{chunk: chunk})
		s.cfg.Logs = func(*tier.Segment) (cache.Source, int64) { return l, chunk }
		s.topic("t", 0)
		part := tier.PartitionID{Topic: testTopic}
		s.logs[idOf(1)] = &storedLog{harness: s, id: idOf(1), files: segment.Files{OffsetIndex: offsetIndex(0, 1000, position)}}
		s.apply(tier.SegmentLoaded{Segment: tier.Segment{ID: idOf(1), Partition: part, Topic: "t", EndOffset: 1000, MaxTimestamp: 1000, EventTime: 1,
			Epochs: []segment.EpochStart{{}}, Size: size, State: tier.CopyFinished, TxnIndexEmpty: true}})
		r := from(1000)
		r.MaxBytes = 50 << 20
		want(t, "records", s.records(r), []int64{1000}, EndTier, 1001)
		if a := s.raw(r); len(a.batches) != 1 || string(a.batches[0]) != string(l.end) {
			t.Errorf("chunks of %d, raw: %v", chunk, a)
		}
		if n := l.furthest.Load(); n != size {
			t.Errorf("chunks of %d: read up to %d, the log has %d bytes", chunk, n, size)
		}
	}
}

// H4: while segments are deleted below an offset and added above it, a read of the offset is never out of range.
func TestH4BoundariesMove(t *testing.T) {
	s := newHarness(t, shape{chunk: 16 << 10, memory: 1 << 20})
	segs := s.plain()
	part := segs[0].Partition
	start := func(offset int64) tier.Change {
		return tier.BoundsChanged{Partition: part, Bounds: tier.Bounds{Start: offset, LocalStart: -1, HighWatermark: -1, LastStable: -1}}
	}
	state := func(seg *tier.Segment, state tier.State) tier.Change {
		return tier.SegmentUpdated{Partition: part, ID: seg.ID, State: state, At: 2}
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			r := from(150)
			r.EndOffset = 153
			for {
				select {
				case <-done:
					return
				default:
				}
				a := s.records(r)
				if i%2 == 0 {
					a = s.raw(r)
				}
				if a.err != nil || fmt.Sprint(a.offsets) != "[150 151 152]" {
					t.Errorf("at 150: %v", a)
					return
				}
			}
		})
	}
	for range 300 {
		s.apply(start(100))
		s.apply(state(segs[0], tier.DeleteStarted))
		s.apply(state(segs[2], tier.DeleteStarted))
		s.apply(state(segs[2], tier.DeleteFinished), state(segs[0], tier.DeleteFinished))
		s.apply(tier.SegmentLoaded{Segment: *segs[0]}, tier.SegmentLoaded{Segment: *segs[2]})
		s.apply(start(0))
		runtime.Gosched()
	}
	close(done)
	readers.Wait()
}

// I11: a reader that leaves after one record of a large segment has cost a chunk and what was read ahead of it; closing
// reads nothing.
func TestI11LeavingEarly(t *testing.T) {
	for _, view := range []string{"raw", "records"} {
		s := newHarness(t, shape{chunk: 1000, window: 3})
		s.plain()
		st, err := s.Open(t.Context(), from(0))
		if err != nil {
			t.Fatal(err)
		}
		var run Run
		if view == "raw" {
			err = st.NextRun(t.Context(), &run)
		} else {
			err = st.NextRecord(t.Context(), new(segment.Record))
		}
		if err != nil {
			t.Fatal(err)
		}
		run.Release()
		st.Close()
		if err := s.chunks.Close(t.Context()); err != nil { // waits for the loads that still run
			t.Fatal(err)
		}
		// Of 300: the chunk, one in which the header after the batch may lie, and the window behind each.
		if n := s.logGets(); n > 2+3 {
			t.Errorf("%s: %d chunks were read for one record", view, n)
		}
	}
}

// I12: a thousand reads that end in damage leave no goroutine, no slab and no decode memory behind; the harness checks
// the last two.
func TestI12DamagedReadsLeakNothing(t *testing.T) {
	s := newHarness(t, shape{})
	segs := s.plain()
	s.logs[segs[0].ID].log[100] ^= 1
	s.records(from(0))
	before := runtime.NumGoroutine()
	for i := range 1000 {
		if i%2 == 0 {
			wantKind(t, "records", s.records(from(0)), Damaged)
		} else {
			wantKind(t, "raw", s.raw(from(0)), Damaged)
		}
	}
	// Each load has a goroutine of its own, the last ones may still run; a leak would be hundreds.
	if n := runtime.NumGoroutine(); n > before+50 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	want(t, "the next segment", s.records(from(100)), offsetsOf(100, 299), EndTier, 300)
}

// J21: 20,000 segments cost no index at the start, and a read costs those of the segments it reads.
func TestJ21IndexesAreLoadedWhenRead(t *testing.T) {
	const segments = 20_000
	s := newHarness(t, shape{})
	s.topic("t", 0)
	part := tier.PartitionID{Topic: testTopic}
	changes := make([]tier.Change, segments)
	log := dense(0, 9, false)
	for i := range changes {
		base := int64(i) * 10
		s.logs[idOf(i+1)] = &storedLog{harness: s, id: idOf(i + 1), files: segment.Files{Decided: true}}
		changes[i] = tier.SegmentLoaded{Segment: tier.Segment{ID: idOf(i + 1), Partition: part, Topic: "t", BaseOffset: base, EndOffset: base + 9, MaxTimestamp: 10_000, EventTime: 1,
			Epochs: []segment.EpochStart{{StartOffset: base}}, Size: int64(len(log)), State: tier.CopyFinished, TxnIndexEmpty: true}}
	}
	s.apply(changes...)
	if s.indexes != 0 {
		t.Errorf("%d index loads before the first read", s.indexes)
	}
	for i, n := range []int{segments / 2, 0, segments - 1, 77} {
		base := int64(n) * 10
		s.logs[idOf(n+1)].log = dense(base, base+9, false)
		r := from(base + 5)
		r.EndOffset = base + 10
		r.Isolation = ReadCommitted
		if a := s.records(r); a.err != nil || fmt.Sprint(a.offsets) != fmt.Sprint(offsetsOf(base+5, base+9)) {
			t.Errorf("segment %d: %v", n, a)
		}
		if most := 2 * (i + 1); s.indexes > most {
			t.Errorf("%d index loads after %d reads", s.indexes, i+1)
		}
	}
	if s.logGets() > 8 {
		t.Errorf("%d GETs of logs for four small reads", s.logGets())
	}
}
