package offload

import (
	"context"
	"errors"
	"slices"

	"coldtap/tier"
)

// planPartition decides for each segment of a partition whether it is eligible, and reports those that are not.
// Afterwards the directory is closed.
func (r *offloader) planPartition(ctx context.Context, p *localLog) {
	defer p.close()
	err := r.findEligible(ctx, p)
	if err != nil {
		f := r.faultOf(ctx, err)
		p.eligible, p.inHoles = nil, nil
		p.report.addLeft(Leftover{Base: -1, End: -1, Reason: f.reason, Detail: f.err.Error()})
		r.countStopped(p, f.reason)
	}
	p.planned = err == nil
	// Only now, when neighbours are joined: a partition may have ten thousand segments that are copied already.
	for _, l := range p.report.Left {
		r.emitLeft(p, l)
	}
}

func (r *offloader) findEligible(ctx context.Context, p *localLog) error {
	if err := p.open(); err != nil {
		return err
	}
	r.recorded(p)
	if len(p.segments) == 0 {
		if p.highWatermark > 0 {
			return damaged("log", "no segments, but the high watermark is %d", p.highWatermark)
		}
		p.note("no segments")
		return nil
	}
	if err := r.findTieredEnd(ctx, p); err != nil {
		return err
	}
	r.selectClosed(p)
	if len(p.eligible) == 0 && p.active == nil {
		return nil
	}
	return r.keepBelowLastStable(ctx, p)
}

// findTieredEnd finds the offset from which on the partition is not in the tier, along the lineage that the tier has
// from now on.
func (r *offloader) findTieredEnd(ctx context.Context, p *localLog) error {
	// Beyond the high watermark an epoch may still be taken back.
	local := epochsBelow(p.lineage, p.highWatermark)
	p.epochsFrom = -1
	if len(local) > 0 {
		p.epochsFrom = local[0].StartOffset
	}
	p.lineage = local
	p.copyFrom = p.start()
	recorded, ok := r.recorded(p)
	// A partition without segments and holes has no tiered end, and its start moves with the broker's log start.
	if !ok || len(recorded.Segments(true)) == 0 && len(recorded.Holes()) == 0 {
		return nil
	}
	p.known = true
	// Segments that a deposed leader copied must not count, so the lineage is recorded before the tiered end is taken.
	if p.lineage = mergeLineage(recorded.Lineage(), local, p.highWatermark); !slices.Equal(p.lineage, recorded.Lineage()) {
		if err := r.cfg.Catalog.PutPartition(ctx, p.id, p.start(), p.lineage); err != nil {
			return &fault{CatalogFailed, err}
		}
		if recorded, ok = r.recorded(p); !ok {
			return &fault{CatalogFailed, errors.New("the catalog lost the partition")}
		}
	}
	p.recorded, p.holes = recorded, recorded.Holes()
	p.tieredEnd = skipHoles(recorded.TieredEnd(), p.holes)
	p.copyFrom = max(p.tieredEnd, p.logStart)
	return nil
}

// recorded gives what the catalog has of a partition, and puts it into the report.
func (r *offloader) recorded(p *localLog) (recorded *tier.Partition, ok bool) {
	if recorded, ok = r.cfg.Catalog.Snapshot().Partition(p.id); ok {
		p.report.TieredEnd, p.report.Holes = recorded.TieredEnd(), recorded.Holes()
	}
	return recorded, ok
}

// start is where the tier begins when the partition is copied for the first time.
func (p *localLog) start() int64 { return max(p.segments[0].base, p.logStart) }

// skipHoles moves an offset that lies in recorded holes to their end.
func skipHoles(offset int64, holes []tier.Hole) int64 {
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

// overlapsHole says whether offsets of a segment lie in a recorded hole.
func overlapsHole(s *localSegment, holes []tier.Hole) bool {
	return slices.ContainsFunc(holes, func(h tier.Hole) bool { return h.From < s.next && s.base < h.To })
}

// isTiered says whether finished segments hold all of a segment's offsets from the tier's start on. A tiered end behind
// the segment does not prove it: the tier may have holes, recorded ones and those that a rebuild from incomplete
// objects leaves.
func (p *localLog) isTiered(s *localSegment) bool {
	for offset := max(s.base, p.recorded.Bounds().Start); offset < s.next; {
		seg, ok := p.recorded.Find(offset)
		if !ok || seg.BaseOffset > offset {
			return false
		}
		offset = seg.EndOffset + 1
	}
	return true
}

// selectClosed selects the closed segments that offsets alone do not exclude, and reports the rest.
func (r *offloader) selectClosed(p *localLog) {
	for i := range p.segments {
		s := &p.segments[i]
		if s.next < 0 && r.cfg.SealActive && s.size > 0 {
			p.active = s
			continue
		}
		switch reason := p.ineligible(s); {
		case reason != "":
			p.report.addLeft(s.leftover(reason, ""))
		case s.next <= p.tieredEnd:
			p.inHoles = append(p.inHoles, s)
			r.total += s.size
		default:
			p.eligible = append(p.eligible, s)
		}
	}
}

// ineligible says why a segment is not copied, as far as its offsets show; empty if they do not exclude it.
func (p *localLog) ineligible(s *localSegment) Reason {
	switch {
	case s.next < 0:
		return Active
	case s.next <= p.tieredEnd && p.isTiered(s):
		return AlreadyCopied
	case s.next <= p.tieredEnd && (s.next <= p.logStart || s.end() >= p.highWatermark):
		return KnownHole
	case s.next <= p.tieredEnd:
		return ""
	case s.next <= p.copyFrom:
		return BelowLogStart
	case s.end() >= p.highWatermark:
		return AboveHighWatermark
	}
	return ""
}

// keepBelowLastStable keeps the eligible segments that end below the last stable offset: the first offset of the oldest
// transaction that is open at the high watermark, or the high watermark when none is.
func (r *offloader) keepBelowLastStable(ctx context.Context, p *localLog) error {
	open, reached, err := p.stateAt(ctx, p.highWatermark)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	stable := open.stable(reached)
	if err != nil {
		// Beyond the offset that was reached nothing is known. The transactions that are open there bound the last stable
		// offset from below, so segments that end below that bound are eligible all the same.
		f := faultOf(err)
		p.report.addLeft(Leftover{Base: reached, End: p.highWatermark - 1, Reason: f.reason, Detail: f.err.Error()})
		r.countStopped(p, f.reason)
	}
	keep := p.eligible[:0]
	for _, s := range p.eligible {
		if s.end() >= stable {
			p.report.addLeft(s.leftover(Unstable, ""))
			continue
		}
		keep = append(keep, s)
		r.total += s.size
	}
	p.eligible = keep
	if p.active != nil {
		r.planActive(ctx, p, stable)
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
