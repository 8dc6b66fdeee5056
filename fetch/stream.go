package fetch

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"coldtap/segment"
	"coldtap/tier"
)

// maxMoves bounds how often a stream looks for its place anew because segments vanish under it.
const maxMoves = 8

// Stream yields the batches of one answer in offset order, those that isolation hides left out. Use either NextRun or
// NextRecord of a stream. Not for concurrent use.
type Stream struct {
	svc     *Service
	wait    waiter
	warm    warmer
	cur     cursor
	aborted abortedBatches
	state
}

// state is what a stream starts anew with.
type state struct {
	req   Request
	topic tier.Topic
	err   error // lasting
	tally tally

	// Resolve.
	snap   *tier.Snapshot
	part   *tier.Partition
	bounds Bounds // of part
	shown  Bounds // as they were at Open
	start  int64
	moves  int
	ceded  bool // deletes have taken next from the tier, and the brokers still have it

	// Locate and stream.
	placed   bool                // cur stands in a segment
	target   int64               // batches that end below it are passed over
	locating bool                // the position came from an index, and no batch has confirmed it yet
	fellBack bool                // it is that of an entry before the right one
	offsets  segment.OffsetIndex // it came from
	last     int64               // last offset of the batch before, within the segment; -1 = none seen
	hintTime int64               // read-ahead stops where the time index says that this timestamp is reached

	// Filter.
	view        kindOfRead
	decidedEnd  int64 // read_committed ends here; MaxInt64 = the segment is decided
	rangeEnd    int64 // exclusive; MaxInt64 = none
	times       timeRange
	hiddenBytes int64

	// What was handed out.
	next     int64 // where the next read goes on
	served   int64 // bytes that count towards MaxBytes
	progress bool  // data was handed out
	records  int64

	// The batch that examine gave.
	header  segment.Header
	body    body
	wanted  int64 // its records in the range, where they were counted
	inside  bool  // NextRecord is inside it
	scanned bool  // by NextRecord, for its records in the time range
	counted bool  // its bytes are in served
	left    int32 // records of it not yet decoded, at least; when scanned, of those wanted
	owed    int64 // log position from which on NextRun owes the rest of it, 0 = nothing

	end     EndReason
	decided int64
}

func newStream(s *Service) *Stream {
	st := &Stream{svc: s}
	st.cur.memory.from = s.cfg.Decode
	st.cur.usual = segment.NewDecoder(s.cfg.Decode.Size()/2, &st.cur.memory)
	st.cur.decoder = st.cur.usual
	return st
}

// Open resolves and locates. The stream is positioned; nothing of the log is read yet, except what a timestamp needed.
// req is copied. ctx bounds this call only. The caller must Close the stream. Errors are *Error.
func (s *Service) Open(ctx context.Context, req *Request) (*Stream, error) {
	began := time.Now()
	st := s.take(req)
	err := st.resolve(ctx)
	if err == nil {
		st.shown = st.bounds
		err = st.resolveStart(ctx)
	}
	if err == nil {
		st.start, st.shown = st.next, st.bounds
		err = st.locate(ctx)
	}
	if err != nil {
		err = st.fail(err)
		st.Close()
		return nil, err
	}
	st.wait.stats.Resolve = time.Since(began) - st.wait.stats.Index - st.wait.stats.Store
	return st, nil
}

// take gives a stream for req that stands nowhere.
func (s *Service) take(req *Request) *Stream {
	st := s.streams.Get().(*Stream)
	st.req = *req
	st.wait.reset(req.Timeout, req.Stream)
	st.decidedEnd, st.decided = math.MaxInt64, -1
	st.rangeEnd, st.times = math.MaxInt64, timeRangeOf(req)
	st.hintTime = st.times.hint()
	if req.EndOffset >= 0 {
		st.rangeEnd = req.EndOffset
	}
	st.last = -1
	st.cur.memory.small = false
	if st.cur.memory.share = s.cfg.Decode.Batches(); req.Stream {
		st.cur.memory.share = s.cfg.Decode.Streams()
	}
	st.cur.svc, st.cur.wait = s, &st.wait
	st.cur.seq.logs, st.cur.seq.extend, st.cur.seq.lane = s.cfg.Logs, st, req.Lane
	return st
}

