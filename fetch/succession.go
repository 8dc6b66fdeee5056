package fetch

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"coldtap/segment"
)

// A batch's base offset lies outside of every checksum; only its neighbours tell whether it is true. Where offsets
// leave no gap, another base offset always reaches into the batch before, into the one behind, or out of the segment.
// So a batch that follows on the one before is believed; any other one only after a look at the next header, which may
// cost a chunk: true gaps are rare, they come from compaction before a segment was tiered. What can't be told apart
// from a gap is in docs/limits.md.

// contradicts says what is wrong with the offsets of the batch at the cursor beside the segment's claim and the last
// offset of the batch before it (-1 = none seen); nil when nothing is.
func (c *cursor) contradicts(h *segment.Header, before int64) *Error {
	base, last := h.BaseOffset, h.LastOffset()
	switch {
	case base < c.seg.BaseOffset || last > c.seg.EndOffset:
		return c.doubtful("a batch of offsets %d to %d lies in a segment of %d to %d", base, last, c.seg.BaseOffset, c.seg.EndOffset)
	case base <= before:
		return c.doubtful("a batch of offsets %d to %d follows offset %d", base, last, before)
	case !c.dense:
	case (before >= 0 || c.pos == 0) && !c.follows(h, before):
		return c.doubtful("a batch of offsets %d to %d comes after a gap in a log that has none", base, last)
	case (last == c.seg.EndOffset) != (c.pos+h.Size() == c.seg.Size):
		return c.doubtful("a batch of offsets %d to %d ends at byte %d of %d in a segment that ends at offset %d", base, last,
			c.pos+h.Size(), c.seg.Size, c.seg.EndOffset)
	}
	return nil
}

// follows says that the batch at the cursor goes on where the one before it ended, or its segment begins.
func (c *cursor) follows(h *segment.Header, before int64) bool {
	if before >= 0 {
		return h.BaseOffset == before+1
	}
	return c.pos == 0 && h.BaseOffset == c.seg.BaseOffset
}

// glance is what the header at a log position says of its offset.
type glance struct {
	at   int64 // -1 = nothing was looked at
	base int64 // math.MaxInt64: no batch begins there, as in a preallocated log's tail of zeros
}

// glanceInside says that glance needs no other chunk than those at hand.
func (c *cursor) glanceInside(at int64) bool {
	return at >= c.seg.Size || c.glanced.at == at || c.cur.holds(at) && min(at+segment.EntryPrefix, c.seg.Size) <= c.cur.to
}

// glance reads the offset in the header at log position at. The bytes of the batch at the cursor may be let go for it,
// so that batch has to be called again; what was seen is remembered until then.
func (c *cursor) glance(ctx context.Context, at int64) (base int64, err error) {
	if at >= c.seg.Size {
		return math.MaxInt64, nil
	}
	if c.glanced.at == at {
		return c.glanced.base, nil
	}
	var prefix [segment.EntryPrefix]byte
	n, straddles := int64(0), c.next.chunk != nil
	for want := min(int64(len(prefix)), c.seg.Size-at); n < want; {
		p, err := c.beside(ctx, at+n)
		if err != nil {
			return 0, err
		}
		n += int64(copy(prefix[n:], p.slice(at+n, p.to)))
	}
	c.glanced = glance{at, math.MaxInt64}
	_, err = segment.ParseHeader(prefix[:n], c.seg.Size-at)
	// Of a header of 17 bytes nothing but its end is missing.
	if e, ok := errors.AsType[*segment.Error](err); err == nil || ok && n == segment.EntryPrefix && e.Kind == segment.Truncated {
		c.glanced.base = int64(binary.BigEndian.Uint64(prefix[:]))
	}
	// While a client is served, no more is held than the batch.
	if !straddles {
		c.next.release()
	}
	if c.assembled != nil && c.joined == c.pos || c.streamed.at == c.pos {
		return c.glanced.base, nil
	}
	return c.glanced.base, c.hold(ctx, c.pos)
}

// neighbours looks at the header behind the batch at the cursor, which does not follow on the one before (whose last
// offset is before, -1 = none seen). proven says that its base offset can be no other one; without that there is a gap
// behind it, or the next header says nothing.
func (c *cursor) neighbours(ctx context.Context, h *segment.Header, before int64) (proven bool, err error) {
	last := h.LastOffset()
	next, err := c.glance(ctx, c.pos+h.Size())
	switch {
	case err != nil:
		return false, err
	case next <= max(before, c.seg.BaseOffset-1) && !c.dense:
		return false, nil // it is the next one's offset that is wrong
	case next <= last:
		return false, c.doubtful("a batch of offsets %d to %d is followed by offset %d", h.BaseOffset, last, next)
	case next == last+1 || last == c.seg.EndOffset:
		return true, nil
	case c.dense:
		return false, c.doubtful("a batch of offsets %d to %d comes before a gap in a log that has none", h.BaseOffset, last)
	}
	return false, nil
}
