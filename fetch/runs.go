package fetch

import (
	"context"
	"errors"
	"io"

	"coldtap/cache"
	"coldtap/internal/budget"
)

// Run is consecutive stored batches that lie side by side in memory, in one chunk or in one assembled batch: whole
// batches, checksums checked. A batch that straddles chunks comes as a run for each, and the first bytes of the next
// batches with the last one. The zero value is empty.
type Run struct {
	bytes []byte
	chunk *cache.Chunk

	// When no chunk holds the bytes, they are part of reserved bytes of share.
	share    *budget.Share
	reserved int64
}

// Bytes are read-only and valid until Release.
func (r *Run) Bytes() []byte { return r.bytes }

// InDecodeMemory says that the bytes lie in memory of Config.Decode, not in a chunk.
func (r *Run) InDecodeMemory() bool { return r.reserved > 0 }

// Release gives the memory back; more than once is fine. A caller that waits for the next run with one unreleased may
// wait for itself, so NextRun releases the run it is given.
func (r *Run) Release() {
	if r.chunk != nil {
		r.chunk.Release()
	}
	if r.share != nil {
		r.share.Release(r.reserved)
	}
	*r = Run{}
}

// set makes the run bytes [from, to) of the log, which lie in p.
func (r *Run) set(p *pin, from, to int64) {
	p.chunk.Retain()
	b := p.slice(from, to)
	r.chunk, r.bytes = p.chunk, b[:len(b):len(b)]
}

// NextRun gives the next run, which extends as far as the chunk at hand and the limits allow; it is at most a chunk
// long, except for a single batch that had to be assembled. io.EOF at the end: then End is known. Other errors are
// *Error. For raw answers: control and aborted batches are left out with read_committed, and passed through otherwise;
// MaxRecords counts the records in [start, end), and the batch that reaches it is the last. NextOffset counts a batch
// as handed out with its last run.
func (st *Stream) NextRun(ctx context.Context, run *Run) error {
	run.Release()
	if err := st.atEnd(); err != nil {
		return err
	}
	st.cur.memory.small = false // a run holds its memory until the client has it
	st.view = readRaw
	c := &st.cur
	if st.owed > 0 {
		return st.nextPiece(ctx, run, st.owed)
	}
	v, err := st.examine(ctx, false)
	if err != nil {
		return err
	}
	if v == ended {
		return io.EOF
	}
	switch {
	case st.body.second != nil, st.body.pieces:
		return st.nextPiece(ctx, run, c.pos)
	case !st.body.chunk:
		// The run takes over the memory.
		run.bytes, run.share, run.reserved = c.assembled, c.memory.share, int64(cap(c.assembled))
		c.memory.move(run.reserved)
		c.assembled = nil
		st.handedOut()
		return nil
	}
	from := c.pos
	run.set(&c.cur, from, c.cur.to)
	st.handedOut()
	st.extend(ctx, run, from)
	return nil
}

// Whole says that the runs handed out so far end with a whole batch. NextOffset alone does not: batches that are passed
// over move it too.
func (st *Stream) Whole() bool { return st.owed == 0 }

// nextPiece gives what lies in one chunk, from position at on, of a batch that spreads over several.
func (st *Stream) nextPiece(ctx context.Context, run *Run, at int64) error {
	c := &st.cur
	end := c.pos + st.header.Size()
	to, err := c.piece(ctx, &st.body, at, end)
	switch {
	case err != nil && at == c.pos:
		if err := st.repair(ctx, err); err != nil {
			return err
		}
		return st.NextRun(ctx, run)
	case errors.Is(err, errGone):
		return st.fail(failure(Missing, err, "the segment was deleted while a batch of it was handed out"))
	case err != nil:
		return st.fail(err) // part of the batch is out, so the stream can end nowhere else
	}
	run.set(&c.cur, at, c.cur.to)
	if st.owed = to; to < end {
		return nil
	}
	st.owed = 0
	st.handedOut()
	st.extend(ctx, run, at)
	return nil
}

// extend adds the batches that lie on behind the cursor, and cuts the run, which begins at from, behind the last one.
func (st *Stream) extend(ctx context.Context, run *Run, from int64) {
	to := st.cur.pos
	for {
		v, err := st.examine(ctx, true)
		if err != nil || v != passes {
			break
		}
		st.handedOut()
		to = st.cur.pos
	}
	run.bytes = run.bytes[: to-from : to-from]
}

// handedOut books the batch that examine gave and steps behind it.
func (st *Stream) handedOut() {
	h := &st.header
	if h.Count != 0 && !h.IsControl() {
		st.progress = true
		st.served += h.Size()
	} else {
		// Clients that get nothing but such batches see no progress, so these are free.
		st.hiddenBytes += h.Size()
	}
	st.records += st.wanted
	st.tally.served += h.Size()
	st.reach(h.LastOffset())
	st.step(h)
}
