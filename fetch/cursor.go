package fetch

import (
	"context"
	"errors"
	"math"

	"coldtap/cache"
	"coldtap/readahead"
	"coldtap/segment"
	"coldtap/tier"
)

// errGone: the segment that is being read is no longer readable in the newest snapshot.
var errGone = errors.New("the segment is no longer readable")

// pin is a chunk that a cursor holds, and the log positions it covers.
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

// cursor is a reader's place in the log of one segment. It cuts batches out of chunks and checks their checksums. It
// holds one chunk, and a second one only for a batch that straddles two, or while it looks at the header behind one.
type cursor struct {
	svc     *Service
	wait    *waiter
	session readahead.Session
	started bool // session has been started
	seq     sequence

	seg   *tier.Segment
	dense bool           // seg's log is known to have no gaps (segment.Files.Dense)
	snap  *tier.Snapshot // in which seg was last seen to be readable
	pos   int64          // of the next batch

	cur, next pin
	head      [segment.HeaderSize]byte // a header that straddles chunks; its first kept bytes outlive the chunk they are of
	kept      int
	keptAt    int64

	memory    grant
	assembled []byte // a checked batch joined in decode memory, its capacity taken from memory
	joined    int64  // the batch's position; -1 = it is not checked
	streamed  streamed
	decoder   *segment.Decoder // keeps what it took from memory until Close
	usual     *segment.Decoder // is decoder, but for a batch that needs a tighter one

	crcBytes int64
	proven   int64        // position of the batch whose checksum was checked last, while it holds
	far      segment.UUID // segment in which the furthest position was loaded
	farPos   int64
	recent   []recent // chunks that the batch at pos may lie in, and the header behind it
	rereads  []reread // chunks of seg that were in doubt
	glanced  glance   // at the header behind the batch at pos

	// Damage is believed at the second sight.
	doubted   int64 // position of the batch that was to be read once more, -1 = none
	undecided bool  // what came of it
	damaged   int64 // position of the batch behind which it looks, MaxInt64 = none
}

// enter moves to position pos of a segment's log. Read-ahead that already reached it goes on.
func (c *cursor) enter(seg *tier.Segment, snap *tier.Snapshot, pos, until int64) error {
	c.unpin()
	c.seg, c.snap, c.pos = seg, snap, pos
	c.proven, c.doubted, c.undecided, c.glanced.at, c.streamed, c.damaged = -1, -1, false, -1, streamed{at: -1}, math.MaxInt64
	clear(c.recent)
	c.recent, c.rereads = c.recent[:0], c.rereads[:0]
	if c.seq.enter(seg, pos, until) {
		return nil
	}
	c.endSession()
	c.seq.clear()
	c.seq.pos = pos
	return c.seq.append(seg, pos, until)
}

// unpin lets go of chunks and of an assembled batch.
func (c *cursor) unpin() {
	c.cur.release()
	c.next.release()
	c.drop()
	c.kept = 0
}

// drop frees the assembled batch.
func (c *cursor) drop() {
	if c.assembled != nil {
		c.memory.Release(int64(cap(c.assembled)))
		c.assembled = nil
		c.joined = -1
	}
}

func (c *cursor) endSession() {
	if c.started {
		c.session.Close()
		c.started = false
	}
}

func (c *cursor) close() {
	c.unpin()
	c.memory.trim()
	c.endSession()
	c.seq.clear()
	c.seg, c.dense, c.snap = nil, false, nil
	c.far, c.farPos = segment.UUID{}, 0
	c.crcBytes = 0
	clear(c.recent)
	c.recent = c.recent[:0]
}

