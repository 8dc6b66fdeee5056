package fetch

import (
	"context"
	"errors"

	"coldtap/tier"
)

// Reads race with retention. Kafka's brokers raise the log start first, then publish DELETE_SEGMENT_STARTED, then
// delete the bytes; but who reads the metadata topic learns of the delete within milliseconds, and of the start only
// when the brokers are asked (each second). In between, the segments say that there is a gap where the tier is said to
// begin. So an offset that no segment holds is looked for once more in metadata from after a refresh; only that decides
// between OutOfRange, another segment, and a gap.

// maxMoves bounds how often a read is located anew because segments vanish under it.
const maxMoves = 8

// errGone: the segment that is being read is no longer readable in the newest snapshot.
var errGone = errors.New("the segment is no longer readable")

// position is where a read stands, as far as locating it goes.
type position struct {
	offset   int64 // the next one to read
	end      int64 // of the read, exclusive; MaxInt64 = none
	earliest int64 // segments without a timestamp at or after it are passed over
	began    bool  // something was handed out
}

// site is what a position leads to.
type site struct {
	offset int64
	seg    *tier.Segment // that holds it; nil: end says why there is none
	end    EndReason
}

// locate finds the segment to read from, in the newest view.
func (l *locator) locate(ctx context.Context, at position) (site, error) {
	if err := l.renew(); err != nil {
		return site{}, err
	}
	l.advanceToStart(&at)
	seg, sure := l.findSegment(&at)
	if !sure {
		if err := l.refreshForGap(ctx, at.offset); err != nil {
			return site{}, err
		}
		l.clampToLocalStart(&at)
		l.advanceToStart(&at)
		seg, _ = l.findSegment(&at)
	}
	found := site{offset: at.offset}
	switch {
	case at.offset < l.bounds.Start:
		return found, l.outOfRange(at.offset)
	case at.offset >= at.end:
		found.end = EndRange
	case at.offset >= l.bounds.TieredEnd:
		if !sure {
			if err := l.checkAboveTier(at.offset); err != nil {
				return found, err
			}
		}
		found.end = EndTier
	case seg != nil:
		found.seg = seg
	case l.ceded:
		found.end = EndTier
	default:
		return found, l.uncovered(at.offset)
	}
	return found, nil
}

// locateWithin is locate for a search, which begins no lower than the tier does, and ends where the tier does.
func (l *locator) locateWithin(ctx context.Context, offset, end int64) (site, error) {
	for refreshed := int64(-1); ; refreshed = offset {
		if err := l.renew(); err != nil {
			return site{}, err
		}
		offset = max(offset, l.bounds.Start)
		found := site{offset: offset}
		switch seg, ok := l.part.Find(offset); {
		case offset >= end:
			found.end = EndRange
			return found, nil
		case offset >= l.bounds.TieredEnd:
			found.end = EndTier
			return found, nil
		case ok:
			found.seg = seg
			return found, nil
		case refreshed == offset:
			return found, l.uncovered(offset)
		}
		if err := l.refreshForGap(ctx, offset); err != nil {
			return found, err
		}
	}
}

// findSegment gives the segment to read the position from, which it moves over segments whose records are all too
// early; nil below the start, at an end and in a gap. Without sure, only a view from after a refresh can tell what that
// means.
func (l *locator) findSegment(at *position) (seg *tier.Segment, sure bool) {
	for {
		switch {
		case at.offset < l.bounds.Start:
			return nil, l.part.StartReported() // one that follows from the segments may follow from too few
		case at.offset >= at.end:
			return nil, true
		case at.offset >= l.bounds.TieredEnd:
			return nil, at.offset >= l.shown.TieredEnd // else the tier has shrunk under the read
		}
		seg, sure = l.part.Find(at.offset)
		if !sure || seg.MaxTimestamp >= at.earliest {
			return seg, sure
		}
		at.offset = min(seg.EndOffset+1, at.end)
	}
}

// refreshForGap takes a view from after the call. Where deletes have begun at a start that still has not moved, the log
// goes on where they end: no broker reads a segment in DELETE_SEGMENT_STARTED either (no segment: OFFSET_OUT_OF_RANGE).
func (l *locator) refreshForGap(ctx context.Context, offset int64) error {
	if err := l.refresh(ctx); err != nil {
		return err
	}
	if to, ok := l.part.Leaving(offset); ok {
		l.bounds.Start = to
	}
	return nil
}

// clampToLocalStart takes back, after refreshForGap, what goes beyond the local start: no client is sent past an offset
// that the brokers have.
func (l *locator) clampToLocalStart(at *position) {
	b := &l.bounds
	if reported := l.part.Bounds().Start; reported <= at.offset && at.offset < b.Start && b.LocalStart >= 0 {
		l.ceded = b.LocalStart <= at.offset
		b.Start = max(reported, min(b.Start, b.LocalStart))
	}
	if !at.began {
		l.shown = *b
	}
}

// advanceToStart moves a read of the earliest offset, which has given nothing yet, to where the tier begins now.
func (l *locator) advanceToStart(at *position) {
	if l.earliest && !at.began && at.offset < l.bounds.Start {
		at.offset, l.start, l.shown = l.bounds.Start, l.bounds.Start, l.bounds
	}
}

// vanished decides about a segment of which cause says that its bytes are gone, or that it is no longer readable: nil
// when the read is to be located anew. It gives back cause when the segment is still readable by the newest metadata:
// then its bytes are missing indeed.
func (l *locator) vanished(ctx context.Context, seg *tier.Segment, cause error) error {
	if l.moves++; l.moves > maxMoves {
		return failure(Missing, cause, "segments vanish faster than they can be read")
	}
	if errors.Is(cause, errGone) {
		return nil
	}
	if err := l.refresh(ctx); err != nil {
		return err
	}
	if l.part.Readable(seg.ID) {
		return cause
	}
	return nil
}
