package fetch

import (
	"context"

	"coldtap/cache"
	"coldtap/segment"
	"coldtap/tier"
)

// Plan is what a read would take of the store, as far as metadata, indexes and the cache tell now. It is an estimate:
// where the answer ends within its last segment is known to the density of the indexes, and hidden batches and gaps
// are not foreseen.
type Plan struct {
	Topic    string
	TopicID  segment.UUID
	Start    int64 // resolved
	Bounds   Bounds
	Segments []PlanSegment // in offset order
	Cut      bool          // there are more segments than a plan lists
	Stats    Stats         // of making the plan: locating reads indexes, and a start by time may read the log
}

// PlanSegment is the part of a segment that a read would take.
type PlanSegment struct {
	Segment               *tier.Segment
	From, To              int64 // bytes of the log
	Chunk                 int64 // bytes of a chunk
	FirstChunk, LastChunk int64 // their numbers, within the log
	InMemory, Missing     int   // chunks
	Requests              int   // GETs for those, and for what the layout needs beside them
	Bytes                 int64 // of the store, as they are stored
}

// maxPlanned is how many segments a plan lists.
const maxPlanned = 1000

// Plan tells what the read would take, without reading what it is about. Errors are those of Open.
func (s *Service) Plan(ctx context.Context, req *Request) (*Plan, error) {
	st, err := s.Open(ctx, req)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	p := &Plan{Start: st.StartOffset(), Bounds: st.Bounds()}
	p.Topic, p.TopicID = st.Topic()
	if st.end == 0 {
		if err := st.plan(ctx, p); err != nil {
			return nil, st.fail(err)
		}
	}
	p.Stats = *st.Stats()
	return p, nil
}

func (st *Stream) plan(ctx context.Context, p *Plan) error {
	l, f := &st.planner, &st.filter
	seg, pos, until := st.seg, st.scan.Position(), l.until
	// What one segment's small files bring may tell the layout about the others.
	if _, err := l.index(ctx, seg); err != nil && kindOf(err) != Missing {
		return err
	}
	g := f.goal(st.next)
	loaded := true
	for left := f.room(); ; {
		to := max(min(until, pos+min(left, seg.Size)), pos)
		if to > pos {
			p.Segments = append(p.Segments, st.planSegment(seg, pos, to, !loaded && g.needsIndex(seg, seg.BaseOffset)))
		}
		left -= to - pos
		next, more := g.after(st.locator.part, seg)
		if left <= 0 || !more {
			return nil
		}
		if len(p.Segments) == maxPlanned {
			p.Cut = true
			return nil
		}
		seg, pos, until, loaded = next, 0, next.Size, g.endsIn(next)
		if loaded {
			// With read_committed it takes the indexes of segments behind it too.
			o, err := l.open(ctx, st.locator.part, seg, seg.BaseOffset, g)
			if err != nil {
				return err
			}
			until = o.until
		}
	}
}

// planSegment plans bytes [from, to) of a segment's log; files says that its small files are needed too.
func (st *Stream) planSegment(seg *tier.Segment, from, to int64, files bool) PlanSegment {
	_, chunk := st.svc.cfg.Logs(seg)
	chunk = max(chunk, 1)
	part := PlanSegment{Segment: seg, From: from, To: to, Chunk: chunk,
		FirstChunk: from / chunk, LastChunk: lastChunk(to, chunk)}
	var missing []int64
	key := cache.Key{Segment: seg.Key()}
	for n := part.FirstChunk; n <= part.LastChunk; n++ {
		if key.Chunk = int32(n); st.svc.cfg.Chunks.Contains(key) {
			part.InMemory++
		} else {
			missing = append(missing, n)
		}
	}
	part.Missing = len(missing)
	expected := st.svc.cfg.Expected(seg, chunk, missing, files && !st.svc.cfg.Indexes.Contains(seg))
	part.Requests, part.Bytes = expected.Requests, expected.Bytes
	return part
}

// maxSettled bounds the segments whose indexes Settled reads before the first byte is served.
const maxSettled = 8

// Settled says whether the stream's answer can never become another one, because its end is given and lies within
// finished segments that are decided for its isolation level. Then it appends to ids those of the segments, which
// together with the request stand for the answer. Only for a stream of which nothing was read yet. With read_committed
// it may read indexes, which the answer needs as well; what goes wrong there shows when the stream gets to it.
func (st *Stream) Settled(ctx context.Context, ids []segment.UUID) (all []segment.UUID, settled bool) {
	f, part := &st.filter, st.locator.part
	if st.end != 0 || st.err != nil || !st.placed || f.rangeEnd > st.locator.bounds.TieredEnd {
		return ids, false
	}
	seg, decidedEnd := st.seg, f.decidedEnd
	for n := 1; ; n++ {
		ids = append(ids, seg.ID)
		if min(f.rangeEnd, seg.EndOffset+1) > decidedEnd {
			return ids, false
		}
		if f.rangeEnd <= seg.EndOffset+1 {
			return ids, true
		}
		next, ok := part.Next(seg)
		if !ok || n == maxSettled {
			return ids, false
		}
		seg = next
		if f.isolation != ReadCommitted {
			continue
		}
		entry, err := st.planner.index(ctx, seg)
		if err == nil {
			_, decidedEnd, err = st.planner.abortedIn(ctx, part, seg, entry)
		}
		if err != nil {
			return ids, false
		}
	}
}
