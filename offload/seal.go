package offload

import (
	"context"
	"errors"
	"io"
)

// planActive plans the copy of the active segment as if it had been closed at the last batch border at or below the
// last stable offset, and reports what lies behind.
//
// When the log grows afterwards, the copy is a beginning of the segment only: a later run copies the segment again from
// its base, under another id, and of the two the tier prefers the later one.
func (r *offloader) planActive(ctx context.Context, p *localLog, stable int64) {
	s := p.active
	fail := func(err error) {
		f := r.faultOf(ctx, err)
		p.report.addLeft(s.leftover(f.reason, f.err.Error()))
		r.countStopped(p, f.reason)
	}
	c, err := p.cutBelow(ctx, s, stable)
	if err != nil {
		fail(err)
		return
	}
	behind := Leftover{Base: c.next, End: -1, Segments: 1, Bytes: s.size - c.size, Reason: AboveHighWatermark}
	if stable < p.highWatermark {
		behind.Reason = Unstable
	}
	if c.size == 0 {
		p.report.addLeft(behind)
		return
	}
	switch reason := p.ineligible(c); {
	case reason != "":
		p.report.addLeft(c.leftover(reason, ""))
	case c.next <= p.tieredEnd:
		p.inHoles = append(p.inHoles, c)
		r.total += c.size
	default:
		// A segment without a producer snapshot at its base cannot get one for its end: it stays the active segment.
		if _, err := p.producersAt(c.base); err != nil {
			fail(err)
			return
		}
		p.eligible = append(p.eligible, c)
		r.total += c.size
	}
	if behind.Bytes > 0 {
		p.report.addLeft(behind)
	}
}

// cutBelow gives the part of the active segment whose batches end below an offset; its size is 0 when there are none.
func (p *localLog) cutBelow(ctx context.Context, s *localSegment, below int64) (*localSegment, error) {
	f, _, err := p.openLog(s)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &localSegment{base: s.base, next: s.base, hasLog: true, file: s.file, sealed: true}
	r := newBatchReader(ctx, s.logName(), f, s.size, s.base, maxOffset)
	for c.next < below {
		_, err := r.readBelow(below, false)
		if errors.Is(err, io.EOF) || err == nil && r.want > below {
			break
		}
		if err != nil {
			return nil, err
		}
		c.next, c.size = r.want, r.log.Position()
	}
	return c, nil
}
