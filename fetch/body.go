package fetch

import (
	"context"
	"errors"
	"hash/maphash"

	"coldtap/cache"
	"coldtap/segment"
)

// purpose is what a batch's bytes are wanted for.
type purpose uint8

const (
	toPass   purpose = iota // for nothing but their checksum
	toSend                  // in pieces, as they lie
	toDecode                // in one slice
)

// body is where the bytes of a checked batch lie: in one slice, or in two when the batch straddles two chunks, or
// nowhere yet.
type body struct {
	first, second []byte
	chunk         bool // first lies in cur (and second in next), else in assembled
	pieces        bool // cursor.piece gives them, chunk by chunk
}

// streamed is a batch whose checksum was computed chunk by chunk.
type streamed struct {
	at, end int64    // log positions; at -1 = none
	sums    []uint64 // of its part of each chunk; none when it was only to be passed over
}

// seed makes the sums by which bytes that are loaded again are compared with those that were checked.
var seed = maphash.MakeSeed()

// batch makes the bytes of the batch at pos, whose header is h, available and checks them. toDecode joins them in
// decode memory if need be. toSend does so with a batch that spreads over more than two chunks, or when there is no
// memory to hold two, unless it is too large for that.
func (c *cursor) batch(ctx context.Context, h *segment.Header, want purpose) (body, error) {
	c.proven = -1
	b, err := c.gather(ctx, h, want)
	if err == nil {
		c.proven = c.pos
	}
	return b, err
}

func (c *cursor) gather(ctx context.Context, h *segment.Header, want purpose) (body, error) {
	end := c.pos + h.Size()
	if c.assembled != nil && c.joined == c.pos && int64(len(c.assembled)) == h.Size() {
		return body{first: c.assembled}, nil
	}
	if s := &c.streamed; s.at == c.pos && (want == toPass || want == toSend && s.sums != nil) {
		return body{pieces: true}, nil
	}
	if c.cur.holds(c.pos) && end <= c.cur.to {
		b := body{first: c.cur.slice(c.pos, end), chunk: true}
		from, to := int(c.pos-c.cur.from), int(end-c.cur.from)
		if c.cur.chunk.Verified(from, to) {
			return b, nil
		}
		if err := c.check(h, b.first); err != nil {
			return body{}, err
		}
		c.cur.chunk.MarkVerified(from, to)
		return b, nil
	}
	if want != toDecode && c.cur.holds(c.pos) && end-c.cur.to <= c.seq.spans[0].chunk {
		b, err := c.pair(ctx, h, end)
		if !errors.Is(err, cache.ErrNoSlab) {
			return b, err
		}
	}
	if want == toPass || want == toSend && !c.joinable(h) {
		return body{pieces: true}, c.stream(ctx, h, want == toSend)
	}
	if err := c.join(ctx, h); err != nil {
		return body{}, err
	}
	if err := c.check(h, c.assembled); err != nil {
		return body{}, err
	}
	c.joined = c.pos
	return body{first: c.assembled}, nil
}

// pair checks a batch across two chunks, both held.
func (c *cursor) pair(ctx context.Context, h *segment.Header, end int64) (body, error) {
	if !c.next.holds(c.cur.to) {
		c.next.release()
		var err error
		if c.next, err = c.load(ctx, c.cur.to, true); err != nil {
			return body{}, err
		}
	}
	b := body{first: c.cur.slice(c.pos, c.cur.to), second: c.next.slice(c.next.from, end), chunk: true}
	from, to := int(c.pos-c.cur.from), int(end-c.next.from)
	if c.cur.chunk.Verified(from, len(c.cur.bytes)) && c.next.chunk.Verified(0, to) {
		return b, nil
	}
	if err := c.check(h, b.first, b.second); err != nil {
		return body{}, err
	}
	c.cur.chunk.MarkVerified(from, len(c.cur.bytes))
	c.next.chunk.MarkVerified(0, to)
	return b, nil
}

