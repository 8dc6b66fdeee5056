package fetch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"coldtap/cache"
	"coldtap/segment"
	"coldtap/tier"
)

// pinOthers holds n slabs until the returned function is called.
func (s *harness) pinOthers(n int) (release func()) {
	s.tb.Helper()
	l := &storedLog{harness: s, id: idOf(1 << 20), log: make([]byte, s.chunk)}
	var held []*cache.Chunk
	for i := range n {
		c, _, err := s.chunks.Acquire(context.Background(), cache.Request{
			Key: cache.Key{Segment: tier.SegmentKey{ID: l.id}, Chunk: int32(i)}, Len: int(s.chunk), Source: l})
		if err != nil {
			s.tb.Fatal(err)
		}
		held = append(held, c)
	}
	return func() {
		for _, c := range held {
			c.Release()
		}
	}
}

// With memory for a single chunk a batch that straddles two is joined in decode memory, wherever it is cut.
func TestOneSlab(t *testing.T) {
	const chunk = 256
	for cut := 0; cut <= segment.HeaderSize+30; cut++ {
		s := newHarness(t, shape{chunk: chunk, memory: 4 * chunk, decode: 4 << 10, window: -1})
		s.topic("t", 0)
		log := joined(one(0, 1000, chunk-cut), dense(1, 9, true), one(10, 1000, 100), one(11, 1000, 900), one(12, 1001, 100))
		s.add(stored{base: 0, end: 12, log: log})
		release := s.pinOthers(3)
		want(t, fmt.Sprint("records, cut ", cut), s.records(from(0)), offsetsOf(0, 12), EndTier, 13)
		if a := s.raw(from(0)); !bytes.Equal(joined(a.batches...), log) {
			t.Errorf("raw, cut %d: %v", cut, a)
		}
		r := from(0)
		r.MaxRecords = 5
		r.EndTimestamp = 1 << 40
		if a := s.raw(r); len(a.batches) != 2 {
			t.Errorf("raw with a count, cut %d: %v", cut, a)
		}
		release()
	}
}

// Decode memory that is short, but not too short, makes a stream wait with nothing held, and go on where it was.
func TestShortDecodeMemory(t *testing.T) {
	for _, view := range []string{"raw", "records", "time"} {
		s := newHarness(t, shape{decode: 64 << 10})
		s.topic("t", 0)
		log := joined(dense(0, 99, true), dense(100, 199, true))
		s.add(stored{base: 0, end: 199, log: log})
		if !s.decode.TryAcquire(60 << 10) {
			t.Fatal("decode memory is in use")
		}
		waiting := make(chan struct{})
		done := make(chan *answer, 1)
		go func() {
			close(waiting)
			r := from(10)
			switch view {
			case "raw":
				r.MaxRecords, r.EndTimestamp = 150, 150_001
				done <- s.raw(r)
			case "records":
				r.EndOffset = 150
				done <- s.records(r)
			case "time":
				got, err := s.OffsetForTime(context.Background(), "t", segment.UUID{}, 0, 150_001, ReadUncommitted, 0)
				done <- &answer{err: err, next: got.Offset}
			}
		}()
		<-waiting
		s.decode.Release(60 << 10)
		if a := <-done; a.err != nil || a.next != 150 {
			t.Errorf("%s: %v", view, a)
		}
	}
}

// Buffered says when the next record comes from what is decompressed already, so that callers flush before they wait.
func TestBuffered(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 19, log: joined(dense(0, 9, true), dense(10, 19, true))})
	st, err := s.Open(t.Context(), from(0))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if st.Buffered() {
		t.Error("buffered before the first record")
	}
	var rec segment.Record
	for o := range int64(20) {
		if err := st.NextRecord(t.Context(), &rec); err != nil || rec.Offset != o {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
		if got := st.Buffered(); got != (o%10 != 9) {
			t.Errorf("after offset %d: buffered %v", o, got)
		}
	}
	if err := st.NextRecord(t.Context(), &rec); err != io.EOF || st.Buffered() {
		t.Errorf("at the end: %v, buffered %v", err, st.Buffered())
	}
	if name, id := st.Topic(); name != "t" || id != testTopic {
		t.Errorf("topic %s %s", name, id)
	}
}

