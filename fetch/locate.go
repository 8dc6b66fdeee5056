package fetch

import (
	"context"
	"math"
	"sort"

	"coldtap/cache"
	"coldtap/indexcache"
	"coldtap/segment"
	"coldtap/tier"
)

// enter places the cursor in seg, as near before target as its index says.
func (st *Stream) enter(ctx context.Context, seg *tier.Segment, target int64) error {
	st.cur.seg, st.cur.dense, st.cur.seq.partition = seg, false, seg.Partition
	st.placed, st.locating, st.fellBack, st.last = true, false, false, -1
	st.decidedEnd = math.MaxInt64
	st.aborted.set(nil)
	pos, until := int64(0), seg.Size
	if st.needsIndex(seg, target) {
		entry, err := st.index(ctx, seg)
		if err != nil {
			return err
		}
		st.cur.dense = entry.Files.Dense
		if st.req.Isolation == ReadCommitted {
			list, decidedEnd, err := st.abortedIn(ctx, seg, entry)
			if err != nil {
				return err
			}
			st.aborted.set(list)
			st.decidedEnd = decidedEnd
		}
		earliest := st.times.from
		if st.view == readOffset {
			earliest = st.hintTime
		}
		if earliest > math.MinInt64 {
			if _, offset := entry.Times.Lookup(earliest); offset <= seg.EndOffset {
				target = max(target, offset) // what lies before is too early
			}
		}
		if target > seg.BaseOffset {
			_, pos = entry.Offsets.Lookup(target)
			st.locating, st.offsets = pos > 0, entry.Offsets
		}
		until = st.readAheadUntil(seg, entry)
	}
	st.target = target
	return st.cur.enter(seg, st.snap, pos, until)
}

// index gives a segment's small files.
func (st *Stream) index(ctx context.Context, seg *tier.Segment) (*indexcache.Entry, error) {
	p := st.wait.begin(ctx)
	entry, loaded, err := st.svc.cfg.Indexes.Get(p, seg)
	err = st.wait.end(p, &st.wait.stats.Index, err)
	st.wait.stats.StoreRequests += loaded.Requests
	st.wait.stats.StoreBytes += loaded.Bytes
	if err != nil {
		return nil, st.cur.at(err, -1)
	}
	return entry, nil
}

// needsIndex says whether reading seg from target on takes more than its log.
func (st *Stream) needsIndex(seg *tier.Segment, target int64) bool {
	return st.req.Isolation == ReadCommitted || st.view == readOffset || target > seg.BaseOffset || st.endsIn(seg)
}

// endsIn says whether the answer is expected to end within seg, so that its indexes tell where read-ahead may stop.
func (st *Stream) endsIn(seg *tier.Segment) bool {
	return st.expectedEnd() <= seg.EndOffset || seg.MaxTimestamp >= st.hintTime
}

// expectedEnd is the offset at which the answer ends if there are no gaps; it only guides read-ahead.
func (st *Stream) expectedEnd() int64 {
	end := min(st.rangeEnd, st.decidedEnd)
	if more := st.req.MaxRecords - st.records; st.req.MaxRecords > 0 && more < math.MaxInt64-st.next {
		end = min(end, st.next+more)
	}
	return end
}

// readAheadUntil is the log position up to which the answer will need seg's log.
func (st *Stream) readAheadUntil(seg *tier.Segment, entry *indexcache.Entry) int64 {
	end := st.expectedEnd()
	if seg.MaxTimestamp >= st.hintTime {
		// The first record at or after the time lies at or before the first entry that reached it.
		times := entry.Times
		i := sort.Search(times.Len(), func(i int) bool {
			timestamp, _ := times.Entry(i)
			return timestamp >= st.hintTime
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

// following gives read-ahead the segment after s (extender).
func (st *Stream) following(s *tier.Segment) (next *tier.Segment, until int64, ok bool) {
	if st.view == readOffset || s.MaxTimestamp >= st.hintTime {
		return nil, 0, false
	}
	next, ok = st.segmentAfter(s)
	// An overlapping segment is entered through its index, not at its first byte.
	if !ok || next.BaseOffset <= s.EndOffset || st.expectedEnd() <= next.BaseOffset {
		return nil, 0, false
	}
	// Where the log's first chunk is in memory, the index will be too.
	first := cache.Key{Segment: next.Key()}
	if st.needsIndex(next, next.BaseOffset) && !st.svc.cfg.Chunks.Contains(first) {
		st.warm.warm(st.svc, next)
	}
	if st.endsIn(next) {
		return next, 1, true // its first chunk; its index tells about the others
	}
	return next, next.Size, true
}

// segmentAfter gives the segment that the answer goes on in after s.
func (st *Stream) segmentAfter(s *tier.Segment) (next *tier.Segment, ok bool) {
	for {
		next, ok = st.part.Next(s)
		if !ok || !st.times.passesOver(next) {
			return next, ok
		}
		s = next
	}
}

// fallBack goes to an earlier position after one that an index gave has turned out wrong: that of the entry before,
// then the beginning.
func (st *Stream) fallBack() error {
	st.tally.fallbacks++
	pos := st.before()
	st.svc.cfg.Logger.Warn("offset index gave a wrong position", "segment", st.cur.seg.ID.String(), "offset", st.target,
		"position", st.cur.pos, "instead", pos)
	return st.restart(pos, st.cur.seg.Size)
}

// stepBack goes to the position of the entry before, for the sake of the batches between there and here.
func (st *Stream) stepBack() error { return st.restart(st.before(), st.cur.seq.spans[0].until) }

// before is the position of the entry before the one that was tried first, then the beginning.
func (st *Stream) before() (pos int64) {
	if !st.fellBack {
		if offset, _ := st.offsets.Lookup(st.target); offset > st.cur.seg.BaseOffset {
			_, pos = st.offsets.Lookup(offset - 1)
		}
	}
	return pos
}

// restart goes to an earlier position of the segment.
func (st *Stream) restart(pos, until int64) error {
	st.fellBack, st.locating, st.last = true, pos > 0, -1
	st.aborted.rewind()
	return st.cur.enter(st.cur.seg, st.cur.snap, pos, until)
}