// joinable says that the batch's bytes can be had in one slice.
func (c *cursor) joinable(h *segment.Header) bool {
	return h.Size() <= c.memory.from.Size()/2 || c.cur.holds(c.pos) && c.pos+h.Size() <= c.cur.to
}

// join puts the bytes of the batch at pos into assembled, unchecked, chunk by chunk, each let go before the next is
// waited for.
func (c *cursor) join(ctx context.Context, h *segment.Header) error {
	size := h.Size()
	if !c.joinable(h) {
		return c.at(failure(TooLarge, nil,
			"the batch at offset %d is too large to be decoded here: it has %d bytes over several chunks, and may have %d (half of limits.decode_memory, %d bytes); application/vnd.kafka.recordbatch gives it undecoded",
			h.BaseOffset, size, c.memory.from.Size()/2, c.memory.from.Size()), c.pos)
	}
	c.joined = -1
	if int64(cap(c.assembled)) < size {
		c.drop()
		if err := c.reserve(ctx, size); err != nil {
			return err
		}
		c.assembled = make([]byte, 0, size)
	}
	c.assembled = c.assembled[:0]
	return c.each(ctx, size, func(p []byte) { c.assembled = append(c.assembled, p...) })
}

// unchecked gives the bytes of the batch at pos in one slice, whatever they are.
func (c *cursor) unchecked(ctx context.Context, h *segment.Header) ([]byte, error) {
	if end := c.pos + h.Size(); c.cur.holds(c.pos) && end <= c.cur.to {
		return c.cur.slice(c.pos, end), nil
	}
	err := c.join(ctx, h)
	return c.assembled, err
}

// each gives the bytes of the batch at pos, which has size of them, chunk by chunk.
func (c *cursor) each(ctx context.Context, size int64, f func(p []byte)) error {
	at, end := c.pos, c.pos+size
	if c.kept > 0 && c.keptAt == c.pos && !c.cur.holds(c.pos) {
		n := min(int64(c.kept), size)
		f(c.head[:n])
		at += n
	}
	for at < end {
		if err := c.hold(ctx, at); err != nil {
			return err
		}
		to := min(end, c.cur.to)
		f(c.cur.slice(at, to))
		at = to
	}
	return nil
}

// stream checks a batch chunk by chunk. When it is to be sent, the chunks are loaded again for that, and what they hold
// is compared with what was checked.
func (c *cursor) stream(ctx context.Context, h *segment.Header, send bool) error {
	c.drop()
	s := &c.streamed
	s.at, s.sums = -1, nil
	sum := segment.NewChecksum(h)
	err := c.each(ctx, h.Size(), func(p []byte) {
		sum.Add(p)
		if send {
			s.sums = append(s.sums, maphash.Bytes(seed, p))
		}
	})
	if err != nil {
		return err
	}
	c.crcBytes += h.Size()
	if err := sum.Verify(); err != nil {
		return err
	}
	s.at, s.end = c.pos, c.pos+h.Size()
	return nil
}

// piece makes cur the chunk of log position at, within the body that batch gave last, and gives the position up to
// which the body lies in that chunk.
func (c *cursor) piece(ctx context.Context, b *body, at, end int64) (to int64, err error) {
	for tries := 0; ; tries++ {
		if err := c.hold(ctx, at); err != nil {
			return 0, err
		}
		to := min(end, c.cur.to)
		s := &c.streamed
		if !b.pieces {
			return to, nil
		}
		chunk := c.seq.spans[0].chunk
		if maphash.Bytes(seed, c.cur.slice(max(s.at, c.cur.from), min(s.end, c.cur.to))) == s.sums[at/chunk-s.at/chunk] {
			return to, nil
		}
		other := c.cur.chunk
		c.unpin()
		c.svc.cfg.Chunks.Drop(other)
		if tries > 0 {
			return 0, c.at(failure(Unreachable, nil, "the store gives other bytes of a batch than before"), at)
		}
	}
}

func (c *cursor) check(h *segment.Header, pieces ...[]byte) error {
	c.crcBytes += h.Size()
	return segment.VerifyCRC(h, pieces...)
}
