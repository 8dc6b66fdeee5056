package fetch

import (
	"errors"
	"math"
	"slices"

	"coldtap/cache"
	"coldtap/segment"
)

// recent is a chunk that the batch at the cursor may lie in.
type recent struct {
	chunk    *cache.Chunk // not held
	from, to int64        // log positions
}

// reread is a chunk that forget has taken out of the cache, and how often.
type reread struct {
	from  int64
	times int
}

// note remembers a chunk that was just loaded, and forgets those that lie before the batch at the cursor, or before the
// damaged one behind which it looks.
func (c *cursor) note(p *pin) {
	kept := c.recent[:0]
	for _, r := range c.recent {
		if r.to > min(c.pos, c.damaged) && r.chunk != p.chunk {
			kept = append(kept, r)
		}
	}
	c.recent = append(kept, recent{p.chunk, p.from, p.to})
}

// forget takes the chunks that the batch at the cursor was read from, as far as they begin below end, out of the cache.
// Chunks loaded since by others stay: a hundred readers of one damaged chunk ask the store for it once more, not a
// hundred times.
func (c *cursor) forget(end int64) {
	c.unpin()
	kept := c.recent[:0]
	for _, r := range c.recent {
		if r.to > c.pos && r.from < end {
			c.svc.cfg.Chunks.Drop(r.chunk)
			c.countReread(r.from)
		} else {
			kept = append(kept, r)
		}
	}
	c.recent = kept
	c.glanced.at, c.streamed = -1, streamed{at: -1}
}

func (c *cursor) countReread(from int64) {
	for i := range c.rereads {
		if c.rereads[i].from == from {
			c.rereads[i].times++
			return
		}
	}
	c.rereads = append(c.rereads, reread{from, 1})
}

// rereadEnough says that all chunks of the batch at the cursor have come from the store again as often as a search
// behind damage may have them: a hole full of small batches lies in one chunk.
func (c *cursor) rereadEnough() bool {
	for _, r := range c.recent {
		if r.to > c.pos && !slices.ContainsFunc(c.rereads, func(x reread) bool { return x.from == r.from && x.times >= maxRereads }) {
			return false
		}
	}
	return true
}

// fault makes an *Error of what reading the batch at the cursor ended with. Damage is in doubt while it shows in
// bytes that no checksum has confirmed: other bytes may come of another read.
func (c *cursor) fault(err error) error {
	bytes, ok := errors.AsType[*segment.Error](err)
	if !ok || kindOf(err) != 0 {
		return err
	}
	if bytes.Kind == segment.TooLarge && c.proven == c.pos {
		return c.tooLarge(err)
	}
	e := failure(Damaged, err, "damaged batch")
	e.Segment, e.Position = c.seg.ID, c.pos
	e.doubt = c.proven != c.pos
	if bytes.Kind == segment.TooLarge {
		e.Detail = "damaged: a batch reaches beyond the log"
	}
	return e
}

// readAgain says whether damage in doubt is to be decided by reading the batch at the cursor once more, from the store.
func (c *cursor) readAgain() bool {
	if c.doubted == c.pos {
		return false
	}
	c.forget(math.MaxInt64)
	c.doubted, c.undecided = c.pos, true
	return true
}

// confirm notes damage at the cursor: a second read gave no better bytes, or the store has none.
func (c *cursor) confirm(e *Error) {
	if c.undecided && c.doubted == c.pos {
		c.undecided = false
		c.svc.metrics.refetches[stillDamaged].Inc()
	}
	if e.past == 0 { // else who could not make log bytes of them has logged it
		c.svc.cfg.Logger.Warn("damaged log bytes", "segment", c.seg.ID.String(), "position", c.pos, "error", e)
	}
}

// accept notes that the batch at the cursor is sound.
func (c *cursor) accept() {
	if c.undecided && c.doubted == c.pos {
		c.undecided = false
		c.svc.metrics.refetches[healed].Inc()
	}
}

// doubtful reports damage at the cursor that another read of the same bytes may not show.
func (c *cursor) doubtful(format string, args ...any) *Error {
	e := failure(Damaged, nil, format, args...)
	e.Segment, e.Position, e.doubt = c.seg.ID, c.pos, true
	return e
}
