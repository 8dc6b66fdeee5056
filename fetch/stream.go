package fetch

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"coldtap/fetch/scan"
	"coldtap/segment"
	"coldtap/tier"
)

// Stream yields the batches of one answer in offset order, those that isolation hides left out. Use either NextRun or
// NextRecord of a stream. Not for concurrent use.
type Stream struct {
	svc     *Service
	wait    waiter
	locator locator
	planner planner
	chunks  chunks
	scan    scan.Scanner
	filter  filter
	state
}

// state is what a stream starts anew with.
type state struct {
	req    Request
	seg    *tier.Segment // being read
	placed bool          // the scanner stands in it
	next   int64         // offset where the next read goes on
	tally  tally

	end     EndReason
	decided int64
	err     error // lasting

	// The batch that nextBatch gave.
	header *segment.Header
	wanted int64      // its records in the range, where they were counted
	owed   int64      // log position of the part of it that NextRun has not handed out yet; 0 = all of it is out
	inside openRecord // NextRecord
}

func newStream(s *Service) *Stream {
	st := &Stream{svc: s}
	st.locator.svc, st.locator.wait = s, &st.wait
	st.planner.cfg, st.planner.wait = &s.cfg, &st.wait
	st.chunks.cfg, st.chunks.wait, st.chunks.plan = &s.cfg, &st.wait, &st.planner
	st.scan.Memory.From, st.scan.Memory.Acquire = s.cfg.Decode, st.chunks.acquire
	return st
}

// Open resolves and locates. The stream is positioned; nothing of the log is read yet, except what a timestamp needed.
// req is copied. ctx bounds this call only. The caller must Close the stream. Errors are *Error.
func (s *Service) Open(ctx context.Context, req *Request) (*Stream, error) {
	began := time.Now()
	st := s.newStream(req)
	err := st.locator.resolve(ctx, &st.req)
	if err == nil {
		err = st.findStart(ctx)
	}
	if err == nil && st.end == 0 {
		if err = st.locate(ctx); err != nil {
			err = st.recover(ctx, err)
		}
	}
	if err != nil {
		err = st.fail(err)
		st.Close()
		return nil, err
	}
	st.wait.stats.Resolve = time.Since(began) - st.wait.stats.Index - st.wait.stats.Store
	return st, nil
}

// newStream gives a stream for req that is not located.
func (s *Service) newStream(req *Request) *Stream {
	st := s.streams.Get().(*Stream)
	st.req = *req
	st.decided = -1
	st.wait.reset(req.Timeout, req.Stream)
	st.filter = filter{isolation: req.Isolation, times: timeRangeOf(req), rangeEnd: math.MaxInt64, decidedEnd: math.MaxInt64,
		maxBytes: req.MaxBytes, maxRecords: req.MaxRecords, freeScan: s.freeScan, aborted: st.filter.aborted}
	if req.EndOffset >= 0 {
		st.filter.rangeEnd = req.EndOffset
	}
	st.planner.lane = req.Lane
	st.scan.Reset(&st.chunks, s.cfg.Logger)
	st.scan.Memory.Small = false
	if st.scan.Memory.Share = s.cfg.Decode.Batches(); req.Stream {
		st.scan.Memory.Share = s.cfg.Decode.Streams()
	}
	return st
}

// findStart finds the offset at which the answer begins. A search by time may end the stream instead.
func (st *Stream) findStart(ctx context.Context) (err error) {
	byTime := false
	if st.next, byTime, err = st.locator.resolveStart(ctx, &st.req); err != nil {
		return err
	}
	if byTime {
		found, err := st.search(ctx, st.req.Timestamp)
		if err != nil {
			return err
		}
		if found.Offset >= 0 {
			st.next = min(found.Offset, st.filter.rangeEnd)
		}
	}
	st.locator.startAt(st.next)
	return nil
}

// locate goes to the segment that holds the next offset, in the newest view, or ends the stream.
func (st *Stream) locate(ctx context.Context) error {
	st.placed = false
	f := &st.filter
	at, err := st.locator.locate(ctx, position{offset: st.next, end: f.rangeEnd, earliest: f.times.from, began: f.progress})
	if err != nil {
		return err
	}
	st.next = at.offset
	if at.seg == nil {
		st.finish(at.end)
		return nil
	}
	return st.openSegment(ctx, at.seg)
}

