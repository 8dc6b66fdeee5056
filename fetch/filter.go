package fetch

import (
	"context"

	"coldtap/segment"
)

// verdict is what examine found.
type verdict uint8

const (
	passes    verdict = iota + 1 // header and body describe a batch to hand out
	passed                       // a batch was passed over
	elsewhere                    // asked to stay: the next batch to hand out does not lie on in the same chunk
	ended
)

// examine finds the next batch to hand out. With stay it looks no further than the chunk at hand, and at no batch that
// would leave a gap after the one before.
func (st *Stream) examine(ctx context.Context, stay bool) (verdict, error) {
	for st.end == 0 {
		if st.spent() {
			st.finish(EndLimit)
			break
		}
		if st.next >= st.rangeEnd {
			st.finish(EndRange)
			break
		}
		// Whatever follows the claimed last offset is no data: a preallocated log may have a tail of zeros.
		if st.cur.pos >= st.cur.seg.Size || st.last == st.cur.seg.EndOffset {
			if stay {
				return elsewhere, nil
			}
			if err := st.nextSegment(ctx); err != nil {
				if err := st.recover(ctx, err); err != nil {
					return 0, err
				}
			}
			continue
		}
		if stay && !st.cur.headerInside() {
			return elsewhere, nil
		}
		v, err := st.look(ctx, stay)
		switch {
		case err != nil && stay:
			// What was found is handed out first; the fault shows again.
			return elsewhere, nil
		case err != nil:
			if err := st.repair(ctx, err); err != nil {
				return 0, err
			}
		case v != passed:
			return v, nil
		case stay:
			return elsewhere, nil
		}
	}
	return ended, nil
}

// spent says that nothing more fits the answer.
func (st *Stream) spent() bool {
	r := &st.req
	if st.view == readOffset {
		return false
	}
	return r.MaxRecords > 0 && st.records >= r.MaxRecords ||
		st.progress && st.served > r.MaxBytes-segment.HeaderSize ||
		st.hiddenBytes > st.svc.freeScan && st.hiddenBytes-st.svc.freeScan > r.MaxBytes
}

// look examines the batch at the cursor.
func (st *Stream) look(ctx context.Context, stay bool) (verdict, error) {
	c := &st.cur
	c.seq.budget = st.affordable()
	h, err := c.header(ctx)
	if err != nil {
		return 0, err
	}
	if err := st.plausible(&h); err != nil {
		return 0, err
	}
	last, size := h.LastOffset(), h.Size()
	reason, hide := st.hides(&h)
	if last < st.target {
		reason, hide = hiddenBefore, true
	}
	follows := c.follows(&h, st.last)
	// Where the answer ends before the batch, its bytes need not come; but at a position that is not confirmed they may be
	// no header at all, and an offset that does not follow may be a wrong one.
	if !st.locating && (follows && st.beyond(&h, h.BaseOffset) || h.BaseOffset < st.rangeEnd && st.overflows(&h, hide)) {
		return ended, nil
	}
	want := toPass
	switch {
	case hide:
	case st.needsRecords(&h) && c.joinable(&h):
		want = toDecode
	case st.view == readRaw:
		want = toSend
	}
	// Decoding may wait for memory, which nobody may do who holds a run's chunk.
	if stay && (want == toDecode || c.pos+size > c.cur.to || !follows && !c.glanceInside(c.pos+size)) {
		return elsewhere, nil
	}
	// What is passed over is checked too: a header that lies could hide records.
	b, err := c.batch(ctx, &h, want)
	if err != nil {
		return 0, err
	}
	if !follows {
		proven, err := c.neighbours(ctx, &h, st.last)
		if err != nil {
			return 0, err
		}
		if !proven && st.locating && !st.fellBack {
			// With a batch before it, this one is in order or is not.
			return passed, st.stepBack()
		}
		if b, err = c.batch(ctx, &h, want); err != nil {
			return 0, err
		}
	}
	if st.beyond(&h, last) || st.overflows(&h, hide) {
		return ended, nil
	}
	st.locating = false
	c.accept()
	if hide {
		st.passOver(&h, reason)
		return passed, nil
	}
	st.header, st.body = h, b
	if st.view == readRaw {
		return st.trim(ctx)
	}
	return passes, nil
}

// beyond ends the stream if the batch lies behind the range, or reaches with the offset reach into what is not decided.
func (st *Stream) beyond(h *segment.Header, reach int64) bool {
	switch {
	// A compressed message of magic 0 or 1 names only its last offset.
	case h.BaseOffset >= st.rangeEnd && (h.Magic >= 2 || h.Codec() == segment.None):
		st.finish(EndRange)
	case reach >= st.decidedEnd:
		st.undecided(h.BaseOffset)
	default:
		return false
	}
	return true
}

// overflows ends the stream if the answer has no room for the batch.
func (st *Stream) overflows(h *segment.Header, hide bool) bool {
	if hide || !st.progress || st.served+h.Size() <= st.req.MaxBytes || st.view == readOffset {
		return false
	}
	st.finish(EndLimit)
	return true
}

// affordable is how many bytes, from the cursor on, the answer may still take.
func (st *Stream) affordable() int64 {
	if st.view == readOffset {
		return st.cur.seg.Size
	}
	return max(st.req.MaxBytes-st.served, 1)
}

