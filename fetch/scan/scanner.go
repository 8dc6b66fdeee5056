// Package scan reads the batches of one segment's log, in order, out of chunks.
//
// A Scanner is positioned at an offset, a log position or a time, and then asked in three steps: Next gives the header
// of the next batch, Check makes its bytes available once their checksum and the batch's offsets have been checked, and
// Advance goes behind it. Between Next and Check the caller decides whether it wants the batch at all. What Check has
// found sound is decoded (Open, Record), handed out as it lies (Piece), or passed over.
//
// Invariants:
//
//   - A batch is checked before its bytes are given: its checksum, and its base offset, which no checksum covers. The
//     base offset is believed when it follows on the batch before, or else after a look at the header behind it.
//   - A batch that fails is read from the store once more; only a second failure is reported. What is damaged in the
//     store too does not stay in the cache, so an object that was repaired is seen at once. Records that a right
//     checksum covers are as they were written, and no reason to read again.
//   - Damage that lies below the target is stepped over, unread again, when the batch behind it begins at or below the
//     target and is proven. Else the error names the offset of the first batch behind the damage that is proven, or the
//     one behind the segment. For a search by time, damage is stepped over where no record in it can be the answer.
//   - A position that the offset index gave is confirmed by its first sound batch; before that, failure means that the
//     index is wrong: the entry before is tried, then the log's first byte.
//   - At most two chunks are held, and none while waiting for decode memory. A second chunk is never waited for with
//     the first held: where there is no memory for it, the batch is joined in decode memory.
//
// Not here: isolation levels, limits, other segments, the catalog, and where chunks come from.
package scan

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"sort"

	"coldtap/cache"
	"coldtap/segment"
)

// Source gives what a Scanner reads. Its errors are handed on as they are, but for those named here.
type Source interface {
	// Chunk gives the chunk of a number, held for the caller. With holding the caller holds another chunk, and gets
	// cache.ErrNoSlab instead of waiting for memory. An *Error of kind Lost says that the store has no log bytes there.
	Chunk(ctx context.Context, number int64, holding bool) (*cache.Chunk, error)
	// Drop takes a chunk out of the cache.
	Drop(chunk *cache.Chunk)
	// Offsets gives the log's offset index, for the search behind damage; empty when there is none.
	Offsets(ctx context.Context) (segment.OffsetIndex, error)
}

// Log describes the log of one segment.
type Log struct {
	ID         segment.UUID // of the segment
	Base, Last int64        // first and last offset, as the segment claims
	Size       int64        // bytes
	Chunk      int64        // bytes of a chunk
	Dense      bool         // known to have no gaps between offsets
	Offsets    segment.OffsetIndex
}

// Stats counts what a scanner did.
type Stats struct {
	Fallbacks            int64 // positions of the offset index that were wrong
	SteppedOver          int64 // times that damage was stepped over
	Healed, StillDamaged int64 // batches that were read from the store once more, by what came of it
	CRCBytes             int64 // of batches whose checksum was computed
}

// Purpose is what a batch's bytes are wanted for.
type Purpose uint8

const (
	ToPass   Purpose = iota // for nothing but their checksum
	ToSend                  // in pieces, as they lie
	ToDecode                // in one slice
)

// ErrAgain says that the scanner has moved, or will read the batch once more: Next gives where it goes on.
var ErrAgain = errors.New("the batch has to be asked for again")

// target is what lies before the first batch that is wanted. Damage there does no harm.
type target struct {
	offset   int64 // batches that end below it
	position int64 // batches that end at or below it
	time     int64 // records before it; MaxInt64: no search by time
}

// Scanner reads one log at a time. It is made ready with Reset. Not for concurrent use.
type Scanner struct {
	Memory Memory // decode memory, for batches that have to be joined and for their decoder
	Stats  Stats

	source Source
	logger *slog.Logger
	log    Log
	target target

	pos      int64 // of the next batch
	last     int64 // last offset of the batch before; -1 = none seen
	entry    int   // of the offset index, from which the scanner began; -1: the log's first byte
	locating bool  // no batch has confirmed that position yet
	fellBack bool  // it is an entry before the right one

	// The batch at pos.
	header  segment.Header
	parsed  bool // header is read
	follows bool // its offset goes on where the batch before ended
	body    body

	cur, next pin
	head      [segment.HeaderSize]byte // a header that straddles chunks; its first kept bytes outlive the chunk they are of
	kept      int
	keptAt    int64

	joined   []byte // a checked batch joined in decode memory, its capacity taken from Memory
	joinedAt int64  // the batch's position; -1 = it is not checked
	streamed streamed
	decoder  *segment.Decoder // keeps what it took from Memory until it is closed
	usual    *segment.Decoder // is decoder, but for a batch that needs a tighter one

	behindOffset behindOffset // of the batch at pos
	proven       int64        // position of the batch whose checksum was checked last, while it holds
	suspects     suspects
}

// Reset makes a scanner ready for another reader. Memory is set by the caller.
func (s *Scanner) Reset(source Source, logger *slog.Logger) {
	s.source, s.logger, s.Stats = source, logger, Stats{}
}

// Seek goes to the place in a log from which on every batch with offset or more is met. Batches that end below offset
// are given too.
func (s *Scanner) Seek(log Log, offset int64) {
	s.seek(log, target{offset: offset, time: math.MaxInt64})
}

// SeekTime is Seek for a search by time, whose answer is not below offset nor before timestamp.
func (s *Scanner) SeekTime(log Log, offset, timestamp int64) {
	s.seek(log, target{offset: offset, time: timestamp})
}