// openSegment begins to read a segment where the next offset lies in it.
func (st *Stream) openSegment(ctx context.Context, seg *tier.Segment) error {
	f := &st.filter
	st.seg, st.placed = seg, true
	f.aborted.set(nil)
	f.decidedEnd = math.MaxInt64
	o, err := st.planner.open(ctx, st.locator.part, seg, st.next, f.goal(st.next))
	if err != nil {
		return err
	}
	f.aborted.set(o.aborted)
	f.decidedEnd = o.decidedEnd
	if f.kind == readOffset {
		st.scan.SeekTime(o.log, o.offset, f.search)
	} else {
		st.scan.Seek(o.log, o.offset)
	}
	return st.chunks.startAt(seg, st.locator.snap, st.scan.Position(), o.until)
}

// nextBatch finds the next batch to hand out: its header is in header, its bytes are in the scanner; false at the end.
// With stay it looks no further than the chunk at hand, reads nothing, and gives up at the first batch that is not to
// be handed out.
func (st *Stream) nextBatch(ctx context.Context, stay bool) (found bool, err error) {
	f := &st.filter
	for st.end == 0 {
		if end := f.spent(st.next); end != 0 {
			st.finish(end)
			break
		}
		if stay && !st.scan.InSameChunk() {
			break
		}
		st.chunks.pos, st.chunks.room = st.scan.Position(), f.room()
		if st.planner.isDue(st.chunks.pos) {
			st.planner.extend(st.locator.part, st.chunks.pos, st.chunks.room, f.goal(st.next))
		}
		h, err := st.scan.Next(ctx)
		var d decision
		if err == nil {
			d = f.decide(h, st.scan.Below(), st.trust())
		}
		if err == nil && d.end == 0 {
			if want := st.purpose(h, d); !stay {
				err = st.scan.Check(ctx, want)
			} else if want == scan.ToDecode || st.scan.CheckHere() != nil {
				// Decoding may wait for memory, which must not be done with a run's chunk held. What is wrong shows again.
				return false, nil
			}
			if err == nil {
				d = f.decide(h, st.scan.Below(), checked)
			}
		}
		if err == io.EOF {
			if err = st.nextSegment(ctx); err == nil {
				continue
			}
		}
		switch {
		case err != nil:
			if err = st.recover(ctx, err); err != nil {
				return false, err
			}
		case d.end == EndUndecided:
			st.finishUndecided(h.BaseOffset)
		case d.end != 0:
			st.finish(d.end)
		case d.skip:
			st.passOver(h, d.why)
			if stay {
				return false, nil
			}
		default:
			st.header = h
			return true, nil
		}
	}
	return false, nil
}

// trust says how far the header that the scanner gave is believed.
func (st *Stream) trust() trust {
	switch {
	case !st.scan.Confirmed():
		return unconfirmed
	case st.scan.Follows():
		return following
	}
	return doubtful
}

// purpose is what the batch's bytes are wanted for. What is passed over is checked too: a header that lies could hide
// records.
func (st *Stream) purpose(h *segment.Header, d decision) scan.Purpose {
	switch {
	case d.skip:
		return scan.ToPass
	case st.filter.needsRecords(h, st.next) && st.scan.Joinable():
		return scan.ToDecode
	case st.filter.kind == readRaw:
		return scan.ToSend
	}
	return scan.ToPass
}

// passOver leaves out a batch.
func (st *Stream) passOver(h *segment.Header, why hidden) {
	st.tally.skipped[why]++
	if why != hiddenBefore {
		st.filter.hidden += h.Size()
		st.reach(h.LastOffset())
	}
	st.advance()
}

// reach notes that everything up to last was handed out, or is not to be seen.
func (st *Stream) reach(last int64) {
	st.next = max(st.next, min(last+1, st.filter.rangeEnd))
}

// advance goes behind the batch. One below the target was seen before.
func (st *Stream) advance() {
	if !st.scan.Below() {
		st.wait.progressed()
	}
	st.scan.Advance()
}

// nextSegment leaves a segment whose log has been read.
func (st *Stream) nextSegment(ctx context.Context) error {
	seg, f := st.seg, &st.filter
	st.next = max(st.next, min(seg.EndOffset+1, f.rangeEnd))
	switch {
	case f.isolation == ReadCommitted && f.decidedEnd <= seg.EndOffset:
		st.finishUndecided(f.decidedEnd)
		return nil
	case st.next >= f.rangeEnd:
		st.finish(EndRange) // whatever became of the tier meanwhile
		return nil
	case f.kind == readOffset:
		st.finish(endSegment)
		return nil
	}
	if err := st.locate(ctx); err != nil || st.end != 0 {
		return err
	}
	if st.seg.ID == seg.ID {
		e := failure(Damaged, nil, "the segment claims offsets up to %d and the tier does not go on after it", seg.EndOffset)
		e.Segment, e.Position, e.NextOffset = seg.ID, st.scan.Position(), st.next
		return e
	}
	return nil
}

