package scan

import (
	"context"
	"errors"
	"hash/maphash"

	"coldtap/cache"
	"coldtap/segment"
)

// body is where the bytes of a checked batch lie: in one slice, or in two when the batch straddles two chunks, or
// nowhere yet.
type body struct {
	first, second []byte
	chunk         bool // first lies in cur (and second in next), else in joined
	pieces        bool // Piece gives them, chunk by chunk
}

// streamed is a batch whose checksum was computed chunk by chunk.
type streamed struct {
	at, end int64    // log positions; at -1 = none
	sums    []uint64 // of its part of each chunk; none when it was only to be passed over
}

// seed makes the sums by which bytes that are loaded again are compared with those that were checked.
var seed = maphash.MakeSeed()

// batch makes the bytes of the batch at pos available and checks them.
func (s *Scanner) batch(ctx context.Context, want Purpose) (body, error) {
	return s.batchOf(ctx, &s.header, want)
}

func (s *Scanner) batchOf(ctx context.Context, h *segment.Header, want Purpose) (body, error) {
	s.proven = -1
	b, err := s.gather(ctx, h, want)
	if err == nil {
		s.proven = s.pos
	}
	return b, err
}

func (s *Scanner) gather(ctx context.Context, h *segment.Header, want Purpose) (body, error) {
	end := s.pos + h.Size()
	if s.joined != nil && s.joinedAt == s.pos && int64(len(s.joined)) == h.Size() {
		return body{first: s.joined}, nil
	}
	if s.streamed.at == s.pos && (want == ToPass || want == ToSend && s.streamed.sums != nil) {
		return body{pieces: true}, nil
	}
	if s.cur.holds(s.pos) && end <= s.cur.to {
		b := body{first: s.cur.slice(s.pos, end), chunk: true}
		from, to := int(s.pos-s.cur.from), int(end-s.cur.from)
		if s.cur.chunk.Verified(from, to) {
			return b, nil
		}
		if err := s.verify(h, b.first); err != nil {
			return body{}, err
		}
		s.cur.chunk.MarkVerified(from, to)
		return b, nil
	}
	if want != ToDecode && s.cur.holds(s.pos) && end-s.cur.to <= s.log.Chunk {
		b, err := s.pair(ctx, h, end)
		if !errors.Is(err, cache.ErrNoSlab) {
			return b, err
		}
	}
	if want == ToPass || want == ToSend && !s.joinable(h) {
		return body{pieces: true}, s.stream(ctx, h, want == ToSend)
	}
	if err := s.join(ctx, h); err != nil {
		return body{}, err
	}
	if err := s.verify(h, s.joined); err != nil {
		return body{}, err
	}
	s.joinedAt = s.pos
	return body{first: s.joined}, nil
}

// pair checks a batch across two chunks, both held.
func (s *Scanner) pair(ctx context.Context, h *segment.Header, end int64) (body, error) {
	if !s.next.holds(s.cur.to) {
		s.next.release()
		var err error
		if s.next, err = s.load(ctx, s.cur.to, true); err != nil {
			return body{}, err
		}
	}
	b := body{first: s.cur.slice(s.pos, s.cur.to), second: s.next.slice(s.next.from, end), chunk: true}
	from, to := int(s.pos-s.cur.from), int(end-s.next.from)
	if s.cur.chunk.Verified(from, len(s.cur.bytes)) && s.next.chunk.Verified(0, to) {
		return b, nil
	}
	if err := s.verify(h, b.first, b.second); err != nil {
		return body{}, err
	}
	s.cur.chunk.MarkVerified(from, len(s.cur.bytes))
	s.next.chunk.MarkVerified(0, to)
	return b, nil
}

func (s *Scanner) verify(h *segment.Header, pieces ...[]byte) error {
	s.Stats.CRCBytes += h.Size()
	return segment.VerifyCRC(h, pieces...)
}

// Joinable says that the bytes of the batch that Next gave can be had in one slice.
func (s *Scanner) Joinable() bool { return s.joinable(&s.header) }

func (s *Scanner) joinable(h *segment.Header) bool {
	return h.Size() <= s.Memory.From.Size()/2 || s.cur.holds(s.pos) && s.pos+h.Size() <= s.cur.to
}

