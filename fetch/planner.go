package fetch

import (
	"context"
	"math"
	"sort"
	"sync"

	"coldtap/cache"
	"coldtap/fetch/scan"
	"coldtap/indexcache"
	"coldtap/readahead"
	"coldtap/readerpool"
	"coldtap/segment"
	"coldtap/tier"
)

// goal is how far an answer goes, as far as that is known before its batches are seen.
type goal struct {
	committed bool  // read_committed
	search    bool  // for the first record at or after the timestamp until; it looks at one segment
	end       int64 // offset at which the answer ends if there are no gaps
	from      int64 // records before this timestamp are not wanted; MinInt64: all are
	until     int64 // timestamp of the record at which the answer is expected to end; MaxInt64 = none
}

// endsIn says whether the answer is expected to end within seg, so that its indexes tell where read-ahead may stop.
func (g *goal) endsIn(seg *tier.Segment) bool {
	return g.end <= seg.EndOffset || seg.MaxTimestamp >= g.until
}

// after gives the segment that the answer is expected to go on in.
func (g *goal) after(part *tier.Partition, seg *tier.Segment) (next *tier.Segment, ok bool) {
	if g.search || g.endsIn(seg) {
		return nil, false
	}
	for next, ok = part.Next(seg); ok && next.MaxTimestamp < g.from; next, ok = part.Next(next) {
	}
	return next, ok && next.BaseOffset < g.end
}

// needsIndex says whether reading seg from an offset on takes more than its log.
func (g *goal) needsIndex(seg *tier.Segment, offset int64) bool {
	return g.committed || g.search || offset > seg.BaseOffset || g.endsIn(seg)
}

// endPosition is the log position up to which the answer will need seg's log.
func (g *goal) endPosition(seg *tier.Segment, entry *indexcache.Entry) int64 {
	end := g.end
	if seg.MaxTimestamp >= g.until {
		// The first record at or after the time lies at or before the first entry that reached it.
		times := entry.Times
		i := sort.Search(times.Len(), func(i int) bool {
			timestamp, _ := times.Entry(i)
			return timestamp >= g.until
		})
		if i < times.Len() {
			_, offset := times.Entry(i)
			end = min(end, offset+1)
		}
	}
	if end > seg.EndOffset {
		return seg.Size
	}
	return endPosition(entry.Offsets, end-1, seg.Size)
}

// endPosition is a position at or behind the end of the batch that holds offset. An index entry names the last offset
// of what was appended at its position, so the first entry above offset may begin below it: then only the entry after
// that one lies surely behind.
func endPosition(x segment.OffsetIndex, offset, size int64) int64 {
	indexed, pos := x.Lookup(offset)
	_, above, ok := x.UpperBound(pos + 1)
	if !ok {
		return size
	}
	if indexed == offset {
		return above
	}
	if _, behind, ok := x.UpperBound(above + 1); ok {
		return behind
	}
	return size
}

// planner lists the chunks that an answer can need, as spans of segments' logs. It loads indexes, which tell where to
// begin and where to stop, and reads no log.
type planner struct {
	cfg   *Config
	wait  *waiter
	warm  warmer
	first *tier.Segment // of the first span
	last  *tier.Segment // of the last span

	spans   []readahead.Span // of the segment being read first
	lane    readerpool.Lane
	until   int64 // log position up to which the answer can need the first span
	checked int64 // log position of the reader up to which the list is long enough
}

// opening is what the planner tells of a segment that is about to be read.
type opening struct {
	log        scan.Log
	offset     int64 // what lies below it is not wanted
	until      int64 // log position up to which the answer can need the log
	aborted    []segment.AbortedTxn
	decidedEnd int64 // offset up to which aborted is complete; MaxInt64: for the whole segment
}

// open looks up where to begin in seg, for a read from offset on, and where to stop.
func (p *planner) open(ctx context.Context, part *tier.Partition, seg *tier.Segment, offset int64, g goal) (opening, error) {
	o := opening{offset: offset, until: seg.Size, decidedEnd: math.MaxInt64, log: p.describe(seg)}
	if !g.needsIndex(seg, offset) {
		return o, nil
	}
	entry, err := p.index(ctx, seg)
	if err != nil {
		return o, err
	}
	if g.committed {
		if o.aborted, o.decidedEnd, err = p.abortedIn(ctx, part, seg, entry); err != nil {
			return o, err
		}
	}
	g.end = min(g.end, o.decidedEnd)
	if g.from > math.MinInt64 {
		if _, at := entry.Times.Lookup(g.from); at <= seg.EndOffset {
			o.offset = max(offset, at) // what lies before is too early
		}
	}
	o.log.Dense, o.log.Offsets = entry.Files.Dense, entry.Offsets
	o.until = g.endPosition(seg, entry)
	return o, nil
}

// describe tells a scanner what metadata say of a log.
func (p *planner) describe(seg *tier.Segment) scan.Log {
	_, chunk := p.cfg.Logs(seg)
	return scan.Log{ID: seg.ID, Base: seg.BaseOffset, Last: seg.EndOffset, Size: seg.Size, Chunk: chunk}
}

