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
	seg, pos, until := st.cur.seg, st.cur.pos, st.cur.seq.spans[0].until
	// What one segment's small files bring may tell the layout about the others.
	if _, err := st.index(ctx, seg); err != nil && kindOf(err) != Missing {
		return err
	}
	loaded := true
	for left := max(st.req.MaxBytes, 1); ; {
		to := max(min(until, pos+min(left, seg.Size)), pos)
		if to > pos {
			p.Segments = append(p.Segments, st.planSegment(seg, pos, to, loaded))
		}
		left -= to - pos
		next, more := st.segmentAfter(seg)
		if left <= 0 || st.endsIn(seg) || !more || st.expectedEnd() <= next.BaseOffset {
			return nil
		}
		if len(p.Segments) == maxPlanned {
			p.Cut = true
			return nil
		}
		pos, until, loaded = 0, next.Size, false
		if st.endsIn(next) {
			entry, err := st.index(ctx, next)
			if err != nil {
				return err
			}
			if st.req.Isolation == ReadCommitted {
				// It takes the indexes of segments behind it too.
				if _, _, err := st.abortedIn(ctx, next, entry); err != nil {
					return err
				}
			}
			until, loaded = st.readAheadUntil(next, entry), true
		}
		seg = next
	}
}

// planSegment plans bytes [from, to) of a segment's log; loaded says that its small files were just read.
func (st *Stream) planSegment(seg *tier.Segment, from, to int64, loaded bool) PlanSegment {
	_, chunk := st.svc.cfg.Logs(seg)
	chunk = max(chunk, 1)
	part := PlanSegment{Segment: seg, From: from, To: to, Chunk: chunk,
		FirstChunk: from / chunk, LastChunk: (to - 1) / chunk}
	var missing []int64
	for n := part.FirstChunk; n <= part.LastChunk; n++ {
		if st.svc.cfg.Chunks.Contains(cache.Key{Segment: seg.Key(), Chunk: int32(n)}) {
			part.InMemory++
		} else {
			missing = append(missing, n)
		}
	}
	part.Missing = len(missing)
	files := !loaded && st.needsIndex(seg, seg.BaseOffset) && !st.svc.cfg.Indexes.Contains(seg)
	expected := st.svc.cfg.Expected(seg, chunk, missing, files)
	part.Requests, part.Bytes = expected.Requests, expected.Bytes
	return part
}
