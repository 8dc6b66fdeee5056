package offload

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"syscall"

	"coldtap/segment"
)

// bufferSize is the memory through which a log is read: a batch up to this size is seen whole, a larger one passes
// through. 1 MiB is Kafka's default max.message.bytes, and reads of that size keep a disk busy.
const bufferSize = 1 << 20

// damage says that a file contradicts itself or its neighbours.
type damage struct {
	file   string
	detail string
}

func (d *damage) Error() string { return d.file + ": " + d.detail }

func damaged(file, format string, args ...any) *damage {
	return &damage{file: file, detail: fmt.Sprintf(format, args...)}
}

// batch is one entry of a log that passed the checks of batchReader.
type batch struct {
	segment.Header
	pos   int64  // of its first byte
	bytes []byte // the whole entry, valid until the next one; nil when it is larger than bufferSize
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
	in    *bufio.Reader
	size  int64 // of the log
	pos   int64 // of the next batch
	next  int64 // the next segment's base, the exclusive bound of offsets
	want  int64 // the next batch's offset when none is missing
	epoch int32
}

// newBatchReader reads size bytes of r, the log of the segment whose offsets are [base, next). file names it.
func newBatchReader(ctx context.Context, file string, r io.Reader, size, base, next int64) *batchReader {
	return &batchReader{
		ctx: ctx, file: file, in: bufio.NewReaderSize(r, int(min(size, bufferSize))), size: size, next: next, want: base, epoch: -1,
	}
}

// read gives the next batch, or io.EOF behind the last. A *damage is final.
func (r *batchReader) read() (batch, error) {
	if err := r.ctx.Err(); err != nil {
		return batch{}, err
	}
	left := r.size - r.pos
	if left == 0 {
		return batch{}, io.EOF
	}
	head, err := r.peek(min(left, segment.HeaderSize))
	if err != nil {
		return batch{}, err
	}
	b := batch{pos: r.pos}
	b.Header, err = segment.ParseHeader(head, left)
	if err != nil {
		return batch{}, r.describe(head, left, err)
	}
	if err := r.verify(&b); err != nil {
		return batch{}, err
	}
	if err := r.follow(&b); err != nil {
		return batch{}, err
	}
	r.pos += b.Size()
	return b, nil
}

// peek gives the next n bytes. A log that ends before the size it had when it was opened is being changed by somebody,
// and that is no damage; a read error of the disk is.
func (r *batchReader) peek(n int64) ([]byte, error) {
	p, err := r.in.Peek(int(n))
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: %w at byte %d of %d: it was cut while it was read",
			r.file, io.ErrUnexpectedEOF, r.pos, r.size)
	case errors.Is(err, syscall.EIO):
		return nil, damaged(r.file, "byte %d: %v", r.pos, err)
	}
	return nil, err
}

// describe turns a header's error into damage, and tells the usual cases by name.
func (r *batchReader) describe(head []byte, left int64, err error) error {
	if zero(head) {
		for rest := left; ; {
			p, err := r.peek(min(rest, bufferSize))
			if err != nil {
				return err
			}
			if !zero(p) {
				break
			}
			r.in.Discard(len(p))
			if rest -= int64(len(p)); rest == 0 {
				return damaged(r.file, "byte %d: nothing but zeros to the end, %d bytes", r.pos, left)
			}
		}
	}
	var e *segment.Error
	if errors.As(err, &e) && (e.Kind == segment.Truncated || e.Kind == segment.TooLarge) {
		return damaged(r.file, "byte %d: a batch is cut short, %d bytes are left (%s)", r.pos, left, e.Detail)
	}
	return damaged(r.file, "byte %d: %v", r.pos, err)
}

func zero(p []byte) bool {
	for _, c := range p {
		if c != 0 {
			return false
		}
	}
	return true
}

// verify checks the batch's bytes and moves the input behind it.
func (r *batchReader) verify(b *batch) error {
	if b.Size() > bufferSize {
		return r.verifyLarge(b)
	}
	p, err := r.peek(b.Size())
	if err != nil {
		return err
	}
	if err := segment.VerifyCRC(&b.Header, p); err != nil {
		return damaged(r.file, "byte %d: %v", b.pos, err)
	}
	// The view outlives Discard: the buffer is filled again by the next peek only.
	b.bytes = p
	r.in.Discard(len(p))
	return nil
}

// verifyLarge is segment.VerifyCRC for a batch that does not fit the buffer: a size that only a damaged length field
// claims must not cost that much memory.
func (r *batchReader) verifyLarge(b *batch) error {
	sum := segment.NewChecksum(&b.Header)
	for left := b.Size(); left > 0; {
		p, err := r.peek(min(left, bufferSize))
		if err != nil {
			return err
		}
		sum.Add(p)
		left -= int64(len(p))
		r.in.Discard(len(p))
	}
	if err := sum.Verify(); err != nil {
		return damaged(r.file, "byte %d: %v", b.pos, err)
	}
	return nil
}

// follow checks the batch against what came before.
func (r *batchReader) follow(b *batch) error {
	switch last := b.LastOffset(); {
	case b.BaseOffset < r.want:
		return damaged(r.file, "byte %d: batch at offset %d where %d is the least possible", b.pos, b.BaseOffset, r.want)
	case last >= r.next:
		return damaged(r.file, "byte %d: batch ends at offset %d, but the next segment begins at %d", b.pos, last, r.next)
	case b.Codec() > segment.Zstd:
		return damaged(r.file, "byte %d: batch at offset %d has codec %d", b.pos, b.BaseOffset, b.Codec())
	case b.LeaderEpoch >= 0 && b.LeaderEpoch < r.epoch:
		return damaged(r.file, "byte %d: batch at offset %d has leader epoch %d behind epoch %d",
			b.pos, b.BaseOffset, b.LeaderEpoch, r.epoch)
	}
	b.adjoins = b.BaseOffset == r.want
	// A message of magic 0 or 1 tells its last offset only, so that nothing can be said about what is before it.
	if b.Magic >= 2 {
		b.gap = b.BaseOffset > r.want
		b.cleaned = int64(b.Count) != int64(b.LastOffsetDelta)+1 || b.Attributes&attributeDeleteHorizon != 0
	}
	r.want = b.LastOffset() + 1
	r.epoch = max(r.epoch, b.LeaderEpoch)
	return nil
}

// attributeDeleteHorizon is set by the cleaner only (KIP-534).
const attributeDeleteHorizon = 0x40

// maxOffset is the bound of offsets in a segment that nothing follows.
const maxOffset = math.MaxInt64

// readBelow is read for a reader that is not to look at what lies at or beyond the offset to: there it gives io.EOF,
// unless the whole segment lies below.
func (r *batchReader) readBelow(to int64, whole bool) (batch, error) {
	if left := r.size - r.pos; !whole && left >= 8 {
		p, err := r.peek(8)
		if err != nil {
			return batch{}, err
		}
		if base := int64(binary.BigEndian.Uint64(p)); r.want >= to || base >= to {
			return batch{}, io.EOF
		}
	}
	return r.read()
}
