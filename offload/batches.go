package offload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"syscall"

	"coldtap/segment"
)

// wholeBatch is the size up to which a batch is held whole; a larger one passes through, so that a size that only a
// damaged length field claims costs no memory.
const wholeBatch = 1 << 20

// damage says that a file contradicts itself or its neighbours.
type damage struct {
	file   string
	detail string
}

func (d *damage) Error() string { return d.file + ": " + d.detail }

func damaged(file, format string, args ...any) *damage {
	return &damage{file: file, detail: fmt.Sprintf(format, args...)}
}

// batch is one entry of a log that passed the checks of batchReader. Its Bytes are nil when it is larger than
// wholeBatch.
type batch struct {
	segment.LogEntry
	// gap says that offsets are missing before the batch, cleaned that records are missing within it: either way
	// compaction, or damage.
	gap, cleaned bool
	adjoins      bool // its header's offset is the one behind the entry before, or the segment's base
}

// batchReader streams the batches of one segment's log and checks each on its own and against the one before: size,
// magic, checksum, offsets within the segment and ascending, leader epochs not descending.
type batchReader struct {
	ctx   context.Context
	file  string
	log   *segment.LogReader
	size  int64 // of the log
	next  int64 // the next segment's base, the exclusive bound of offsets
	want  int64 // the next batch's offset when none is missing
	epoch int32
}

// newBatchReader reads size bytes of r, the log of the segment whose offsets are [base, next). file names it.
func newBatchReader(ctx context.Context, file string, r io.Reader, size, base, next int64) *batchReader {
	return &batchReader{
		ctx: ctx, file: file, log: segment.NewLogReader(r, size, wholeBatch), size: size, next: next, want: base, epoch: -1,
	}
}

// read gives the next batch, or io.EOF behind the last. A *damage is final.
func (r *batchReader) read() (batch, error) {
	if err := r.ctx.Err(); err != nil {
		return batch{}, err
	}
	e, err := r.log.Next()
	if err != nil {
		return batch{}, r.describe(err)
	}
	if e.CRCError != nil {
		return batch{}, damaged(r.file, "byte %d: %v", e.Position, e.CRCError)
	}
	b := batch{LogEntry: e}
	if err := r.checkOrder(&b); err != nil {
		return batch{}, err
	}
	return b, nil
}

// describe turns a header's error and one of the disk into damage, and names the usual cases. A log that ends before
// the size it had when it was opened is being written by another process, and that is no damage.
func (r *batchReader) describe(err error) error {
	pos := r.log.Position()
	e, isDamage := errors.AsType[*segment.Error](err)
	switch {
	case errors.Is(err, syscall.EIO):
		return damaged(r.file, "byte %d: %v", pos, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: %w", r.file, err)
	case !isDamage:
		return err
	}
	left := r.size - pos
	zeros, err := onlyZeros(r.log)
	switch {
	case err != nil:
		return r.describe(err)
	case zeros:
		return damaged(r.file, "byte %d: nothing but zeros to the end, %d bytes", pos, left)
	case e.Kind == segment.Truncated:
		return damaged(r.file, "byte %d: a batch is cut short, %d bytes are left (%s)", pos, left, e.Detail)
	}
	return damaged(r.file, "byte %d: %s: %v: %s", pos, e.Op, e.Kind, e.Detail)
}

// onlyZeros reads up to the first byte that is not zero.
func onlyZeros(in io.Reader) (bool, error) {
	p := make([]byte, 32<<10)
	for {
		n, err := in.Read(p)
		for _, c := range p[:n] {
			if c != 0 {
				return false, nil
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// checkOrder checks the batch against what came before.
func (r *batchReader) checkOrder(b *batch) error {
	switch last := b.LastOffset(); {
	case b.BaseOffset < r.want:
		return damaged(r.file, "byte %d: batch at offset %d where %d is the least possible", b.Position, b.BaseOffset, r.want)
	case last >= r.next:
		return damaged(r.file, "byte %d: batch ends at offset %d, but the next segment begins at %d", b.Position, last, r.next)
	case b.Codec() > segment.Zstd:
		return damaged(r.file, "byte %d: batch at offset %d has codec %d", b.Position, b.BaseOffset, b.Codec())
	case b.LeaderEpoch >= 0 && b.LeaderEpoch < r.epoch:
		return damaged(r.file, "byte %d: batch at offset %d has leader epoch %d behind epoch %d",
			b.Position, b.BaseOffset, b.LeaderEpoch, r.epoch)
	}
	b.adjoins = b.BaseOffset == r.want
	// A message of magic 0 or 1 tells its last offset only, so that nothing can be said about what is before it.
	if b.Magic >= 2 {
		b.gap = b.BaseOffset > r.want
		// Only the cleaner sets the delete horizon (KIP-534).
		b.cleaned = int64(b.Count) != int64(b.LastOffsetDelta)+1 || b.HasDeleteHorizon()
	}
	r.want = b.LastOffset() + 1
	r.epoch = max(r.epoch, b.LeaderEpoch)
	return nil
}

// maxOffset is the bound of offsets in a segment that nothing follows.
const maxOffset = math.MaxInt64

// readBelow is read for a reader that is not to look at what lies at or beyond the offset to: there it gives io.EOF,
// unless the whole segment lies below.
func (r *batchReader) readBelow(to int64, whole bool) (batch, error) {
	if !whole && r.size-r.log.Position() >= 8 {
		p, err := r.log.Peek(8)
		if err != nil {
			return batch{}, r.describe(err)
		}
		if base := int64(binary.BigEndian.Uint64(p)); r.want >= to || base >= to {
			return batch{}, io.EOF
		}
	}
	return r.read()
}
