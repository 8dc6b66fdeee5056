package scan

import (
	"context"
	"encoding/binary"
	"math"

	"coldtap/segment"
)

// A batch's base offset lies outside of every checksum; only its neighbours tell whether it is true. Where offsets
// leave no gap, another base offset always reaches into the batch before, into the one behind, or out of the segment.
// So a batch that follows on the one before is believed; any other one only after a look at the next header, which may
// cost a chunk: true gaps are rare, they come from compaction before a segment was tiered. What can't be told apart
// from a gap is in docs/limits.md.

// contradicts says what is wrong with the offsets of the batch at pos beside the segment's claim and the last offset of
// the batch before it (-1 = none seen); nil when nothing is.
func (s *Scanner) contradicts(h *segment.Header, before int64) *Error {
	base, last, l := h.BaseOffset, h.LastOffset(), &s.log
	switch {
	case base < l.Base || last > l.Last:
		return s.doubtful("a batch of offsets %d to %d lies in a segment of %d to %d", base, last, l.Base, l.Last)
	case base <= before:
		return s.doubtful("a batch of offsets %d to %d follows offset %d", base, last, before)
	case !l.Dense:
	case (before >= 0 || s.pos == 0) && !s.continues(h, before):
		return s.doubtful("a batch of offsets %d to %d comes after a gap in a log that has none", base, last)
	case (last == l.Last) != (s.pos+h.Size() == l.Size):
		return s.doubtful("a batch of offsets %d to %d ends at byte %d of %d in a segment that ends at offset %d", base, last,
			s.pos+h.Size(), l.Size, l.Last)
	}
	return nil
}

// continues says that the batch at pos goes on where the one before it ended, or its segment begins.
func (s *Scanner) continues(h *segment.Header, before int64) bool {
	if before >= 0 {
		return h.BaseOffset == before+1
	}
	return s.pos == 0 && h.BaseOffset == s.log.Base
}

// behindOffset is the base offset in the header at a log position.
type behindOffset struct {
	at   int64 // -1 = no header was looked at
	base int64 // math.MaxInt64: no batch begins there, as in a preallocated log's tail of zeros
}

// offsetInside says that offsetAt needs no other chunk than those at hand.
func (s *Scanner) offsetInside(at int64) bool {
	return at >= s.log.Size || s.behindOffset.at == at || s.cur.holds(at) && min(at+segment.EntryPrefix, s.log.Size) <= s.cur.to
}

// offsetAt reads the base offset in the header at log position at. The bytes of the batch at pos may be let go for it,
// so that batch has to be called again; what was read is remembered until then.
func (s *Scanner) offsetAt(ctx context.Context, at int64) (base int64, err error) {
	if at >= s.log.Size {
		return math.MaxInt64, nil
	}
	if s.behindOffset.at == at {
		return s.behindOffset.base, nil
	}
	var prefix [segment.EntryPrefix]byte
	n, straddles := int64(0), s.next.chunk != nil
	for want := min(int64(len(prefix)), s.log.Size-at); n < want; {
		p, err := s.beside(ctx, at+n)
		if err != nil {
			return 0, err
		}
		n += int64(copy(prefix[n:], p.slice(at+n, p.to)))
	}
	s.behindOffset = behindOffset{at, math.MaxInt64}
	_, err = segment.ParseHeader(prefix[:n], s.log.Size-at)
	// Of a header of 17 bytes nothing but its end is missing.
	if e, ok := err.(*segment.Error); err == nil || ok && n == segment.EntryPrefix && e.Kind == segment.Truncated {
		s.behindOffset.base = int64(binary.BigEndian.Uint64(prefix[:]))
	}
	// While a client is served, only the batch's own chunks are held.
	if !straddles {
		s.next.release()
	}
	if s.joined != nil && s.joinedAt == s.pos || s.streamed.at == s.pos {
		return s.behindOffset.base, nil
	}
	return s.behindOffset.base, s.hold(ctx, s.pos)
}

// neighbours looks at the header behind the batch at pos, which does not follow on the one before. proven says that its
// base offset can be no other one; without that there is a gap behind it, or the next header says nothing.
func (s *Scanner) neighbours(ctx context.Context) (proven bool, err error) {
	base, last := s.header.BaseOffset, s.header.LastOffset()
	next, err := s.offsetAt(ctx, s.pos+s.header.Size())
	switch {
	case err != nil:
		return false, err
	case next <= max(s.last, s.log.Base-1) && !s.log.Dense:
		return false, nil // it is the next one's offset that is wrong
	case next <= last:
		return false, s.doubtful("a batch of offsets %d to %d is followed by offset %d", base, last, next)
	case next == last+1 || last == s.log.Last:
		return true, nil
	case s.log.Dense:
		return false, s.doubtful("a batch of offsets %d to %d comes before a gap in a log that has none", base, last)
	}
	return false, nil
}
