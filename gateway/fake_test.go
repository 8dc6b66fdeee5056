package gateway

import (
	"cmp"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/fetch"
	"coldtap/segment"
)

// fakeService scripts fetch: each answer is what the test puts there. Tests change it between answers. Calls that run
// side by side take mu, and so does who has read an answer: the race detector sees no order between a vectored write
// and its reader.
type fakeService struct {
	open      func(ctx context.Context, req *fetch.Request) (stream, error)
	openFile  func(seg, name string) (file, error)
	timed     fetch.TimedOffset
	topics    []string
	topic     fetch.TopicInfo
	partition fetch.PartitionInfo
	plan      *fetch.Plan
	settled   []segment.UUID
	bounds    fetch.Bounds // zero: those of fakeStream
	stats     fetch.Stats
	segments  []fetch.SegmentInfo
	err       error
	mu        sync.Mutex
	asked     fetch.Request // the last request opened
	internal  bool
	all       bool
	at        int64
	span      [2]int64 // zero: not known
}

func (f *fakeService) Open(ctx context.Context, req *fetch.Request) (stream, error) {
	f.mu.Lock()
	f.asked = *req
	open, settled, stats, bounds, err := f.open, f.settled, f.stats, f.bounds, f.err
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	st, err := open(ctx, req)
	if s, ok := st.(*fakeStream); ok {
		s.settled, s.stats = settled, stats
		if bounds != (fetch.Bounds{}) {
			s.bounds = bounds
		}
	}
	return st, err
}

func (f *fakeService) Plan(_ context.Context, req *fetch.Request) (*fetch.Plan, error) {
	f.asked = *req
	return f.plan, f.err
}

func (f *fakeService) OpenFile(_ context.Context, _ string, _ segment.UUID, _ int32, seg, name string, timeout time.Duration) (file, error) {
	f.asked.Timeout = timeout
	if f.err != nil {
		return nil, f.err
	}
	return f.openFile(seg, name)
}

func (f *fakeService) OffsetForTime(_ context.Context, _ string, _ segment.UUID, _ int32, ts int64, iso fetch.Isolation, timeout time.Duration) (fetch.TimedOffset, error) {
	f.at, f.asked.Isolation, f.asked.Timeout = ts, iso, timeout
	return f.timed, f.err
}
func (f *fakeService) TimeSpan(string, segment.UUID, int32) (from, to int64, known bool) {
	return f.span[0], f.span[1], f.span != [2]int64{}
}
func (f *fakeService) Topics(internal bool) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.internal = internal
	return f.topics, f.err
}
func (f *fakeService) Topic(name string, id segment.UUID) (fetch.TopicInfo, error) {
	f.asked.Topic, f.asked.TopicID = name, id
	return f.topic, f.err
}
func (f *fakeService) Partition(topic string, _ segment.UUID, partition int32) (fetch.PartitionInfo, error) {
	f.asked.Topic, f.asked.Partition = topic, partition
	return f.partition, f.err
}
func (f *fakeService) Segments(_ string, _ segment.UUID, _ int32, all bool) ([]fetch.SegmentInfo, error) {
	f.all = all
	return f.segments, f.err
}
func (f *fakeService) Ready() error      { return f.err }
func (f *fakeService) ClusterID() string { return "kraft-1" }

// fakeRun is one piece, or the error in its place.
type fakeRun struct {
	data []byte
	next int64 // NextOffset behind it; the same as before it: the batch goes on in the next run
	part bool  // the batch goes on in the next run, though NextOffset moved over hidden ones
	err  error
	do   func(ctx context.Context) // before it is given

	decoded bool // it lies in decode memory
}

// fakeRecord is one record, or the error in its place.
type fakeRecord struct {
	rec  segment.Record
	last bool // of its batch: the next one needs I/O
	err  error
	do   func(ctx context.Context)
}

