package offload

import (
	"context"
	"errors"
	"io"
)

// seal plans the copy of the active segment as if it had been closed at the last batch border at or below an offset,
// the last stable one, and reports what lies behind.
//
// A log that grows afterwards makes the copy a shorter one of what is the same segment still, or is closed by then:
// it is copied again from its base, under another id, and of the two the tier prefers the later one.
func (r *run) seal(ctx context.Context, p *partition, stable int64) {
	s := p.active
	fail := func(err error) {
		f := r.faultOf(ctx, err)
		p.report.leave(s.leftover(f.reason, f.err.Error()))
		r.stopped(p, f.reason)
	}
	c, err := p.cut(ctx, s, stable)
	if err != nil {
		fail(err)
		return
	}
	behind := Leftover{Base: c.next, End: -1, Segments: 1, Bytes: s.size - c.size, Reason: AboveHighWatermark}
	if stable < p.highWatermark {
		behind.Reason = Unstable
	}
	if c.size == 0 {
		p.report.leave(behind)
		return
	}
	switch reason := p.unwanted(c); {
	case reason != "":
		p.report.leave(c.leftover(reason, ""))
	case c.next <= p.tiered:
		p.holed = append(p.holed, c)
		r.total += c.size
	default:
		// A damaged log may become a hole; one whose end cannot be described stays what it is, active.
		if _, err := p.producersAt(c.base); err != nil {
			fail(err)
			return
		}
		p.candidates = append(p.candidates, c)
		r.total += c.size
	}
	if behind.Bytes > 0 {
		p.report.leave(behind)
	}
}

// cut gives the part of the active segment whose batches end below an offset; its size is 0 when there are none.
func (p *partition) cut(ctx context.Context, s *localSegment, below int64) (*localSegment, error) {
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
