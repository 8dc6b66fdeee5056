package fetch

import (
	"errors"

	"coldtap/cache"
	"coldtap/segment"
)

// recent is a chunk that the batch at the cursor may lie in.
type recent struct {
	chunk *cache.Chunk // not held
	to    int64        // log position of its end
}

// note remembers a chunk that was just loaded, and forgets those that lie before the batch at the cursor.
func (c *cursor) note(p *pin) {
	kept := c.recent[:0]
	for _, r := range c.recent {
		if r.to > c.pos && r.chunk != p.chunk {
			kept = append(kept, r)
		}
	}
	c.recent = append(kept, recent{p.chunk, p.to})
}

// forget takes the chunks that the batch at the cursor was read from out of the cache. Chunks loaded since by others
// stay: a hundred readers of one damaged chunk ask the store for it once more, not a hundred times.
func (c *cursor) forget() {
	c.unpin()
	for _, r := range c.recent {
		if r.to > c.pos {
			c.svc.cfg.Chunks.Drop(r.chunk)
		}
	}
	clear(c.recent)
	c.recent = c.recent[:0]
	c.glanced.at = -1
}

// fault makes an *Error of what reading the batch at the cursor ended with. Damage is in doubt while it shows in
// bytes that no checksum has confirmed: other bytes may come of another read. next is where the damage begins, as an
// offset.
func (c *cursor) fault(err error, next int64) error {
	bytes, ok := errors.AsType[*segment.Error](err)
	if !ok || kindOf(err) != 0 {
		return err
	}
	if bytes.Kind == segment.TooLarge && c.proven == c.pos {
		return c.tooLarge(err)
	}
	e := failure(Damaged, err, "damaged batch")
	e.Segment, e.Position, e.NextOffset = c.seg.ID, c.pos, next
	e.doubt = c.proven != c.pos
	if bytes.Kind == segment.TooLarge {
		e.Detail = "damaged: a batch reaches beyond the log"
	}
	return e
}

// readAgain decides about damage at the cursor: true means that the batch is to be read once more, from the store. A
// second read that gives no better bytes confirms the damage; then nothing damaged is left in the cache either, so that
// a later request finds an object that was repaired.
func (c *cursor) readAgain(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != Damaged || !e.doubt {
		return false
	}
	c.forget()
	if c.doubted != c.pos {
		c.doubted, c.undecided = c.pos, true
		return true
	}
	if c.undecided {
		c.undecided = false
		c.svc.metrics.refetches[stillDamaged].Inc()
	}
	c.svc.cfg.Logger.Warn("damaged log bytes", "segment", c.seg.ID.String(), "position", c.pos, "error", e)
	return false
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