// locate finds the place of st.next, once the start is known.
func (st *Stream) locate(ctx context.Context) error {
	if st.end == 0 {
		if err := st.follow(ctx); err != nil {
			return st.recover(ctx, err)
		}
	}
	return nil
}

// follow goes to the segment that holds st.next, in the newest view, or ends the stream.
func (st *Stream) follow(ctx context.Context) error {
	if err := st.renew(); err != nil {
		return err
	}
	st.rise()
	seg, sure := st.sight()
	if !sure {
		if err := st.lookAgain(ctx); err != nil {
			return err
		}
		st.yield()
		st.rise()
		seg, _ = st.sight()
	}
	switch {
	case st.next < st.bounds.Start:
		return st.outOfRange()
	case st.next >= st.rangeEnd:
		st.finish(EndRange)
	case st.next >= st.bounds.TieredEnd:
		if !sure {
			if err := st.aboveTier(); err != nil {
				return err
			}
		}
		st.finish(EndTier)
	case seg != nil:
		return st.enter(ctx, seg, st.next)
	case st.ceded:
		st.finish(EndTier)
	default:
		st.placed = false // the metadata is as new as it gets
		return st.uncovered()
	}
	return nil
}

// nextSegment leaves a segment whose log has been read.
func (st *Stream) nextSegment(ctx context.Context) error {
	seg := st.cur.seg
	st.next = max(st.next, min(seg.EndOffset+1, st.rangeEnd))
	if st.req.Isolation == ReadCommitted && st.decidedEnd <= seg.EndOffset {
		st.undecided(st.decidedEnd)
		return nil
	}
	if st.next >= st.rangeEnd {
		st.finish(EndRange) // whatever became of the tier meanwhile
		return nil
	}
	if st.view == readOffset {
		st.finish(endSegment)
		return nil
	}
	if err := st.follow(ctx); err != nil || st.end != 0 {
		return err
	}
	if st.cur.seg.ID == seg.ID {
		return st.damaged(nil, "the segment claims offsets up to %d and the tier does not go on after it", seg.EndOffset)
	}
	return nil
}

// finish ends the stream. What the answer has reached decides: a limit that falls on the end is the end.
func (st *Stream) finish(reason EndReason) {
	if reason == EndLimit {
		switch {
		case st.next >= st.rangeEnd:
			reason = EndRange
		case st.next >= st.bounds.TieredEnd:
			reason = EndTier
		}
	}
	if reason == EndRange {
		st.next = max(st.next, st.rangeEnd)
	}
	st.end = reason
	st.unpin()
}

// undecided ends the stream where proof ends; what begins at base is not proven.
func (st *Stream) undecided(base int64) {
	st.decided = st.decidedEnd
	st.next = max(st.next, min(st.decidedEnd, base))
	st.finish(EndUndecided)
}

// unpin lets go of memory that nobody needs any more.
func (st *Stream) unpin() {
	st.cur.unpin()
	st.cur.closeDecoder()
	st.cur.memory.trim()
}

// fail makes err the stream's lasting error.
func (st *Stream) fail(err error) error {
	ours, ok := errors.AsType[*Error](err)
	if !ok {
		ours = failure(Internal, err, "unexpected error")
	}
	e := new(*ours) // it may be shared
	if e.NextOffset < 0 && st.part != nil {
		e.NextOffset = st.next
	}
	st.err = e
	st.unpin()
	return e
}

func kindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return 0
}

// damaged reports damage at the cursor.
func (st *Stream) damaged(cause error, format string, args ...any) error {
	e := failure(Damaged, cause, format, args...)
	e.Segment, e.Position, e.NextOffset = st.cur.seg.ID, st.cur.pos, st.next
	return e
}

