package fetch

import (
	"context"

	"coldtap/segment"
)

// openRecord is the batch that NextRecord is inside of.
type openRecord struct {
	open    bool
	counted bool  // its records were, for those in the range of time
	served  bool  // its bytes count as served
	left    int32 // records of it not yet decoded, at least; when counted, of those wanted
}

// NextRecord yields the next visible record: control records never; bounds by offset, timestamp, isolation and
// MaxRecords applied. io.EOF at the end: then End is known. Other errors are *Error. Views in rec are valid until the
// next call. The caller may stop anywhere; NextOffset then says where to go on.
func (st *Stream) NextRecord(ctx context.Context, rec *segment.Record) error {
	st.scan.Memory.Small = !st.req.Stream
	for {
		if err := st.atEnd(); err != nil {
			return err
		}
		st.filter.kind = readRecords
		var found bool
		var err error
		if st.inside.open {
			found, err = st.nextInside(ctx, rec)
		} else if found, err = st.nextBatch(ctx, false); found {
			found, err = false, st.openBatch(ctx)
		}
		if found {
			return nil
		}
		if err != nil && st.err == nil {
			err = st.recover(ctx, err)
		}
		if err != nil {
			return err
		}
	}
}

// openBatch begins with the records of a batch.
func (st *Stream) openBatch(ctx context.Context) error {
	h := st.header
	if !st.filter.counts(h, st.next) {
		if err := st.scan.Open(ctx); err != nil {
			return err
		}
		st.inside = openRecord{open: true, left: max(h.Count, 0)}
		return nil
	}
	if err := st.countRecords(ctx); err != nil {
		return err
	}
	if st.wanted == 0 {
		st.passOver(h, hiddenByTime)
		return nil
	}
	st.scan.Rewind()
	st.inside = openRecord{open: true, counted: true, left: int32(st.wanted)}
	return nil
}

// nextInside gives the next record of the open batch, or leaves the batch.
func (st *Stream) nextInside(ctx context.Context, rec *segment.Record) (found bool, err error) {
	h, f, in := st.header, &st.filter, &st.inside
	if f.maxRecords > 0 && f.records >= f.maxRecords {
		st.finish(EndLimit)
		return false, nil
	}
	for {
		more, restarted, err := st.scan.Record(ctx, rec)
		if err != nil {
			return false, err
		}
		if restarted { // what was handed out of the batch is below NextOffset
			if !in.counted {
				in.left = h.Count
			}
			continue
		}
		if !more {
			break
		}
		if !in.counted {
			in.left--
		}
		if rec.Offset < st.next {
			continue
		}
		if rec.Offset >= f.rangeEnd {
			st.finish(EndRange)
			return false, nil
		}
		if in.counted {
			if !f.times.holds(rec.Timestamp) {
				continue
			}
			in.left--
		}
		if !in.served {
			in.served, f.progress = true, true
			f.served += h.Size()
			st.tally.served += h.Size()
		}
		f.records++
		st.tally.records++
		st.next = rec.Offset + 1
		if in.left == 0 && h.Magic >= 2 {
			st.reach(h.LastOffset())
		}
		return true, nil
	}
	in.open = false
	if !in.served {
		f.hidden += h.Size()
	}
	st.reach(h.LastOffset())
	st.advance()
	return false, nil
}

// Buffered says that the next NextRecord needs no I/O and no decompression: flush when false.
func (st *Stream) Buffered() bool {
	return st.inside.open && st.inside.left > 0 && st.end == 0 && st.err == nil
}

// countRecords opens the batch and counts its records in the range, which ends at the record that the time range stops
// at.
func (st *Stream) countRecords(ctx context.Context) error {
	if err := st.scan.Open(ctx); err != nil {
		return err
	}
	f := &st.filter
	st.wanted = 0
	var rec segment.Record
	for {
		more, restarted, err := st.scan.Record(ctx, &rec)
		switch {
		case restarted:
			st.wanted = 0
		case err != nil || !more:
			return err
		case rec.Offset < st.next:
		case rec.Offset >= f.rangeEnd:
			return nil
		case f.times.stopsAt(rec.Timestamp):
			f.rangeEnd = rec.Offset
			if st.wanted == 0 {
				st.next = max(st.next, rec.Offset)
			}
			return nil
		case f.times.holds(rec.Timestamp):
			st.wanted++
		}
	}
}