// SeekPosition goes to the nearest batch that the index knows at or before a position of the log.
func (s *Scanner) SeekPosition(log Log, pos int64) {
	s.seek(log, target{position: pos, offset: math.MaxInt64, time: math.MaxInt64})
}

func (s *Scanner) seek(log Log, to target) {
	s.log, s.target, s.fellBack = log, to, false
	s.entry = sort.Search(log.Offsets.Len(), func(i int) bool {
		offset, pos := log.Offsets.Entry(i)
		if s.byPosition() {
			return pos > to.position
		}
		return offset > to.offset
	}) - 1
	if to.offset <= log.Base {
		s.entry = -1
	}
	s.restart()
}

// byPosition says that the target is a position, not an offset.
func (s *Scanner) byPosition() bool { return s.target.offset == math.MaxInt64 }

// restart goes to the position of the entry.
func (s *Scanner) restart() {
	s.unpin()
	s.pos, s.last = 0, -1
	if s.entry >= 0 {
		_, s.pos = s.log.Offsets.Entry(s.entry)
	}
	s.locating = s.pos > 0
	s.proven, s.behindOffset.at, s.streamed = -1, -1, streamed{at: -1}
	s.suspects.clear()
}

// back goes to the position of the entry before, the second time to the log's first byte.
func (s *Scanner) back() {
	if s.entry--; s.fellBack {
		s.entry = -1
	}
	s.fellBack = true
	s.restart()
}

// Position is the log position of the next batch.
func (s *Scanner) Position() int64 { return s.pos }

// Confirmed says that a sound batch has shown that batches begin where the scanner reads.
func (s *Scanner) Confirmed() bool { return !s.locating }

// Follows says that the offset of the batch that Next gave goes on where the one before ended.
func (s *Scanner) Follows() bool { return s.follows }

// Below says that the batch that Next gave lies below the target.
func (s *Scanner) Below() bool { return s.below(&s.header) }

func (s *Scanner) below(h *segment.Header) bool {
	if s.byPosition() {
		return s.pos+h.Size() <= s.target.position
	}
	return h.LastOffset() < s.target.offset
}

// Next gives the header of the next batch, which is not checked yet; io.EOF behind the last one. It gives the same
// batch until Advance is called.
func (s *Scanner) Next(ctx context.Context) (*segment.Header, error) {
	for !s.parsed {
		if s.atEnd() {
			return nil, io.EOF
		}
		if err := s.parse(ctx); err != nil {
			if err = s.repair(ctx, err); err != ErrAgain {
				return nil, err
			}
		}
	}
	return &s.header, nil
}

// atEnd says that no batch follows. What follows on the segment's last offset is none: a preallocated log may have a
// tail of zeros.
func (s *Scanner) atEnd() bool { return s.pos >= s.log.Size || s.last == s.log.Last }

// parse reads the header of the batch at pos.
func (s *Scanner) parse(ctx context.Context) error {
	h, err := s.readHeader(ctx)
	if err != nil {
		return err
	}
	if e := s.contradicts(&h, s.last); e != nil {
		return e
	}
	if s.locating && h.BaseOffset > s.target.offset && (h.Magic >= 2 || h.Codec() == segment.None) {
		return s.doubtful("the offset index places offset %d at a batch of offsets %d to %d", s.target.offset, h.BaseOffset,
			h.LastOffset())
	}
	s.header, s.parsed, s.follows = h, true, s.continues(&h, s.last)
	return nil
}

// Check checks the batch that Next gave and makes its bytes available. ToDecode joins them in decode memory if need be.
// ToSend does so with a batch that spreads over more than two chunks, or when there is no memory to hold two, unless it
// is too large for that. Errors are ErrAgain, *Error, and those of the Source.
func (s *Scanner) Check(ctx context.Context, want Purpose) error {
	err := s.check(ctx, want)
	if err != nil && err != ErrAgain {
		return s.repair(ctx, err)
	}
	return err
}

// CheckHere is Check for a batch that InSameChunk has spoken of, ToSend or ToPass. It reads nothing. What it finds
// wrong shows again in Check.
func (s *Scanner) CheckHere() error { return s.check(context.Background(), ToSend) }

func (s *Scanner) check(ctx context.Context, want Purpose) error {
	b, err := s.batch(ctx, want)
	if err == nil && !s.follows {
		var proven bool
		if proven, err = s.neighbours(ctx); err == nil {
			if !proven && s.locating && !s.fellBack {
				// From one index entry earlier the batch before this one is read too, and shows whether this one's
				// offset follows on it.
				s.back()
				return ErrAgain
			}
			b, err = s.batch(ctx, want)
		}
	}
	if err != nil {
		return err
	}
	s.body, s.locating = b, false
	s.accept()
	return nil
}

// InSameChunk says that the next batch can be checked without another chunk than the one at hand.
func (s *Scanner) InSameChunk() bool {
	if s.atEnd() || !s.headerInside() || !s.parsed && s.parse(context.Background()) != nil {
		return false
	}
	end := s.pos + s.header.Size()
	return end <= s.cur.to && (s.follows || s.offsetInside(end))
}

// Advance goes behind the batch that Next gave.
func (s *Scanner) Advance() {
	s.pos += s.header.Size()
	s.last = s.header.LastOffset()
	s.parsed, s.joinedAt = false, -1
}

// Release lets go of chunks and of decode memory. The scanner stays where it is.
func (s *Scanner) Release() {
	s.unpin()
	s.CloseDecoder()
	s.Memory.trim()
}

// Close gives everything back.
func (s *Scanner) Close() {
	s.Release()
	s.source, s.logger, s.log = nil, nil, Log{}
	s.suspects.clear()
}
