package fetch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"coldtap/cache"
	"coldtap/indexcache"
	"coldtap/internal/budget"
	"coldtap/internal/readcost"
	"coldtap/readahead"
	"coldtap/readerpool"
	"coldtap/segment"
	"coldtap/tier"
)

var testTopic = segment.UUID{15: 0x77}

// harness is a Service over logs in memory, which counts what is read of them.
type harness struct {
	*Service
	tb     testing.TB
	tier   *tier.Tier
	chunks *cache.Cache
	decode *budget.Budget
	chunk  int64

	mu       sync.Mutex
	logs     map[segment.UUID]*storedLog
	gets     map[segment.UUID]int
	fetched  int64
	indexes  int
	ready    error
	refresh  func() error
	loadLog  func(seg segment.UUID, off int64) error // nil = the bytes
	loadFile func(seg segment.UUID) error
}

// storedLog is a segment's files, and the source of its chunks.
type storedLog struct {
	harness *harness
	id      segment.UUID
	log     []byte
	files   segment.Files
	spoil   func(off int64, chunk []byte) // changes what a load gives; nil = nothing. Called under harness.mu
}

func (l *storedLog) LoadChunk(ctx context.Context, off int64, dst []byte, _ readerpool.Lane) (readcost.Cost, error) {
	s := l.harness
	s.mu.Lock()
	hook := s.loadLog
	s.gets[l.id]++
	s.fetched += int64(len(dst))
	s.mu.Unlock()
	if hook != nil {
		if err := hook(l.id, off); err != nil {
			return readcost.Cost{Requests: 1}, err
		}
	}
	copy(dst, l.log[off:])
	if l.spoil != nil {
		s.mu.Lock()
		l.spoil(off, dst)
		s.mu.Unlock()
	}
	return readcost.Cost{Requests: 1, Bytes: int64(len(dst))}, nil
}

type shape struct {
	chunk  int64 // default 4 KiB
	memory int64 // default 64 chunks
	window int   // default 2
	decode int64 // default 16 MiB
}

func newHarness(tb testing.TB, sh shape) *harness {
	tb.Helper()
	if sh.chunk == 0 {
		sh.chunk = 4 << 10
	}
	if sh.memory == 0 {
		sh.memory = 64 * sh.chunk
	}
	if sh.decode == 0 {
		sh.decode = 16 << 20
	}
	s := &harness{tb: tb, tier: tier.New(), chunk: sh.chunk, decode: budget.New(sh.decode),
		logs: map[segment.UUID]*storedLog{}, gets: map[segment.UUID]int{}}
	var err error
	if s.chunks, err = cache.New(cache.Config{Memory: sh.memory, Chunk: int(sh.chunk)}); err != nil {
		tb.Fatal(err)
	}
	indexes, err := indexcache.New(indexcache.Config{Memory: 8 << 20}, func(_ context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
		s.mu.Lock()
		s.indexes++
		hook, files := s.loadFile, s.logs[seg.ID].files
		s.mu.Unlock()
		if hook != nil {
			if err := hook(seg.ID); err != nil {
				return nil, readcost.Cost{Requests: 1}, err
			}
		}
		return &files, readcost.Cost{Requests: 1, Bytes: files.Size()}, nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.Service = New(Config{
		Source: (*harnessSource)(s), Chunks: s.chunks, Ahead: readahead.New(s.chunks, readahead.Config{Window: sh.window}),
		Indexes: indexes, Decode: s.decode,
		Logs: func(seg *tier.Segment) (cache.Source, int64) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.logs[seg.ID], s.chunk
		},
	})
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if n := s.decode.InUse(); n != 0 {
			tb.Errorf("%d bytes of decode memory were never given back", n)
		}
		if err := errors.Join(s.chunks.Close(ctx), indexes.Close(ctx)); err != nil {
			tb.Error(err)
		}
		if n := s.chunks.SlabsInUse(); n != 0 {
			tb.Errorf("%d slabs are still in use", n)
		}
	})
	return s
}

// harnessSource is the harness as a Source.
type harnessSource harness

