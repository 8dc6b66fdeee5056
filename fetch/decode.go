package fetch

import (
	"context"
	"errors"

	"coldtap/segment"
)

// reserve takes decode memory, letting go of everything else first if that needs waiting.
func (c *cursor) reserve(ctx context.Context, n int64) error {
	if c.memory.Reserve(n) == nil {
		return nil
	}
	// What an earlier batch left behind goes first.
	c.unpin()
	c.closeDecoder()
	if c.memory.Reserve(n) == nil {
		return nil
	}
	if err := c.waitForMemory(ctx); err != nil {
		return err
	}
	err := c.memory.Reserve(n)
	c.memory.trim()
	return err
}

// waitForMemory waits for the decode memory that was last refused, with nothing held: chunks, the assembled batch and
// the decoder's buffer are let go.
func (c *cursor) waitForMemory(ctx context.Context) error {
	c.unpin()
	c.closeDecoder()
	c.memory.trim()
	if c.memory.hopeless() {
		return c.tooLarge(nil)
	}
	if err := c.memory.wait(ctx, c.wait); err != nil {
		return c.at(err, c.pos)
	}
	return nil
}

// closeDecoder gives back what the decoder keeps.
func (c *cursor) closeDecoder() {
	if c.decoder != nil { // a range of a file decodes nothing
		c.decoder.Close()
	}
	c.decoder = c.usual
}

// open starts the decoder on the batch at pos, whose header is h. The batch's records are views of what the cursor
// holds.
func (c *cursor) open(ctx context.Context, h *segment.Header) error {
	if c.decoder != c.usual {
		c.closeDecoder()
	}
	for fresh := false; ; {
		b, err := c.batch(ctx, h, toDecode)
		if err != nil {
			return err
		}
		err = c.decoder.Open(b.first)
		switch {
		case !overBudget(err):
			c.memory.trim()
			return err
		case !c.memory.hopeless():
			if err := c.waitForMemory(ctx); err != nil {
				return err
			}
		case !fresh:
			// What an earlier batch left behind goes first.
			fresh = true
			c.closeDecoder()
		case c.decoder == c.usual && c.memory.lastStep() > 0:
			// The buffer doubles, and here the next step is too wide. A bound that the old and the new buffer fit under
			// together makes it narrower.
			limit := c.memory.lastStep()
			c.closeDecoder()
			c.decoder = segment.NewDecoder(limit, &c.memory)
		default:
			return c.tooLarge(err)
		}
	}
}

// tooLarge reports a sound batch for whose records there never is memory enough.
func (c *cursor) tooLarge(cause error) error {
	e := failure(TooLarge, cause, "the batch is too large to decode here: it takes more than the %d bytes that one answer may have of limits.decode_memory (%d bytes); "+
		"application/vnd.kafka.recordbatch gives it undecoded", c.memory.most(), c.memory.from.Size())
	return c.at(e, c.pos)
}

// overBudget says that a decoder stopped for want of decode memory only.
func overBudget(err error) bool {
	e, ok := errors.AsType[*segment.Error](err)
	return ok && e.Kind == segment.OverBudget
}