// hides says whether the reader is not to see the batch, and why.
func (st *Stream) hides(h *segment.Header) (hidden, bool) {
	if h.IsControl() && (st.req.Isolation == ReadCommitted || st.view != readRaw) {
		return hiddenControl, true
	}
	if st.req.Isolation == ReadCommitted && st.aborted.hides(h) {
		return hiddenAborted, true
	}
	return hiddenByTime, st.times.set() && st.view != readOffset && st.times.skips(h)
}

// passOver books a batch that is not handed out and steps behind it.
func (st *Stream) passOver(h *segment.Header, reason hidden) {
	st.tally.skipped[reason]++
	if reason != hiddenBefore {
		st.hiddenBytes += h.Size()
		st.reach(h.LastOffset())
	}
	st.step(h)
}

// needsRecords says whether the batch's records are looked at, not only its header.
func (st *Stream) needsRecords(h *segment.Header) bool {
	switch st.view {
	case readRecords:
		return true
	case readOffset:
		return h.MaxTimestamp >= st.hintTime
	}
	return st.scans(h)
}

// scans says whether the batch's records are looked at before any of them is handed out: for those that are wanted, and
// for the one that ends the answer.
func (st *Stream) scans(h *segment.Header) bool {
	t := &st.times
	switch {
	case h.IsControl() || h.Count == 0:
		return false
	case t.stopsAt(h.MaxTimestamp):
		return true
	case st.view == readRecords:
		return t.set() && !t.whole(h)
	case st.req.MaxRecords > 0 && (st.countOf(h) < 0 || t.set() && !t.whole(h)):
		return true
	}
	return t.set() && !t.overlaps(h)
}

// countOf is how many of a batch's records lie in the range, as far as its header tells; -1 when it does not.
func (st *Stream) countOf(h *segment.Header) int64 {
	first, last := max(h.BaseOffset, st.next), min(h.LastOffset(), st.rangeEnd-1)
	switch {
	case h.Magic < 2:
		return -1
	case first == h.BaseOffset && last == h.LastOffset():
		return int64(h.Count)
	case h.Count == h.LastOffsetDelta+1:
		return last - first + 1
	}
	return -1
}

// trim decides about a batch of a raw answer by its records, where that takes them: it ends the range within the batch
// that holds the record to stop at, counts records, and passes over what no timestamp asks for.
func (st *Stream) trim(ctx context.Context) (verdict, error) {
	c, h := &st.cur, &st.header
	st.wanted = 0
	if !st.scans(h) {
		if st.req.MaxRecords > 0 && !h.IsControl() {
			st.wanted = st.countOf(h)
		}
		return passes, nil
	}
	err := st.scan(ctx)
	c.closeDecoder() // the run is held for as long as the client takes, the records are done with
	if err != nil && kindOf(c.fault(err)) == TooLarge {
		// There is no looking into it, so it comes, and counts for as many records as its header says.
		st.wanted = max(int64(h.Count), 0)
		st.body, err = c.batch(ctx, h, toSend)
		return passes, err
	}
	if err != nil {
		return 0, err
	}
	if st.wanted == 0 && st.next >= st.rangeEnd {
		st.finish(EndRange)
		return ended, nil
	}
	if st.wanted == 0 && !st.times.overlaps(h) {
		st.passOver(h, hiddenByTime)
		return passed, nil
	}
	// Decoding may have had to let go of the chunks.
	b, err := c.batch(ctx, h, toDecode)
	st.body = b
	return passes, err
}

// scan opens the batch and counts its records in the range, which ends at the record that the time range stops at.
func (st *Stream) scan(ctx context.Context) error {
	c := &st.cur
again:
	if err := c.open(ctx, &st.header); err != nil {
		return err
	}
	st.wanted = 0
	var rec segment.Record
	for {
		more, err := c.decoder.Next(&rec)
		if overBudget(err) {
			if err := c.waitForMemory(ctx); err != nil {
				return err
			}
			goto again
		}
		if err != nil || !more {
			return err
		}
		switch {
		case rec.Offset < st.next:
		case rec.Offset >= st.rangeEnd:
			return nil
		case st.times.stopsAt(rec.Timestamp):
			st.rangeEnd = rec.Offset
			if st.wanted == 0 {
				st.next = max(st.next, rec.Offset)
			}
			return nil
		case st.times.holds(rec.Timestamp):
			st.wanted++
		}
	}
}

// reach notes that everything up to last was handed out, or is not to be seen.
func (st *Stream) reach(last int64) {
	st.next = max(st.next, min(last+1, st.rangeEnd))
}

// step puts the cursor behind a batch. One below the target was seen before.
func (st *Stream) step(h *segment.Header) {
	if h.LastOffset() >= st.target {
		st.wait.progressed()
	}
	st.cur.pos += h.Size()
	st.last = h.LastOffset()
	st.cur.joined = -1
}

// plausible checks what no checksum covers: the offsets, against the segment's claim, the batch before, and the index.
func (st *Stream) plausible(h *segment.Header) error {
	if e := st.cur.contradicts(h, st.last); e != nil {
		return e
	}
	if st.locating && h.BaseOffset > st.target && (h.Magic >= 2 || h.Codec() == segment.None) {
		return st.cur.doubtful("the offset index places offset %d at a batch of offsets %d to %d", st.target, h.BaseOffset, h.LastOffset())
	}
	return nil
}
