package offload

import (
	"context"
	"errors"
	"slices"

	"coldtap/tier"
)

// plan decides for each segment of a partition whether it is to be copied, and reports those that are not. Afterwards
// the directory is closed.
func (r *run) plan(ctx context.Context, p *partition) {
	defer p.close()
	err := r.decide(ctx, p)
	if err != nil {
		f := r.faultOf(ctx, err)
		p.candidates, p.holed = nil, nil
		p.report.leave(Leftover{Base: -1, End: -1, Reason: f.reason, Detail: f.err.Error()})
		r.stopped(p, f.reason)
	}
	p.planned = err == nil
	// Told only now, for neighbours have been joined: a partition may have ten thousand segments that are copied already.
	for _, l := range p.report.Left {
		r.tellLeft(p, l)
	}
}

func (r *run) decide(ctx context.Context, p *partition) error {
	if err := p.open(); err != nil {
		return err
	}
	r.look(p)
	if len(p.segments) == 0 {
		if p.highWatermark > 0 {
			return damaged("log", "no segments, but the high watermark is %d", p.highWatermark)
		}
		p.note("no segments")
		return nil
	}
	if err := r.locate(ctx, p); err != nil {
		return err
	}
	r.sortOut(p)
	if len(p.candidates) == 0 && p.active == nil {
		return nil
	}
	return r.belowStable(ctx, p)
}

// locate finds the offset from which on the tier lacks the partition, along the lineage that counts from now on.
func (r *run) locate(ctx context.Context, p *partition) error {
	// Beyond the high watermark an epoch may still be taken back.
	local := epochsBelow(p.lineage, p.highWatermark)
	p.epochsFrom = -1
	if len(local) > 0 {
		p.epochsFrom = local[0].StartOffset
	}
	p.lineage = local
	p.from = p.start()
	recorded, ok := r.look(p)
	// A partition that is only known by name has no end to go on from, and its start moves with the broker's.
	if !ok || len(recorded.Segments(true)) == 0 && len(recorded.Holes()) == 0 {
		return nil
	}
	p.known = true
	// What a deposed leader copied must not count, so the catalog has to know the lineage before it is asked.
	if p.lineage = mergeLineage(recorded.Lineage(), local, p.highWatermark); !slices.Equal(p.lineage, recorded.Lineage()) {
		if err := r.cfg.Catalog.PutPartition(ctx, p.id, p.start(), p.lineage); err != nil {
			return &fault{CatalogFailed, err}
		}
		if recorded, ok = r.look(p); !ok {
			return &fault{CatalogFailed, errors.New("the catalog lost the partition")}
		}
	}
	p.recorded, p.holes = recorded, recorded.Holes()
	p.tiered = behindHoles(recorded.TieredEnd(), p.holes)
	p.from = max(p.tiered, p.logStart)
	return nil
}

// look gives what the catalog has of a partition, and puts it into the report.
func (r *run) look(p *partition) (recorded *tier.Partition, ok bool) {
	if recorded, ok = r.cfg.Catalog.Snapshot().Partition(p.id); ok {
		p.report.TieredEnd, p.report.Holes = recorded.TieredEnd(), recorded.Holes()
	}
	return recorded, ok
}

// start is where the tier begins when the partition is copied for the first time.
func (p *partition) start() int64 { return max(p.segments[0].base, p.logStart) }

// behindHoles moves an offset that lies in recorded holes behind them.
func behindHoles(offset int64, holes []tier.Hole) int64 {
	for moved := true; moved; {
		moved = false
		for _, h := range holes {
			if h.From <= offset && offset < h.To {
				offset, moved = h.To, true
			}
		}
	}
	return offset
}

// holed tells whether a hole hides something of a segment.
func holed(s *localSegment, holes []tier.Hole) bool {
	return slices.ContainsFunc(holes, func(h tier.Hole) bool { return h.From < s.next && s.base < h.To })
}

// covered tells whether finished segments hold all of a segment's offsets from the tier's start on. That the tier ends
// behind it proves nothing: it may have holes, recorded ones and others, such as a rebuild from incomplete objects
// leaves.
func (p *partition) covered(s *localSegment) bool {
	for offset := max(s.base, p.recorded.Bounds().Start); offset < s.next; {
		seg, ok := p.recorded.Find(offset)
		if !ok || seg.BaseOffset > offset {
			return false
		}
		offset = seg.EndOffset + 1
	}
	return true
}

// sortOut finds the candidates as far as that needs no look into the logs, and reports the rest.
func (r *run) sortOut(p *partition) {
	for i := range p.segments {
		s := &p.segments[i]
		if s.next < 0 && r.cfg.SealActive && s.size > 0 {
			p.active = s
			continue
		}
		switch reason := p.unwanted(s); {
		case reason != "":
			p.report.leave(s.leftover(reason, ""))
		case s.next <= p.tiered:
			p.holed = append(p.holed, s)
			r.total += s.size
		default:
			p.candidates = append(p.candidates, s)
		}
	}
}

// unwanted says why a segment is not to be copied, as far as offsets tell; empty if they do not.
func (p *partition) unwanted(s *localSegment) Reason {
	switch {
	case s.next < 0:
		return Active
	case s.next <= p.tiered && p.covered(s):
		return AlreadyCopied
	case s.next <= p.tiered && (s.next <= p.logStart || s.end() >= p.highWatermark):
		return KnownHole
	case s.next <= p.tiered:
		return ""
	case s.next <= p.from:
		return BelowLogStart
	case s.end() >= p.highWatermark:
		return AboveHighWatermark
	}
	return ""
}

// belowStable keeps the candidates that end below the last stable offset: the first offset of the oldest transaction
// that is open at the high watermark, and at most that.
func (r *run) belowStable(ctx context.Context, p *partition) error {
	open, reached, err := p.stateAt(ctx, p.highWatermark)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	stable := open.stable(reached)
	if err != nil {
		// Nothing is known of what lies beyond the place that was reached. What is open there, and that place, bound
		// the last stable offset from below, so that what ends below it may be copied all the same.
		f := faultOf(err)
		p.report.leave(Leftover{Base: reached, End: p.highWatermark - 1, Reason: f.reason, Detail: f.err.Error()})
		r.stopped(p, f.reason)
	}
	keep := p.candidates[:0]
	for _, s := range p.candidates {
		if s.end() >= stable {
			p.report.leave(s.leftover(Unstable, ""))
			continue
		}
		keep = append(keep, s)
		r.total += s.size
	}
	p.candidates = keep
	if p.active != nil {
		r.seal(ctx, p, stable)
	}
	return ctx.Err()
}

// leftover is the report of a segment that is not copied.
func (s *localSegment) leftover(reason Reason, detail string) Leftover {
	end := int64(-1)
	if s.next >= 0 {
		end = s.end()
	}
	return Leftover{Base: s.base, End: end, Segments: 1, Bytes: s.size, Reason: reason, Detail: detail}
}
