package fetch

import (
	"context"

	"coldtap/segment"
)

// NextRecord yields the next visible record: control records never; bounds by offset, timestamp, isolation and
// MaxRecords applied. io.EOF at the end: then End is known. Other errors are *Error. Views in rec are valid until the
// next call. The caller may stop anywhere; NextOffset then says where to go on.
func (st *Stream) NextRecord(ctx context.Context, rec *segment.Record) error {
	st.cur.memory.small = !st.req.Stream
	for {
		if err := st.atEnd(); err != nil {
			return err
		}
		st.view = readRecords
		var err error
		if st.inside {
			var found bool
			if found, err = st.nextInside(rec); found {
				return nil
			}
		} else {
			err = st.openNext(ctx)
		}
		if overBudget(err) {
			// The batch is opened again; what was handed out of it is below NextOffset.
			if err = st.cur.waitForMemory(ctx); err == nil {
				err = st.cur.open(ctx, &st.header)
			}
			if st.inside = err == nil; !st.scanned {
				st.left = st.header.Count
			}
		}
		if err != nil && st.err == nil {
			err = st.repair(ctx, err)
		}
		if err != nil {
			return err
		}
	}
}

// openNext starts the next batch to hand out.
func (st *Stream) openNext(ctx context.Context) error {
	v, err := st.examine(ctx, false)
	if err != nil || v == ended {
		return err
	}
	h := &st.header
	if st.scanned = st.scans(h); !st.scanned {
		if err := st.cur.open(ctx, h); err != nil {
			return err
		}
		st.inside, st.counted, st.left = true, false, max(h.Count, 0)
		return nil
	}
	if err := st.scan(ctx); err != nil {
		return err
	}
	if st.wanted == 0 {
		st.passOver(h, hiddenByTime)
		return nil
	}
	st.cur.decoder.Rewind()
	st.inside, st.counted, st.left = true, false, int32(st.wanted)
	return nil
}

// nextInside gives the next record of the open batch, or leaves the batch.
func (st *Stream) nextInside(rec *segment.Record) (found bool, err error) {
	h := &st.header
	if st.req.MaxRecords > 0 && st.records >= st.req.MaxRecords {
		st.finish(EndLimit)
		return false, nil
	}
	for {
		more, err := st.cur.decoder.Next(rec)
		if err != nil {
			return false, err
		}
		if !more {
			break
		}
		if !st.scanned {
			st.left--
		}
		if rec.Offset < st.next {
			continue
		}
		if rec.Offset >= st.rangeEnd {
			st.finish(EndRange)
			return false, nil
		}
		if st.scanned {
			if !st.times.holds(rec.Timestamp) {
				continue
			}
			st.left--
		}
		if !st.counted {
			st.counted, st.progress = true, true
			st.served += h.Size()
			st.tally.served += h.Size()
		}
		st.records++
		st.tally.records++
		st.next = rec.Offset + 1
		if st.left == 0 && h.Magic >= 2 {
			st.reach(h.LastOffset())
		}
		return true, nil
	}
	st.inside = false
	if !st.counted {
		st.hiddenBytes += h.Size()
	}
	st.reach(h.LastOffset())
	st.step(h)
	return false, nil
}

// Buffered says that the next NextRecord needs no I/O and no decompression: flush when false.
func (st *Stream) Buffered() bool { return st.inside && st.left > 0 && st.end == 0 && st.err == nil }
