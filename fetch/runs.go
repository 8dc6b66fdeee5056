package fetch

import (
	"context"
	"errors"

	"coldtap/cache"
	"coldtap/fetch/scan"
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

// set makes the run a piece of a log, cut at n bytes.
func (r *Run) set(p scan.Piece, share *budget.Share, n int64) {
	r.bytes, r.chunk = p.Bytes[:n:n], p.Chunk
	if p.Reserved > 0 {
		r.share, r.reserved = share, p.Reserved
	}
}

// NextRun gives the next run, which extends as far as the chunk at hand and the limits allow; it is at most a chunk
// long, except for a single batch that had to be assembled. io.EOF at the end: then End is known. Other errors are
// *Error. For raw answers: control and aborted batches are left out with read_committed, and passed through otherwise;
// MaxRecords counts the records in [start, end), and the batch that reaches it is the last. NextOffset counts a batch
// as handed out with its last run.
func (st *Stream) NextRun(ctx context.Context, run *Run) error {
	run.Release()
	st.scan.Memory.Small = false // a run holds its memory until the client has it
	st.filter.kind = readRaw
	for {
		if err := st.atEnd(); err != nil {
			return err
		}
		if st.owed > 0 {
			return st.handOut(ctx, run, st.owed)
		}
		found, err := st.nextBatch(ctx, false)
		if found {
			if found, err = st.countBatch(ctx); found {
				err = st.handOut(ctx, run, st.scan.Position())
			}
			if err != nil && st.err == nil {
				err = st.recover(ctx, err)
			}
		}
		if err != nil || len(run.bytes) > 0 {
			return err
		}
	}
}

// Whole says that the runs handed out so far end with a whole batch. NextOffset alone does not: batches that are passed
// over move it too.
func (st *Stream) Whole() bool { return st.owed == 0 }

// handOut makes the run what lies in one place of the batch that nextBatch gave, from log position at on. Where the
// batch ends in a chunk, as many as lie on behind it come too.
func (st *Stream) handOut(ctx context.Context, run *Run, at int64) error {
	end := st.scan.Position() + st.header.Size()
	piece, err := st.scan.Piece(ctx, at)
	switch {
	case err != nil && at == st.scan.Position():
		return err
	case errors.Is(err, errGone):
		return st.fail(failure(Missing, err, "the segment was deleted while a batch of it was handed out"))
	case err != nil:
		return st.fail(st.fault(err)) // part of the batch is out, so the stream can end nowhere else
	}
	run.set(piece, st.scan.Memory.Share, int64(len(piece.Bytes)))
	if to := at + int64(len(piece.Bytes)); to < end {
		st.owed = to
		return nil
	}
	st.owed = 0
	st.book()
	if piece.Chunk != nil {
		st.extend(ctx, run, at)
	}
	return nil
}

// extend adds the batches that lie on in the chunk, and cuts the run, which begins at from, behind the last one.
func (st *Stream) extend(ctx context.Context, run *Run, from int64) {
	to := st.scan.Position()
	for {
		found, err := st.nextBatch(ctx, true)
		if found && err == nil {
			found, err = st.countBatch(ctx)
		}
		if !found || err != nil {
			break
		}
		st.book()
		to = st.scan.Position()
	}
	run.bytes = run.bytes[: to-from : to-from]
}

// book counts the batch as handed out and goes behind it.
func (st *Stream) book() {
	h, f := st.header, &st.filter
	if h.Count != 0 && !h.IsControl() {
		f.progress = true
		f.served += h.Size()
	} else {
		// Clients that get nothing but such batches see no progress, so these are free.
		f.hidden += h.Size()
	}
	f.records += st.wanted
	st.tally.served += h.Size()
	st.reach(h.LastOffset())
	st.advance()
}

// countBatch decides about a batch by its records, where that takes them: it ends the range within the batch that holds
// the record to stop at, counts records, and passes over what no timestamp asks for.
func (st *Stream) countBatch(ctx context.Context) (emit bool, err error) {
	h, f := st.header, &st.filter
	st.wanted = 0
	if !f.counts(h, st.next) {
		if f.maxRecords > 0 && !h.IsControl() {
			st.wanted = f.countOf(h, st.next)
		}
		return true, nil
	}
	err = st.countRecords(ctx)
	st.scan.CloseDecoder() // the run is held for as long as the client takes, the records are done with
	if e, ok := errors.AsType[*scan.Error](err); ok && e.Kind == scan.TooLarge {
		// There is no looking into it, so it comes, and counts for as many records as its header says.
		st.wanted = max(int64(h.Count), 0)
		err = st.scan.Check(ctx, scan.ToSend)
		return err == nil, err
	}
	if err != nil {
		return false, err
	}
	if st.wanted == 0 && st.next >= f.rangeEnd {
		st.finish(EndRange)
		return false, nil
	}
	if st.wanted == 0 && !f.times.overlaps(h) {
		st.passOver(h, hiddenByTime)
		return false, nil
	}
	// Decoding may have had to let go of the chunks.
	err = st.scan.Check(ctx, scan.ToDecode)
	return err == nil, err
}
