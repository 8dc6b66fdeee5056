package scan

import (
	"context"
	"errors"

	"coldtap/cache"
	"coldtap/segment"
)

// pin is a chunk that a scanner holds, and the log positions it covers.
type pin struct {
	chunk    *cache.Chunk
	bytes    []byte
	from, to int64
}

func (p *pin) holds(pos int64) bool { return p.chunk != nil && p.from <= pos && pos < p.to }

// slice gives the log bytes [from, to), which must lie in the chunk.
func (p *pin) slice(from, to int64) []byte { return p.bytes[from-p.from : to-p.from] }

func (p *pin) release() {
	if p.chunk != nil {
		p.chunk.Release()
		*p = pin{}
	}
}

// unpin lets go of chunks and of a joined batch.
func (s *Scanner) unpin() {
	s.cur.release()
	s.next.release()
	s.dropJoined()
	s.kept, s.parsed = 0, false
}

// dropJoined frees the joined batch.
func (s *Scanner) dropJoined() {
	if s.joined != nil {
		s.Memory.Release(int64(cap(s.joined)))
		s.joined = nil
		s.joinedAt = -1
	}
}

// load gives the chunk that holds log position pos. With holding it fails with cache.ErrNoSlab instead of waiting for
// memory.
func (s *Scanner) load(ctx context.Context, pos int64, holding bool) (pin, error) {
	number := pos / s.log.Chunk
	chunk, err := s.source.Chunk(ctx, number, holding)
	from := number * s.log.Chunk
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == Lost {
		damage := s.failure(Damaged, e.Err, "no log bytes")
		damage.Position, damage.past = pos, from+s.log.Chunk
		return pin{}, damage
	} else if err != nil {
		return pin{}, err
	}
	got := pin{chunk: chunk, bytes: chunk.Bytes(), from: from, to: from + int64(len(chunk.Bytes()))}
	s.suspects.note(&got, s.pos)
	return got, nil
}

// hold makes cur the chunk of position pos, waiting for it with nothing else held.
func (s *Scanner) hold(ctx context.Context, pos int64) error {
	if s.cur.holds(pos) {
		return nil
	}
	s.cur.release()
	if s.next.holds(pos) {
		s.cur, s.next = s.next, pin{}
		return nil
	}
	s.next.release()
	var err error
	s.cur, err = s.load(ctx, pos, false)
	return err
}

// headerInside says that the next batch's header can be read without another chunk.
func (s *Scanner) headerInside() bool {
	return s.cur.holds(s.pos) && (s.pos+segment.HeaderSize <= s.cur.to || s.cur.to == s.log.Size)
}

// readHeader reads the header of the batch at pos. Errors of the bytes are *segment.Error.
func (s *Scanner) readHeader(ctx context.Context) (segment.Header, error) {
	limit := s.log.Size - s.pos
	s.proven = -1
	if err := s.hold(ctx, s.pos); err != nil {
		return segment.Header{}, err
	}
	if s.headerInside() {
		s.kept = 0
		return segment.ParseHeader(s.cur.slice(s.pos, s.cur.to), limit)
	}
	b := s.head[:min(segment.HeaderSize, limit)]
	n := copy(b, s.cur.slice(s.pos, s.cur.to))
	s.kept, s.keptAt = n, s.pos
	for n < len(b) {
		at := s.pos + int64(n)
		part, err := s.beside(ctx, at)
		if err != nil {
			return segment.Header{}, err
		}
		n += copy(b[n:], part.slice(at, part.to))
	}
	return segment.ParseHeader(b, limit)
}

// beside gives the chunk of position at beside the one in cur, or, when there is no memory for two, in its place: what
// head keeps is then all that is left of the first one.
func (s *Scanner) beside(ctx context.Context, at int64) (*pin, error) {
	if s.cur.holds(at) {
		return &s.cur, nil
	}
	if s.next.holds(at) {
		return &s.next, nil
	}
	s.next.release()
	if s.cur.holds(s.pos) {
		var err error
		if s.next, err = s.load(ctx, at, true); err == nil {
			return &s.next, nil
		} else if !errors.Is(err, cache.ErrNoSlab) {
			return nil, err
		}
	}
	return &s.cur, s.hold(ctx, at)
}