type fakeStream struct {
	start, reached int64
	part           bool // the last run ends within a batch
	runs           []fakeRun
	records        []fakeRecord
	end            fetch.EndReason
	decided        int64
	buffered       bool
	bounds         fetch.Bounds
	stats          fetch.Stats
	settled        []segment.UUID
	pinned         *atomic.Int64 // pieces not released
	closed         *atomic.Int64
}

type fakePiece struct {
	data    []byte
	pinned  *atomic.Int64
	decoded bool
}

func (p *fakePiece) Bytes() []byte { return p.data }
func (p *fakePiece) Release()      { p.pinned.Add(-1) }

func (p *fakePiece) InDecodeMemory() bool { return p.decoded }

func (s *fakeStream) NextRecord(ctx context.Context, rec *segment.Record) error {
	if len(s.records) == 0 {
		return io.EOF
	}
	r := &s.records[0]
	s.records = s.records[1:]
	if r.do != nil {
		r.do(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.err != nil {
		return r.err
	}
	*rec = r.rec
	s.reached = rec.Offset + 1
	s.buffered = !r.last && len(s.records) > 0
	return nil
}

func (s *fakeStream) Buffered() bool    { return s.buffered }
func (s *fakeStream) DecodeHeld() int64 { return 0 }
func (s *fakeStream) NextOffset() int64 { return s.reached }
func (s *fakeStream) End() (fetch.EndReason, int64) {
	if s.end != fetch.EndUndecided {
		return s.end, -1
	}
	return s.end, s.decided
}
func (s *fakeStream) Bounds() fetch.Bounds {
	if s.bounds != (fetch.Bounds{}) {
		return s.bounds
	}
	return fetch.Bounds{Start: 5, LocalStart: -1, TieredEnd: 1000, LastStable: -1, HighWatermark: -1}
}
func (s *fakeStream) Stats() *fetch.Stats           { return &s.stats }
func (s *fakeStream) Topic() (string, segment.UUID) { return "orders", segment.UUID{1} }
func (s *fakeStream) Settled(_ context.Context, ids []segment.UUID) ([]segment.UUID, bool) {
	return append(ids, s.settled...), len(s.settled) > 0
}
func (s *fakeStream) StartOffset() int64 { return s.start }
func (s *fakeStream) Whole() bool        { return !s.part }
func (s *fakeStream) Close()             { s.closed.Add(1) }

func (s *fakeStream) next(ctx context.Context, _ int) (piece, error) {
	if len(s.runs) == 0 {
		return nil, io.EOF
	}
	r := &s.runs[0]
	s.runs = s.runs[1:]
	if r.do != nil {
		r.do(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	s.part, s.reached = r.part || r.next <= s.reached, r.next
	s.pinned.Add(1)
	return &fakePiece{r.data, s.pinned, r.decoded}, nil
}

// fakeFile is a file of a segment in pieces of at most step bytes.
type fakeFile struct {
	data   []byte
	step   int
	pinned *atomic.Int64
	failAt int64 // a read from here on fails; 0: never
	tag    string
}

func (f *fakeFile) Size() int64  { return int64(len(f.data)) }
func (f *fakeFile) ETag() string { return cmp.Or(f.tag, `"id-log"`) }
func (f *fakeFile) open(from, to int64) pieces {
	return &fakeFileRange{f, from, to}
}

type fakeFileRange struct {
	f        *fakeFile
	from, to int64
}

func (r *fakeFileRange) Close() {}

func (r *fakeFileRange) next(context.Context, int) (piece, error) {
	if r.from == r.to {
		return nil, io.EOF
	}
	if r.f.failAt > 0 && r.from >= r.f.failAt {
		return nil, &fetch.Error{Kind: fetch.Unreachable, Position: -1, NextOffset: -1}
	}
	n := min(int64(r.f.step), r.to-r.from)
	data := r.f.data[r.from : r.from+n]
	r.from += n
	r.f.pinned.Add(1)
	return &fakePiece{data, r.f.pinned, false}, nil
}