// load gives the chunk that holds log position pos. With holding it fails with cache.ErrNoSlab instead of waiting for
// memory. Every load looks whether the segment may still be read: DELETE_SEGMENT_STARTED stops reads at once.
func (c *cursor) load(ctx context.Context, pos int64, holding bool) (pin, error) {
	if snap := c.svc.cfg.Source.Snapshot(); snap != c.snap {
		if p, ok := snap.Partition(c.seq.partition); !ok || !p.Readable(c.seg.ID) {
			return pin{}, errGone
		}
		c.snap = snap
	}
	if !c.started {
		c.svc.cfg.Ahead.Start(&c.session, &c.seq)
		c.started = true
	}
	s := &c.seq.spans[0]
	n := s.n + int(pos/s.chunk-s.first)
	c.seq.pos, c.seq.demand = c.pos, n // what the answer may still take counts from the batch, not from its other half
	p := c.wait.begin(ctx)
	chunk, outcome, err := c.session.Chunk(p, n, holding)
	if holding && errors.Is(err, cache.ErrNoSlab) {
		c.wait.end(p, &c.wait.stats.Store, nil)
		return pin{}, cache.ErrNoSlab
	}
	from := pos - pos%s.chunk
	if err := c.wait.end(p, &c.wait.stats.Store, err); err != nil {
		err = c.at(err, pos)
		if e, ok := errors.AsType[*Error](err); ok && e.Kind == Damaged {
			e.past = from + s.chunk
		}
		return pin{}, err
	}
	c.wait.stats.count(outcome)
	if c.seg.ID != c.far || pos > c.farPos {
		c.far, c.farPos = c.seg.ID, pos
		c.wait.progressed()
	}
	got := pin{chunk: chunk, bytes: chunk.Bytes(), from: from, to: from + int64(len(chunk.Bytes()))}
	if got.to != min(from+s.chunk, c.seg.Size) {
		got.release()
		return pin{}, c.at(failure(Internal, nil, "chunk of %d bytes", len(got.bytes)), pos)
	}
	c.note(&got)
	return got, nil
}

// at completes an error with the place it concerns. A loader's error may be shared by many readers, hence the copy.
func (c *cursor) at(err error, pos int64) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	here := *e // it may be shared
	if here.Segment.IsZero() {
		here.Segment = c.seg.ID
	}
	if here.Segment == c.seg.ID && here.Position < 0 {
		here.Position = pos
	}
	return &here
}

func (s *Stats) count(o cache.Outcome) {
	switch o.Level {
	case cache.Mem:
		s.ChunksMem++
	case cache.Miss:
		s.ChunksMissed++
	case cache.Joined:
		s.ChunksJoined++
	}
	s.StoreRequests += o.Cost.Requests
	s.StoreBytes += o.Cost.Bytes
}

// hold makes cur the chunk of position pos, waiting for it with nothing else held.
func (c *cursor) hold(ctx context.Context, pos int64) error {
	if c.cur.holds(pos) {
		return nil
	}
	c.cur.release()
	if c.next.holds(pos) {
		c.cur, c.next = c.next, pin{}
		return nil
	}
	c.next.release()
	var err error
	c.cur, err = c.load(ctx, pos, false)
	return err
}

// headerInside says that the next batch's header can be read without another chunk.
func (c *cursor) headerInside() bool {
	return c.cur.holds(c.pos) && (c.pos+segment.HeaderSize <= c.cur.to || c.cur.to == c.seg.Size)
}

// header reads the header of the batch at pos. Errors of the bytes are *segment.Error.
func (c *cursor) header(ctx context.Context) (segment.Header, error) {
	limit := c.seg.Size - c.pos
	c.proven = -1
	if err := c.hold(ctx, c.pos); err != nil {
		return segment.Header{}, err
	}
	if c.headerInside() {
		c.kept = 0
		return segment.ParseHeader(c.cur.slice(c.pos, c.cur.to), limit)
	}
	b := c.head[:min(segment.HeaderSize, limit)]
	n := copy(b, c.cur.slice(c.pos, c.cur.to))
	c.kept, c.keptAt = n, c.pos
	for n < len(b) {
		at := c.pos + int64(n)
		part, err := c.beside(ctx, at)
		if err != nil {
			return segment.Header{}, err
		}
		n += copy(b[n:], part.slice(at, part.to))
	}
	return segment.ParseHeader(b, limit)
}

// beside gives the chunk of position at beside the one in cur, or, when there is no memory for two, in its place: what
// head keeps is then all that is left of the first one.
func (c *cursor) beside(ctx context.Context, at int64) (*pin, error) {
	if c.cur.holds(at) {
		return &c.cur, nil
	}
	if c.next.holds(at) {
		return &c.next, nil
	}
	c.next.release()
	if c.cur.holds(c.pos) {
		var err error
		if c.next, err = c.load(ctx, at, true); err == nil {
			return &c.next, nil
		} else if !errors.Is(err, cache.ErrNoSlab) {
			return nil, err
		}
	}
	return &c.cur, c.hold(ctx, at)
}