func (s *harnessSource) Snapshot() *tier.Snapshot { return s.tier.Snapshot() }
func (s *harnessSource) ClusterID() string        { return "test" }
func (s *harnessSource) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}
func (s *harnessSource) Refresh(context.Context, tier.PartitionID) error {
	s.mu.Lock()
	refresh := s.refresh
	s.mu.Unlock()
	if refresh != nil {
		return refresh()
	}
	return nil
}

func (s *harness) apply(changes ...tier.Change) {
	s.tb.Helper()
	if rejected := s.tier.Apply(changes...); len(rejected) > 0 {
		s.tb.Fatalf("rejected: %+v", rejected)
	}
}

// topic names the test's topic, with the start of partition 0.
func (s *harness) topic(name string, start int64) {
	s.tb.Helper()
	s.apply(tier.TopicSeen{ID: testTopic, Name: name, At: 1},
		tier.BoundsChanged{Partition: tier.PartitionID{Topic: testTopic}, Bounds: tier.Bounds{Start: start, LocalStart: -1, HighWatermark: -1, LastStable: -1}})
}

// stored describes a segment for add. Its MaxTimestamp is computed from the batch headers.
type stored struct {
	n       int // makes the id; 0 = the next one
	base    int64
	end     int64
	maxTime int64 // 0 = of the batches
	epochs  []segment.EpochStart
	log     []byte
	files   segment.Files
	noTxns  bool
}

func idOf(n int) (id segment.UUID) {
	id[0] = 1
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

func (s *harness) add(x stored) *tier.Segment {
	s.tb.Helper()
	s.mu.Lock()
	if x.n == 0 {
		x.n = len(s.logs) + 1
	}
	id := idOf(x.n)
	s.logs[id] = &storedLog{harness: s, id: id, log: x.log, files: x.files}
	s.mu.Unlock()
	if x.epochs == nil {
		x.epochs = []segment.EpochStart{{Epoch: 0, StartOffset: x.base}}
	}
	if x.maxTime == 0 {
		x.maxTime = maxTimestamp(x.log)
	}
	seg := tier.Segment{ID: id, Partition: tier.PartitionID{Topic: testTopic}, Topic: "t", BaseOffset: x.base, EndOffset: x.end,
		MaxTimestamp: x.maxTime, EventTime: 1, Epochs: x.epochs, Size: int64(len(x.log)), State: tier.CopyFinished, TxnIndexEmpty: x.noTxns}
	s.apply(tier.SegmentLoaded{Segment: seg})
	return &seg
}

func maxTimestamp(log []byte) int64 {
	t := int64(-1)
	for pos := int64(0); pos < int64(len(log)); {
		h, err := segment.ParseHeader(log[pos:], int64(len(log))-pos)
		if err != nil {
			break
		}
		t = max(t, h.MaxTimestamp)
		pos += h.Size()
	}
	return t
}

// drop makes a segment DELETE_SEGMENT_STARTED, and the start follow.
func (s *harness) drop(seg *tier.Segment) {
	s.tb.Helper()
	s.apply(tier.SegmentUpdated{Partition: seg.Partition, ID: seg.ID, State: tier.DeleteStarted, At: 2},
		tier.BoundsChanged{Partition: seg.Partition, Bounds: tier.Bounds{Start: seg.EndOffset + 1, LocalStart: -1, HighWatermark: -1, LastStable: -1}})
}

func (s *harness) logGets() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gets {
		n += g
	}
	return n
}

// from is a request at an offset, without further limits, for everything.
func from(offset int64) *Request {
	return &Request{Topic: "t", Offset: offset, EndOffset: -1, EndTimestamp: -1, MaxBytes: 1 << 40, Isolation: ReadUncommitted}
}

// answer is what one read gave.
type answer struct {
	offsets []int64
	times   []int64
	batches [][]byte // raw
	end     EndReason
	decided int64
	next    int64
	start   int64
	bounds  Bounds
	stats   Stats
	err     error
}

func (a *answer) String() string {
	return fmt.Sprintf("%v, end %v, next %d, decided %d, error %v", a.offsets, a.end, a.next, a.decided, a.err)
}

// kind of the error, 0 for none.
func (a *answer) kind() Kind { return kindOf(a.err) }

func (a *answer) close(st *Stream, err error) {
	if err != io.EOF {
		a.err = err
	}
	a.end, a.decided = st.End()
	a.next, a.start, a.bounds, a.stats = st.NextOffset(), st.StartOffset(), st.Bounds(), *st.Stats()
	st.Close()
}

