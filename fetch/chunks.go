package fetch

import (
	"context"
	"errors"
	"time"

	"coldtap/cache"
	"coldtap/fetch/scan"
	"coldtap/internal/budget"
	"coldtap/readahead"
	"coldtap/segment"
	"coldtap/tier"
)

// chunks gives a scanner the log that the planner's list begins with (scan.Source): through read-ahead, within the
// request's time for waiting, and only while the segment may be read.
type chunks struct {
	cfg     *Config
	wait    *waiter
	plan    *planner
	session readahead.Session
	started bool           // session is
	snap    *tier.Snapshot // in which the segment was last seen to be readable
	pos     int64          // log position of the reader
	room    int64          // bytes, from there on, that the answer may still take

	furthest struct { // position that was loaded
		segment segment.UUID
		number  int64
	}
}

// startAt goes to a segment, from a position on. Read-ahead that has reached it goes on.
func (c *chunks) startAt(seg *tier.Segment, snap *tier.Snapshot, pos, until int64) error {
	continues, err := c.plan.startAt(seg, pos, until)
	if !continues {
		c.endSession()
	}
	c.snap = snap
	return err
}

func (c *chunks) endSession() {
	if c.started {
		c.session.Close()
		c.started = false
	}
}

func (c *chunks) close() {
	c.endSession()
	c.plan.clear()
	c.snap = nil
	c.furthest.segment, c.furthest.number = segment.UUID{}, 0
}

// Chunk gives a chunk of the segment's log (scan.Source). Every load looks whether the segment may still be read:
// DELETE_SEGMENT_STARTED stops reads at once.
func (c *chunks) Chunk(ctx context.Context, number int64, holding bool) (*cache.Chunk, error) {
	seg := c.plan.first
	if snap := c.cfg.Source.Snapshot(); snap != c.snap {
		if p, ok := snap.Partition(seg.Partition); !ok || !p.Readable(seg.ID) {
			return nil, errGone
		}
		c.snap = snap
	}
	if number < c.plan.spans[0].First { // an index led too far
		if err := c.startAt(seg, c.snap, number*c.plan.spans[0].Chunk, c.plan.until); err != nil {
			return nil, err
		}
	}
	if !c.started {
		c.cfg.Ahead.Start(&c.session)
		c.started = true
	}
	span := &c.plan.spans[0]
	from := number * span.Chunk
	w := c.wait.start(ctx)
	// room counts from the batch at pos; the session counts from the first byte of the chunk that it is asked for.
	chunk, outcome, err := c.session.Chunk(w, c.plan.spans, number, c.room+c.pos-from, holding)
	if holding && errors.Is(err, cache.ErrNoSlab) {
		c.wait.done(w, &c.wait.stats.Store, nil)
		return nil, cache.ErrNoSlab
	}
	if err := c.wait.done(w, &c.wait.stats.Store, err); err != nil {
		err = at(err, seg, max(from, c.pos))
		if kindOf(err) == Damaged {
			return nil, &scan.Error{Kind: scan.Lost, Err: err}
		}
		return nil, err
	}
	c.wait.stats.count(outcome)
	if f := &c.furthest; f.segment != seg.ID || number > f.number {
		f.segment, f.number = seg.ID, number
		c.wait.progressed()
	}
	if n := int64(len(chunk.Bytes())); n != min(span.Chunk, seg.Size-from) {
		chunk.Release()
		return nil, at(failure(Internal, nil, "chunk of %d bytes", n), seg, from)
	}
	return chunk, nil
}

// Drop takes a chunk out of the cache (scan.Source).
func (c *chunks) Drop(chunk *cache.Chunk) { c.cfg.Chunks.Drop(chunk) }

// Offsets gives the offset index of the segment (scan.Source); one that cannot be had is as good as none.
func (c *chunks) Offsets(ctx context.Context) (segment.OffsetIndex, error) {
	entry, err := c.plan.index(ctx, c.plan.first)
	switch {
	case gaveUp(err):
		return segment.OffsetIndex{}, err
	case err != nil:
		return segment.OffsetIndex{}, nil
	}
	return entry.Offsets, nil
}

// memoryTimeout bounds a wait for decode memory. Callers may hold some themselves (a JSON body under construction)
// while a stream of theirs waits for more, so a long wait would only be a slow refusal.
const memoryTimeout = 2 * time.Second

// acquire waits for decode memory (scan.Memory).
func (c *chunks) acquire(ctx context.Context, share *budget.Share, n int64) error {
	w := c.wait.start(ctx)
	short, cancel := context.WithTimeout(w, memoryTimeout)
	defer cancel()
	err := share.Acquire(short, n)
	if err != nil && ctx.Err() == nil {
		c.wait.done(w, nil, nil)
		err = failure(Busy, err, "decode memory is in use")
	} else {
		err = c.wait.done(w, nil, err)
	}
	if err != nil {
		return at(err, c.plan.first, c.pos)
	}
	return nil
}

// at completes an error with the place in a segment that it concerns.
func at(err error, seg *tier.Segment, pos int64) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	here := *e // a loader's error may be shared by many readers
	if here.Segment.IsZero() {
		here.Segment = seg.ID
	}
	if here.Segment == seg.ID && here.Position < 0 {
		here.Position = pos
	}
	return &here
}

func (s *Stats) count(o cache.Outcome) {
	switch o.Level {
	case cache.Mem:
		s.ChunksMem++
	case cache.Miss:
		s.ChunksMissed++
	case cache.Joined:
		s.ChunksJoined++
	}
	s.StoreRequests += o.Cost.Requests
	s.StoreBytes += o.Cost.Bytes
}
