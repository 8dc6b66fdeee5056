package fetch

import (
	"context"
	"errors"

	"coldtap/segment"
)

// repair decides what a fault of look means: nil when the stream goes on.
func (st *Stream) repair(ctx context.Context, err error) error {
	c := &st.cur
	err = c.fault(err)
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
	case e.Kind == TooLarge, e.Kind == Damaged && !e.doubt && e.past == 0 && c.proven == c.pos:
		// The checksum is right, so it ends where it says.
		e.NextOffset = st.header.LastOffset() + 1
	case e.Kind == Damaged:
		if err = st.mend(ctx, e); err == nil {
			st.inside = false
			return nil
		}
	}
	return st.recover(ctx, err)
}

// mend decides about damage at the cursor: nil when the stream goes on, at the same batch or behind it.
func (st *Stream) mend(ctx context.Context, e *Error) error {
	c := &st.cur
	if e.doubt {
		// Below the target it need not be read once more: the batch behind is proof enough.
		h, err := c.header(ctx)
		if err == nil && h.LastOffset() < st.target {
			to, ok, err := c.behind(ctx, e, st.last, segment.OffsetIndex{}, nil)
			if err != nil {
				return err
			}
			if ok && to.header.BaseOffset <= st.target {
				c.svc.cfg.Logger.Warn("log bytes that fail their checks were stepped over, below the offset that is asked for",
					"segment", c.seg.ID.String(), "position", e.Position, "error", e)
				st.stepOver(&to)
				return nil
			}
		}
	}
	if st.locating {
		if st.fallBack() == nil {
			return nil
		}
	}
	if e.doubt && c.readAgain() {
		// What the damaged header claimed may have moved the list of aborted transactions on.
		st.aborted.rewind()
		return nil
	}
	var index segment.OffsetIndex
	if entry, err := st.index(ctx, c.seg); err == nil {
		index = entry.Offsets
	} else if kindOf(err) == Canceled || kindOf(err) == TimedOut {
		return err
	}
	times := timeProof{st: st}
	var visit func(h *segment.Header) error
	if st.view == readOffset {
		visit = func(h *segment.Header) error { return times.look(ctx, h) }
	}
	to, ok, err := c.behind(ctx, e, st.last, index, visit)
	if err != nil {
		return err
	}
	e.NextOffset = c.seg.EndOffset + 1
	end := c.pos + 1
	if ok {
		e.NextOffset, end = max(to.header.BaseOffset, st.next+1), max(end, to.pos)
	}
	c.confirm(e)
	if ok && (to.header.BaseOffset <= st.target || st.view == readOffset && to.adjoins && times.before(&to.header)) {
		st.stepOver(&to)
		return nil
	}
	// Nothing damaged is left in the cache, so that a later request finds an object that was repaired.
	c.forget(end)
	return e
}

// stepOver goes on at a batch behind damage.
func (st *Stream) stepOver(to *landing) {
	st.cur.pos, st.cur.joined = to.pos, -1
	st.last = -1
	if to.adjoins {
		st.last = to.header.BaseOffset - 1
	}
	st.locating = false
	st.aborted.rewind()
	st.tally.skipped[hiddenBefore]++
}

// timeProof is what lets a search by time step over damaged batches: they hold no record at or after the time. A header
// whose checksum fails is no proof of that alone. But damage lies in one place, so either the header's largest
// timestamp is right or the timestamps of the records are; with LogAppendTime there is but one, and timestamps that
// ascend.
type timeProof struct {
	st       *Stream
	may      bool // one of the batches may hold such a record
	appended bool // one of them has but one timestamp
}

// look notes what a damaged batch, at the cursor, says.
func (p *timeProof) look(ctx context.Context, h *segment.Header) (err error) {
	if !p.may && h.LastOffset() >= p.st.target {
		p.appended = p.appended || h.TimestampType() == segment.LogAppendTime
		p.may, err = p.st.mayHold(ctx, h)
	}
	return err
}

// before says that all batches that were looked at, the last of which ends where next begins, lie before the time.
func (p *timeProof) before(next *segment.Header) bool {
	return !p.may && (!p.appended || next.TimestampType() == segment.LogAppendTime && next.MaxTimestamp < p.st.hintTime)
}

// mayHold says whether the damaged batch at the cursor may hold a record at or after the time that is searched.
func (st *Stream) mayHold(ctx context.Context, h *segment.Header) (bool, error) {
	c := &st.cur
	if h.Magic < 2 || h.MaxTimestamp >= st.hintTime || h.Count == 0 && h.Size() > segment.HeaderSize || !c.joinable(h) {
		return true, nil
	}
	raw, err := c.unchecked(ctx, h)
	if err != nil {
		return false, err
	}
	defer c.closeDecoder()
	err = c.decoder.Open(raw)
	var rec segment.Record
	for more := true; err == nil && more; {
		if more, err = c.decoder.Next(&rec); more && rec.Timestamp >= st.hintTime {
			return true, nil
		}
	}
	return overBudget(err), nil
}