// index gives a segment's small files.
func (p *planner) index(ctx context.Context, seg *tier.Segment) (*indexcache.Entry, error) {
	c := p.wait.start(ctx)
	entry, loaded, err := p.cfg.Indexes.Get(c, seg)
	err = p.wait.done(c, &p.wait.stats.Index, err)
	p.wait.stats.StoreRequests += loaded.Requests
	p.wait.stats.StoreBytes += loaded.Bytes
	if err != nil {
		return nil, at(err, seg, -1)
	}
	return entry, nil
}

// startAt makes the list begin with what is needed of seg's log, from a position on. continues: the list had it
// already, so that read-ahead goes on.
func (p *planner) startAt(seg *tier.Segment, pos, until int64) (continues bool, err error) {
	p.first, p.until, p.checked = seg, until, -1
	key := seg.Key()
	for i := range p.spans {
		s := &p.spans[i]
		if s.Log.Key.Segment != key {
			continue
		}
		if pos/s.Chunk < s.First {
			break
		}
		s.Last = lastChunk(until, s.Chunk)
		p.spans = append(p.spans[:0], p.spans[i:]...)
		return true, nil
	}
	p.clear()
	p.first, p.until = seg, until
	return false, p.append(seg, pos, until)
}

func lastChunk(until, chunk int64) int64 { return max(until-1, 0) / chunk }

// append adds what is needed of a segment's log, from a position on.
func (p *planner) append(seg *tier.Segment, pos, until int64) error {
	src, chunk := p.cfg.Logs(seg)
	if src == nil || chunk <= 0 {
		return failure(Internal, nil, "no chunk source for segment %s", seg.ID)
	}
	p.spans = readahead.Append(p.spans, readahead.Span{Size: seg.Size, Chunk: chunk, First: pos / chunk, Last: lastChunk(until, chunk),
		Log: cache.Request{Key: cache.Key{Segment: seg.Key()}, Source: src, Lane: p.lane}})
	p.last = seg
	return nil
}

func (p *planner) clear() {
	clear(p.spans)
	p.spans, p.first, p.last, p.checked = p.spans[:0], nil, nil, -1
}

// isDue says that a reader at a position of the first span's log needs the list to be extended.
func (p *planner) isDue(pos int64) bool { return pos >= p.checked }

// extend lists the segments that the answer goes on in, for a reader at a position of the first span's log: as many
// chunks as read-ahead may ask for, and no more bytes than room.
func (p *planner) extend(part *tier.Partition, pos, room int64, g goal) {
	chunk := p.spans[0].Chunk
	number := pos / chunk
	p.checked = (number + 1) * chunk
	chunks, bytes := -number, -pos // listed behind the reader
	for i := range p.spans {
		chunks += (p.spans[i].Size + p.spans[i].Chunk - 1) / p.spans[i].Chunk
		bytes += p.spans[i].Size
	}
	// The batch may lie in the next chunk as well.
	for chunks <= int64(p.cfg.Ahead.Window())+1 && bytes < room && p.spans[len(p.spans)-1].Whole() {
		next, until, ok := p.following(part, g)
		if !ok || p.append(next, 0, until) != nil {
			return
		}
		s := &p.spans[len(p.spans)-1]
		chunks += (s.Size + s.Chunk - 1) / s.Chunk
		bytes += s.Size
	}
}

// following gives the segment whose log is needed behind the last span, from its first byte on, and up to where.
func (p *planner) following(part *tier.Partition, g goal) (next *tier.Segment, until int64, ok bool) {
	next, ok = g.after(part, p.last)
	// An overlapping segment is read from a position that its index gives, not from its first byte.
	if !ok || next.BaseOffset <= p.last.EndOffset {
		return nil, 0, false
	}
	// Where the log's first chunk is in memory, the index will be too.
	if g.needsIndex(next, next.BaseOffset) && !p.cfg.Chunks.Contains(cache.Key{Segment: next.Key()}) {
		p.warm.load(p.cfg.Indexes, next)
	}
	if g.endsIn(next) {
		return next, 1, true // its first chunk; its index tells about the others
	}
	return next, next.Size, true
}

// warmer loads index entries of segments that will be read soon, so that a reader does not stop at each border for one
// round trip (30 ms at a border every 64 MiB would be a tenth of the throughput).
type warmer struct {
	ctx    context.Context
	cancel context.CancelFunc
	jobs   sync.WaitGroup
}

func (w *warmer) load(indexes *indexcache.Cache, seg *tier.Segment) {
	if w.ctx == nil {
		w.ctx, w.cancel = context.WithCancel(context.Background())
	}
	ctx := w.ctx
	w.jobs.Go(func() {
		// An error shows when the segment is read.
		_, _, _ = indexes.Get(ctx, seg)
	})
}

// stop ends the waiting; loads that run go on for the next reader.
func (w *warmer) stop() {
	if w.ctx != nil {
		w.cancel()
		w.jobs.Wait()
		w.ctx, w.cancel = nil, nil
	}
}
