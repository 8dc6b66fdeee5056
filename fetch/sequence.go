package fetch

import (
	"context"
	"sync"

	"coldtap/cache"
	"coldtap/readerpool"
	"coldtap/tier"
)

// span is the part of a sequence that lies in one segment's log: its chunks from number first to the log's end.
type span struct {
	seg   *tier.Segment
	src   cache.Source
	chunk int64 // bytes of a chunk
	first int64 // number, within the log, of the span's first chunk
	n     int   // step of the sequence at which that chunk stands
	count int
	until int64 // log position up to which read-ahead is worth it
}

func (p *span) end() int { return p.n + p.count }

// sequence is the run of chunks that a cursor may come to need, for its read-ahead session. A chunk that is demanded is
// always described; chunks after it only while the answer can need them, since every chunk that is fetched and not
// served costs a request to the store.
type sequence struct {
	partition tier.PartitionID
	lane      readerpool.Lane
	logs      LogSource

	spans  []span // the one being read first
	pos    int64  // log position of the reader in spans[0]
	demand int    // step demanded last
	budget int64  // bytes, from pos on, that the answer may still take

	// extend gives the segment whose log follows s's from its first byte on, and the position up to which read-ahead
	// in it is worth it; nil for a sequence of one segment.
	extend extender
}

type extender interface {
	following(s *tier.Segment) (next *tier.Segment, until int64, ok bool)
}

// At describes the chunk n steps after the first (readahead.Sequence).
func (q *sequence) At(n int) (cache.Request, bool) {
	for n >= q.spans[len(q.spans)-1].end() {
		if n <= q.demand || q.extend == nil || !q.grow() {
			return cache.Request{}, false
		}
	}
	i := len(q.spans) - 1
	for i > 0 && n < q.spans[i].n {
		i--
	}
	p := &q.spans[i]
	if n < p.n {
		return cache.Request{}, false
	}
	number := p.first + int64(n-p.n)
	off := number * p.chunk
	if n > q.demand && (off >= p.until || q.distance(i, off) >= q.budget) {
		return cache.Request{}, false
	}
	return cache.Request{
		Key:    cache.Key{Segment: p.seg.Key(), Chunk: int32(number)},
		Off:    off,
		Len:    int(min(p.chunk, p.seg.Size-off)),
		Source: p.src,
		Lane:   q.lane,
	}, true
}

// distance is how many bytes lie between the reader and position off of span i.
func (q *sequence) distance(i int, off int64) int64 {
	from := q.pos
	var between int64
	for k := range i {
		between += q.spans[k].seg.Size - from
		from = 0
	}
	return between + off - from
}

// grow appends the next segment's span.
func (q *sequence) grow() bool {
	last := q.spans[len(q.spans)-1].seg
	next, until, ok := q.extend.following(last)
	if !ok {
		return false
	}
	return q.append(next, 0, until) == nil
}

// append adds a span from position pos of a segment's log on.
func (q *sequence) append(seg *tier.Segment, pos, until int64) error {
	src, chunk := q.logs(seg)
	if src == nil || chunk <= 0 {
		return failure(Internal, nil, "no chunk source for segment %s", seg.ID)
	}
	p := span{seg: seg, src: src, chunk: chunk, first: pos / chunk, until: until}
	if n := len(q.spans); n > 0 {
		p.n = q.spans[n-1].end()
	}
	p.count = int((seg.Size+chunk-1)/chunk - p.first)
	q.spans = append(q.spans, p)
	return nil
}

// enter makes seg the segment being read, from pos on, if the sequence holds that place already.
func (q *sequence) enter(seg *tier.Segment, pos, until int64) bool {
	for i := range q.spans {
		if q.spans[i].seg.ID != seg.ID {
			continue
		}
		if pos < q.spans[i].first*q.spans[i].chunk {
			return false
		}
		q.spans = append(q.spans[:0], q.spans[i:]...)
		q.spans[0].until = until
		q.pos = pos
		return true
	}
	return false
}

func (q *sequence) clear() {
	clear(q.spans)
	q.spans, q.pos, q.demand = q.spans[:0], 0, 0
}

// warmer loads index entries of segments that will be entered soon, so that a reader does not stop at each border for
// one round trip (30 ms at a border every 64 MiB would be a tenth of the throughput).
type warmer struct {
	ctx    context.Context
	cancel context.CancelFunc
	jobs   sync.WaitGroup
}

func (w *warmer) warm(s *Service, seg *tier.Segment) {
	if w.ctx == nil {
		w.ctx, w.cancel = context.WithCancel(context.Background())
	}
	ctx := w.ctx
	w.jobs.Go(func() {
		// An error shows when the segment is entered.
		_, _, _ = s.cfg.Indexes.Get(ctx, seg)
	})
}

// stop ends the waiting; loads that run go on for whoever comes next.
func (w *warmer) stop() {
	if w.ctx != nil {
		w.cancel()
		w.jobs.Wait()
		w.ctx, w.cancel = nil, nil
	}
}
