package scan

import (
	"context"
	"errors"
	"math"
	"slices"
	"sort"

	"coldtap/segment"
)

// Damage costs what it covers, not what lies around it. What it covers ends where the next batch begins that is proven
// to be one: its header lies where the damaged batch's own length says, or where the offset index says, its offsets go
// on, and its own checksum holds. What ends there at or below the place that is asked for is stepped over, as a broker
// does that walks headers; else the error names the offset there, so that a client can go on.

// The search behind damage is bounded: batches in a row that are damaged too, steps over the index, each twice as wide
// as the one before (enough for an entry every 4 KiB of 2 GiB), and how often it has one chunk come from the store
// again.
const (
	maxDamaged = 64
	maxSteps   = 20
	maxRereads = 2
)

// soundBatch is the first batch behind damage that is proven to be one.
type soundBatch struct {
	header  segment.Header
	pos     int64
	adjoins bool // the headers of the damaged batches lead to it, offset by offset
}

// behind looks for the end of the damage e at pos. times, which may be nil, looks at each damaged batch that is passed.
// The scanner stays where it is. Errors are those of reading: then nothing is known.
func (s *Scanner) behind(ctx context.Context, e *Error, index segment.OffsetIndex, times *timeProof) (to soundBatch, ok bool, err error) {
	pos := s.pos
	s.suspects.from = pos
	defer func() { s.pos, s.suspects.from = pos, math.MaxInt64 }()
	past, claimed := e.past, s.last
	if past == 0 && e.Err == nil {
		// The bytes were not in doubt but the offsets: then it may be batches before it that are missing.
		to, sound, _, err := s.tryAt(ctx, pos, true)
		if err != nil {
			return soundBatch{}, false, err
		}
		if sound && to.header.BaseOffset > s.last {
			if ok, err = s.vouched(ctx, &to.header); ok || err != nil {
				return to, ok, err
			}
		}
		s.pos = pos
	}
	if past == 0 {
		if to, claimed, ok, err = s.alongHeaders(ctx, times); ok || err != nil {
			return to, ok, err
		}
		past = pos + 1
	}
	return s.alongIndex(ctx, past, claimed, index)
}

// alongIndex is behind by the positions in the offset index, from past on. Damage lies in one place, so that the
// entries lie in it up to the one where it ends: steps that double find one behind it, and halving the last step finds
// the first.
func (s *Scanner) alongIndex(ctx context.Context, past, claimed int64, index segment.OffsetIndex) (to soundBatch, ok bool, err error) {
	entryAt := func(pos int64) int {
		return sort.Search(index.Len(), func(i int) bool {
			_, at := index.Entry(i)
			return at >= pos
		})
	}
	// The last entry that is known to lie in the damage, and the first behind it.
	inside, found := entryAt(past)-1, index.Len()
	for step, width := 0, 1; found-inside > 1; step++ {
		i := inside + (found-inside)/2
		if !ok {
			if step == maxSteps {
				break
			}
			i = min(inside+width, found-1)
			width *= 2
		}
		_, at := index.Entry(i)
		next, sound, skip, err := s.tryAt(ctx, at, false)
		if err == nil && sound {
			sound, err = s.goesOn(ctx, &next.header, claimed)
		}
		switch {
		case err != nil:
			return soundBatch{}, false, err
		case sound:
			to, ok, found = next, true, i
		default:
			inside = min(max(i, entryAt(skip)-1), found-1)
		}
	}
	return to, ok, nil
}

// alongHeaders is behind by the lengths in the headers. claimed is the last offset that the damaged batches claim.
func (s *Scanner) alongHeaders(ctx context.Context, times *timeProof) (to soundBatch, claimed int64, ok bool, err error) {
	claimed = s.last
	h, err := s.readHeader(ctx)
	if _, bytes := err.(*segment.Error); err != nil && !bytes {
		return to, claimed, false, unreadable(err)
	}
	plausible := err == nil
	adjoins := true
	for n := range maxDamaged {
		plausible = plausible && h.BaseOffset > claimed && h.BaseOffset >= s.log.Base && h.LastOffset() <= s.log.Last
		end := s.pos + h.Size()
		if n > 0 && !plausible || end < s.pos+segment.EntryPrefix || end >= s.log.Size {
			break
		}
		if adjoins = adjoins && plausible; plausible {
			claimed = h.LastOffset()
			if err := times.look(ctx, s, &h); err != nil {
				return to, claimed, false, err
			}
		}
		to, sound, _, err := s.tryAt(ctx, end, false)
		if err != nil {
			return to, claimed, false, err
		}
		to.adjoins = adjoins && to.header.BaseOffset == claimed+1
		if sound {
			if ok, err = s.goesOn(ctx, &to.header, claimed); ok || err != nil {
				return to, claimed, ok, err
			}
		}
		h, adjoins, plausible = to.header, to.adjoins, to.header.BaseOffset >= 0
	}
	return to, claimed, false, nil
}

// tryAt goes to a log position and looks whether a sound batch of the segment begins there. Bytes that fail are read
// from the store once more, unless they were read again already or often enough. Of one that is not sound the header is
// given nevertheless, when it can be read. skip is where bytes end that cannot be had, 0 = they can.
func (s *Scanner) tryAt(ctx context.Context, pos int64, again bool) (to soundBatch, sound bool, skip int64, err error) {
	s.unpin()
	s.pos = pos
	// What was loaded for a place further behind is no part of this one, and not in doubt with it.
	s.suspects.recent = slices.DeleteFunc(s.suspects.recent, func(r recent) bool { return r.from > pos })
	to = soundBatch{pos: pos, header: segment.Header{BaseOffset: -1}}
	for ; ; again = true {
		h, err := s.readHeader(ctx)
		if err == nil {
			to.header = h
			if e := s.contradicts(&h, -1); e != nil {
				err = e
			} else if _, err = s.batchOf(ctx, &h, ToPass); err == nil {
				return to, true, 0, nil
			}
		}
		if e, ok := errors.AsType[*Error](err); ok && e.past > 0 {
			return to, false, e.past, nil
		}
		if err = unreadable(err); err != nil || again || s.suspects.rereadEnough(s.pos) {
			return to, false, 0, err
		}
		s.forget(math.MaxInt64)
	}
}

// goesOn says whether the sound batch at pos lies behind damage. When it begins within what the damaged batches
// claim, either is wrong, and only the batch behind it tells.
func (s *Scanner) goesOn(ctx context.Context, h *segment.Header, claimed int64) (bool, error) {
	if h.BaseOffset <= s.last || h.BaseOffset > claimed {
		return h.BaseOffset > s.last, nil
	}
	return s.vouched(ctx, h)
}

// vouched says that the header behind the sound batch at pos, or the segment's end, proves its offsets.
func (s *Scanner) vouched(ctx context.Context, h *segment.Header) (bool, error) {
	next, err := s.offsetAt(ctx, s.pos+h.Size())
	if err != nil {
		return false, unreadable(err)
	}
	return next > h.LastOffset() && (next == h.LastOffset()+1 || h.LastOffset() == s.log.Last), nil
}

// unreadable takes away an error that says that bytes are no sound batch.
func unreadable(err error) error {
	if damagedBytes(err) {
		return nil
	}
	return err
}