// recover decides what an error means for the stream: nil when it goes on, possibly elsewhere or to its end.
func (st *Stream) recover(ctx context.Context, err error) error {
	for st.placed && (errors.Is(err, errGone) || kindOf(err) == Missing) {
		again := st.move(ctx, err)
		if again == nil {
			return nil
		}
		if again == err {
			break
		}
		err = again
	}
	kind := kindOf(err)
	if !st.progress || ctx.Err() != nil || kind != TimedOut && kind != Busy {
		return st.fail(err)
	}
	if !st.req.Stream {
		// What was handed out is whole and right, and the caller learns where to go on.
		st.finish(EndLimit)
		return nil
	}
	if kind == TimedOut {
		return st.fail(err)
	}
	return st.tryAgain(ctx, err)
}

// tryAgain goes on where the stream stands after a pause, with nothing held, unless the time for waiting is used up.
func (st *Stream) tryAgain(ctx context.Context, refused error) error {
	st.unpin()
	st.inside = false
	p := st.wait.begin(ctx)
	pause := time.NewTimer(retryAfter)
	defer pause.Stop()
	var err error
	select {
	case <-pause.C:
	case <-p.Done():
		err = p.Err()
	}
	switch err = st.wait.end(p, nil, err); {
	case kindOf(err) == TimedOut, st.wait.bounded && st.wait.left <= 0:
		return st.fail(refused)
	case err != nil:
		return st.fail(err)
	}
	if err := st.follow(ctx); err != nil {
		return st.recover(ctx, err)
	}
	return nil
}

// move looks for the stream's place anew, after the segment under it vanished. It gives back cause when the segment is
// still readable by the newest metadata: then its bytes are missing indeed.
func (st *Stream) move(ctx context.Context, cause error) error {
	seg := st.cur.seg
	st.placed = false
	st.unpin()
	st.inside = false
	if st.moves++; st.moves > maxMoves {
		return failure(Missing, cause, "segments vanish faster than they can be read")
	}
	if !errors.Is(cause, errGone) {
		if err := st.refresh(ctx); err != nil {
			return err
		}
		if st.part.Readable(seg.ID) {
			return cause
		}
	}
	if st.view == readOffset {
		// The search looks for the next segment itself.
		st.finish(endSegment)
		return nil
	}
	return st.follow(ctx)
}

// NextOffset is where the next read goes on, beyond skipped and aborted ranges seen so far.
func (st *Stream) NextOffset() int64 { return st.next }

// End is why the stream ended, 0 while it has not. decided is the decided end for EndUndecided, else -1.
func (st *Stream) End() (reason EndReason, decided int64) { return st.end, st.decided }

// Bounds are those of the view in which the start was resolved.
func (st *Stream) Bounds() Bounds { return st.shown }

// Stats are complete when the stream has ended, and valid until Close.
func (st *Stream) Stats() *Stats { return &st.wait.stats }

// DecodeHeld is how many bytes of Config.Decode the stream holds now, runs that were handed out left out. A caller that
// needs more of that memory than is left beside them waits in vain.
func (st *Stream) DecodeHeld() int64 { return st.cur.memory.held }

// Topic gives the topic's name and id.
func (st *Stream) Topic() (name string, id segment.UUID) { return st.topic.Name, st.topic.ID }

// StartOffset is the resolved start.
func (st *Stream) StartOffset() int64 { return st.start }

// Close ends the stream and gives everything back; runs that were handed out stay valid until their own Release. The
// stream must not be used again.
func (st *Stream) Close() {
	st.unpin()
	failed, _ := errors.AsType[*Error](st.err)
	s := st.svc
	s.metrics.finish(st.view, st.req.Isolation, st.end, failed, &st.tally, st.cur.crcBytes)
	st.warm.stop()
	st.cur.close()
	st.aborted.set(nil)
	st.state = state{}
	s.streams.Put(st)
}

// atEnd gives the stream's end or lasting error, nil while it goes on.
func (st *Stream) atEnd() error {
	if st.err != nil {
		return st.err
	}
	if st.end != 0 {
		return io.EOF
	}
	return nil
}