// Runs outlive the stream, and are as long as chunks allow.
func TestRunsOutliveStream(t *testing.T) {
	s := newHarness(t, shape{chunk: 10_500})
	s.plain()
	st, err := s.Open(t.Context(), from(0))
	if err != nil {
		t.Fatal(err)
	}
	var runs [4]Run
	var lengths []int
	for i := range runs {
		if err := st.NextRun(t.Context(), &runs[i]); err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, len(runs[i].Bytes()))
	}
	st.Close()
	s.chunks.DropSegment(tier.SegmentKey{Partition: tier.PartitionID{Topic: testTopic}, ID: idOf(1)})
	// Ten batches, the first half of the eleventh, its other half with nine more, the first half of the next.
	if fmt.Sprint(lengths) != "[10000 500 10500 10500]" && fmt.Sprint(lengths) != "[10000 500 10500 10000]" {
		t.Errorf("runs of %v bytes", lengths)
	}
	var got []byte
	for i := range runs {
		got = append(got, runs[i].Bytes()...)
		runs[i].Release()
		runs[i].Release()
	}
	if !bytes.Equal(got, s.logs[idOf(1)].log[:len(got)]) {
		t.Error("other bytes after the stream was closed")
	}
}

// What an offset index can prove about where the answer ends, and what it can't.
func TestEndPosition(t *testing.T) {
	x, err := segment.ParseOffsetIndex(offsetIndex(100, 119, 1000, 139, 2000, 159, 3000), 100, 5000)
	if err != nil {
		t.Fatal(err)
	}
	for offset, pos := range map[int64]int64{
		100: 1000, // the batch at 0 ends before the first entry's
		110: 2000, // in what was appended at 1000, or before it
		119: 2000, // the last of what was appended at 1000
		120: 3000,
		139: 3000,
		140: 5000,
		170: 5000,
	} {
		if got := endPosition(x, offset, 5000); got != pos {
			t.Errorf("offset %d ends before %d, want %d", offset, got, pos)
		}
	}
	if got := endPosition(segment.OffsetIndex{}, 7, 5000); got != 5000 {
		t.Errorf("without entries: %d", got)
	}
}

func TestErrorText(t *testing.T) {
	e := failure(Damaged, io.ErrUnexpectedEOF, "batch at offset %d", 7)
	e.Segment, e.Position = idOf(1), 99
	if got := e.Error(); got != "batch at offset 7 (segment "+idOf(1).String()+", position 99): unexpected EOF" {
		t.Error(got)
	}
	if got := (&Error{Kind: NotReady}).Error(); got != "not ready" {
		t.Error(got)
	}
	for k := TopicUnknown; int(k) < kinds; k++ {
		if strings.HasPrefix(k.String(), "kind ") {
			t.Errorf("kind %d has no name", k)
		}
	}
}

// A stream sees segments that are added while it runs, and ends with a tier that has grown.
func TestTierGrowsWhileStreaming(t *testing.T) {
	s := newHarness(t, shape{})
	segs := s.plain()
	st, err := s.Open(t.Context(), from(290))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var rec segment.Record
	n := 0
	for ; st.NextRecord(t.Context(), &rec) == nil; n++ {
		if rec.Offset == 295 {
			s.add(stored{base: 300, end: 309, log: dense(300, 309, false)})
			s.apply(tier.SegmentUpdated{Partition: segs[0].Partition, ID: segs[0].ID, State: tier.DeleteStarted, At: 2})
		}
	}
	if reason, _ := st.End(); n != 20 || reason != EndTier || st.NextOffset() != 310 {
		t.Errorf("%d records, end %v at %d", n, reason, st.NextOffset())
	}
}