// records reads record by record.
func (s *harness) records(r *Request, each ...func(*segment.Record)) *answer {
	s.tb.Helper()
	st, err := s.Open(context.Background(), r)
	if err != nil {
		return &answer{err: err}
	}
	a := &answer{}
	var rec segment.Record
	for {
		if err = st.NextRecord(context.Background(), &rec); err != nil {
			break
		}
		a.offsets = append(a.offsets, rec.Offset)
		a.times = append(a.times, rec.Timestamp)
		for _, f := range each {
			f(&rec)
		}
	}
	a.close(st, err)
	return a
}

// raw reads runs, whose bytes it cuts into batches; offsets are those of the records in them that the range wants.
func (s *harness) raw(r *Request) *answer {
	s.tb.Helper()
	st, err := s.Open(context.Background(), r)
	if err != nil {
		return &answer{err: err}
	}
	a := &answer{}
	var run Run
	var all []byte
	for {
		if err = st.NextRun(context.Background(), &run); err != nil {
			break
		}
		if len(run.Bytes()) == 0 {
			s.tb.Fatal("an empty run")
		}
		all = append(all, run.Bytes()...)
	}
	run.Release()
	a.close(st, err)
	for len(all) > 0 {
		h, err := segment.ParseHeader(all, int64(len(all)))
		if err != nil {
			s.tb.Fatalf("runs are not whole batches: %v", err)
		}
		b := all[:h.Size()]
		if err := segment.VerifyCRC(&h, b); err != nil {
			s.tb.Fatalf("a batch that is not as stored came out: %v", err)
		}
		a.batches = append(a.batches, b)
		all = all[h.Size():]
		if h.IsControl() {
			continue
		}
		d := segment.NewDecoder(1<<30, nil)
		if err := d.Open(b); err != nil {
			s.tb.Fatal(err)
		}
		var rec segment.Record
		for {
			more, err := d.Next(&rec)
			if err != nil {
				s.tb.Fatal(err)
			}
			if !more {
				break
			}
			if rec.Offset >= a.start && (r.EndOffset < 0 || rec.Offset < r.EndOffset) {
				a.offsets = append(a.offsets, rec.Offset)
			}
		}
		d.Close()
	}
	return a
}

// want compares an answer's records, end and next offset.
func want(tb testing.TB, what string, a *answer, offsets []int64, end EndReason, next int64) {
	tb.Helper()
	if a.err != nil || fmt.Sprint(a.offsets) != fmt.Sprint(offsets) || a.end != end || a.next != next {
		tb.Errorf("%s: got %v; want %v, end %v, next %d", what, a, offsets, end, next)
	}
}

// wantKind compares an answer's error.
func wantKind(tb testing.TB, what string, a *answer, kind Kind) *Error {
	tb.Helper()
	var e *Error
	if !errors.As(a.err, &e) || e.Kind != kind {
		tb.Fatalf("%s: got %v; want error %v", what, a, kind)
	}
	return e
}

// offsetsOf lists first to last.
func offsetsOf(first, last int64) []int64 {
	var list []int64
	for o := first; o <= last; o++ {
		list = append(list, o)
	}
	return list
}

func joined(batches ...[]byte) []byte {
	var log []byte
	for _, b := range batches {
		log = append(log, b...)
	}
	return log
}

// plain adds three segments of 100 one-record batches of 1,000 bytes each, an index entry every five batches, and
// timestamps a millisecond apart.
func (s *harness) plain() (segs [3]*tier.Segment) {
	s.topic("t", 0)
	for i := range segs {
		base := int64(i) * 100
		var log []byte
		var offsets, times []int64
		for o := base; o < base+100; o++ {
			if o > base && o%5 == 0 {
				offsets = append(offsets, o, int64(len(log)))
				times = append(times, plainTime+o, o)
			}
			log = append(log, one(o, plainTime+o, 1000)...)
		}
		segs[i] = s.add(stored{base: base, end: base + 99, log: log, noTxns: true, files: segment.Files{
			OffsetIndex: offsetIndex(base, offsets...), TimeIndex: timeIndex(base, times...), Decided: true, Dense: true}})
	}
	return segs
}

const plainTime = 1_700_000_000_000