// finish ends the stream. What the answer has reached decides: a limit that falls on the end is the end.
func (st *Stream) finish(reason EndReason) {
	if reason == EndLimit {
		switch {
		case st.next >= st.filter.rangeEnd:
			reason = EndRange
		case st.next >= st.locator.bounds.TieredEnd:
			reason = EndTier
		}
	}
	if reason == EndRange {
		st.next = max(st.next, st.filter.rangeEnd)
	}
	st.end = reason
	st.scan.Release()
}

// finishUndecided ends the stream where proof ends; what begins at base is not proven.
func (st *Stream) finishUndecided(base int64) {
	st.decided = st.filter.decidedEnd
	st.next = max(st.next, min(st.decided, base))
	st.finish(EndUndecided)
}

// fail makes err the stream's lasting error.
func (st *Stream) fail(err error) error {
	ours, ok := errors.AsType[*Error](err)
	if !ok {
		ours = failure(Internal, err, "unexpected error")
	}
	e := new(*ours) // it may be shared
	if e.NextOffset < 0 && st.locator.part != nil {
		e.NextOffset = st.next
	}
	st.err = e
	st.scan.Release()
	return e
}

// recover decides what an error means for the stream: nil when it goes on, possibly elsewhere or to its end.
func (st *Stream) recover(ctx context.Context, err error) error {
	if err == scan.ErrAgain {
		st.inside.open = false
		return nil
	}
	err = st.fault(err)
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
	if !st.filter.progress || ctx.Err() != nil || kind != TimedOut && kind != Busy {
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

// fault makes an *Error of what the scanner ended with.
func (st *Stream) fault(err error) error {
	err = scanFault(err, st.seg)
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == Damaged && e.NextOffset >= 0 {
		e.NextOffset = max(e.NextOffset, st.next+1)
	}
	return err
}

// tryAgain goes on where the stream stands after a pause, with nothing held, unless the time for waiting is used up.
func (st *Stream) tryAgain(ctx context.Context, refused error) error {
	st.scan.Release()
	st.inside.open = false
	w := st.wait.start(ctx)
	pause := time.NewTimer(retryAfter)
	defer pause.Stop()
	var err error
	select {
	case <-pause.C:
	case <-w.Done():
		err = w.Err()
	}
	switch err = st.wait.done(w, nil, err); {
	case kindOf(err) == TimedOut, st.wait.bounded && st.wait.left <= 0:
		return st.fail(refused)
	case err != nil:
		return st.fail(err)
	}
	if err := st.locate(ctx); err != nil {
		return st.recover(ctx, err)
	}
	return nil
}

// move locates the stream anew, after the segment under it vanished. It gives back cause when the segment is still
// readable by the newest metadata.
func (st *Stream) move(ctx context.Context, cause error) error {
	st.placed = false
	st.scan.Release()
	st.inside.open = false
	if err := st.locator.vanished(ctx, st.seg, cause); err != nil {
		return err
	}
	if st.filter.kind == readOffset {
		// The search looks for the next segment itself.
		st.finish(endSegment)
		return nil
	}
	return st.locate(ctx)
}

// NextOffset is where the next read goes on, beyond skipped and aborted ranges seen so far.
func (st *Stream) NextOffset() int64 { return st.next }

// End is why the stream ended, 0 while it has not. decided is the decided end for EndUndecided, else -1.
func (st *Stream) End() (reason EndReason, decided int64) { return st.end, st.decided }

// Bounds are those of the view in which the start was resolved.
func (st *Stream) Bounds() Bounds { return st.locator.shown }

// Stats are complete when the stream has ended, and valid until Close.
func (st *Stream) Stats() *Stats { return &st.wait.stats }

// DecodeHeld is how many bytes of Config.Decode the stream holds now, runs that were handed out left out. A caller that
// needs more of that memory than is left beside them waits in vain.
func (st *Stream) DecodeHeld() int64 { return st.scan.Memory.Held() }

// Topic gives the topic's name and id.
func (st *Stream) Topic() (name string, id segment.UUID) {
	return st.locator.topic.Name, st.locator.topic.ID
}

// StartOffset is the resolved start.
func (st *Stream) StartOffset() int64 { return st.locator.start }

// Close ends the stream and gives everything back; runs that were handed out stay valid until their own Release. The
// stream must not be used again.
func (st *Stream) Close() {
	s := st.svc
	st.scan.Close()
	s.metrics.finish(st)
	st.planner.warm.stop()
	st.chunks.close()
	st.filter.aborted.set(nil)
	st.locator.locatorState, st.state = locatorState{}, state{}
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