// join puts the bytes of the batch at pos into joined, unchecked, chunk by chunk, each let go before the next is waited
// for.
func (s *Scanner) join(ctx context.Context, h *segment.Header) error {
	size := h.Size()
	if !s.joinable(h) {
		all := s.Memory.From.Size()
		return s.failure(TooLarge, nil, "the batch at offset %d is too large to be decoded here: it has %d bytes over several chunks, "+
			"and may have %d (half of limits.decode_memory, %d bytes)", h.BaseOffset, size, all/2, all)
	}
	s.joinedAt = -1
	if int64(cap(s.joined)) < size {
		s.dropJoined()
		if err := s.reserve(ctx, size); err != nil {
			return err
		}
		s.joined = make([]byte, 0, size)
	}
	s.joined = s.joined[:0]
	return s.each(ctx, size, func(p []byte) { s.joined = append(s.joined, p...) })
}

// unchecked gives the bytes of the batch at pos in one slice, whatever they are.
func (s *Scanner) unchecked(ctx context.Context, h *segment.Header) ([]byte, error) {
	if end := s.pos + h.Size(); s.cur.holds(s.pos) && end <= s.cur.to {
		return s.cur.slice(s.pos, end), nil
	}
	err := s.join(ctx, h)
	return s.joined, err
}

// each gives the bytes of the batch at pos, which has size of them, chunk by chunk.
func (s *Scanner) each(ctx context.Context, size int64, f func(p []byte)) error {
	at, end := s.pos, s.pos+size
	if s.kept > 0 && s.keptAt == s.pos && !s.cur.holds(s.pos) {
		n := min(int64(s.kept), size)
		f(s.head[:n])
		at += n
	}
	for at < end {
		if err := s.hold(ctx, at); err != nil {
			return err
		}
		to := min(end, s.cur.to)
		f(s.cur.slice(at, to))
		at = to
	}
	return nil
}

// stream checks a batch chunk by chunk. When it is to be sent, the chunks are loaded again for that, and what they hold
// is compared with what was checked.
func (s *Scanner) stream(ctx context.Context, h *segment.Header, send bool) error {
	s.dropJoined()
	r := &s.streamed
	r.at, r.sums = -1, nil
	sum := segment.NewChecksum(h)
	err := s.each(ctx, h.Size(), func(p []byte) {
		sum.Add(p)
		if send {
			r.sums = append(r.sums, maphash.Bytes(seed, p))
		}
	})
	if err != nil {
		return err
	}
	s.Stats.CRCBytes += h.Size()
	if err := sum.Verify(); err != nil {
		return err
	}
	r.at, r.end = s.pos, s.pos+h.Size()
	return nil
}

// Piece is bytes of the log that lie in one place. Chunk is held for the caller, or Reserved bytes of the decode memory
// (Memory.Share) are the caller's from then on.
type Piece struct {
	Bytes    []byte
	Chunk    *cache.Chunk
	Reserved int64
}

// Piece gives the log's bytes from position at on, as far as they lie in one chunk, or to the batch's end if it was
// joined. The position lies within the checked batch, of which other bytes than those checked are not given, or behind
// the last batch of the log. Errors are those of Check when the batch's first bytes are asked for; else what was said
// of the batch before stands, and they are final.
func (s *Scanner) Piece(ctx context.Context, at int64) (Piece, error) {
	if s.joined != nil && s.joinedAt == s.pos {
		p := Piece{Bytes: s.joined[at-s.pos:], Reserved: int64(cap(s.joined))}
		s.Memory.handOver(p.Reserved)
		s.joined = nil
		return p, nil
	}
	err := s.piece(ctx, at)
	if err != nil && at == s.pos && !s.atEnd() {
		err = s.repair(ctx, err)
	}
	if err != nil {
		return Piece{}, err
	}
	s.cur.chunk.Retain()
	return Piece{Bytes: s.cur.slice(at, s.cur.to), Chunk: s.cur.chunk}, nil
}

func (s *Scanner) piece(ctx context.Context, at int64) error {
	for again := false; ; again = true {
		if err := s.hold(ctx, at); err != nil {
			return err
		}
		r := &s.streamed
		if !s.body.pieces || at < r.at || at >= r.end {
			return nil
		}
		sum := maphash.Bytes(seed, s.cur.slice(max(r.at, s.cur.from), min(r.end, s.cur.to)))
		if sum == r.sums[at/s.log.Chunk-r.at/s.log.Chunk] {
			return nil
		}
		other := s.cur.chunk
		s.unpin()
		s.source.Drop(other)
		if again {
			e := s.failure(Changed, nil, "the store gives other bytes of a batch than before")
			e.Position = at
			return e
		}
	}
}
