// Package readahead keeps the next chunks of a reader in flight while it reads the current one.
//
// A Session follows one reader along its Sequence: consecutive chunks, across the borders of segments, and no further
// than the reader may read. The chunk asked for is requested first, then the window behind it, then the session waits;
// so the window loads beside the chunk, and a hit keeps it going too. The reader holds its current chunk, so that
// what it reads in small steps is looked up once.
//
// Read-ahead never waits for memory and is never worth more than what somebody reads: the cache refuses it when no slab
// can be spared, and what still queues for the store when the session closes is dropped. A chunk that could not be read
// ahead is simply loaded when the reader comes to it.
//
// Not here: detection of sequential access (every reader of this project declares its range), windows that grow, and
// anything about where chunks come from.
package readahead

import (
	"context"
	"errors"

	"coldtap/cache"
)

// defaultWindow hides the store's first byte behind two chunks: with 4 MiB chunks, 30 ms to the first byte and 80 MiB/s
// a connection, a chunk takes 80 ms, so three connections bring one every 27 ms.
const defaultWindow = 2

// ErrEnd says that a chunk beyond the end of the sequence was asked for.
var ErrEnd = errors.New("no such chunk in the sequence")

// Sequence is a run of consecutive chunks, across segments: what a reader will want, in order, and no further than it
// may read.
type Sequence interface {
	// At describes the chunk n steps after the first; false beyond the end. Called with rising n mostly; must be cheap.
	At(n int) (cache.Request, bool)
}

// Config sizes read-ahead.
type Config struct {
	Window int // chunks ahead of the current one; 0 means 2, a negative value none
}

// Readahead starts sessions. It may be used concurrently.
type Readahead struct {
	cache  *cache.Cache
	window int
}

// New makes a Readahead that loads through c.
func New(c *cache.Cache, cfg Config) *Readahead {
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	return &Readahead{cache: c, window: max(cfg.Window, 0)}
}

// Session follows one reader. Not for concurrent use. The zero value is ready after Start; one Session can serve
// reader after reader, which saves allocating it.
type Session struct {
	readahead *Readahead
	sequence  Sequence
	// ahead is the first chunk that has not been asked for.
	ahead int
	// follow keeps this session's read-ahead alive. It is made with the first chunk read ahead, so that a reader whose
	// chunks are all in memory allocates nothing.
	follow context.Context
	stop   context.CancelFunc
}

// Start begins with the first chunk of a sequence. A session that is still open is closed.
func (r *Readahead) Start(s *Session, seq Sequence) {
	s.Close()
	s.readahead, s.sequence = r, seq
}

// Chunk gives chunk n, held for the caller, who releases it, and keeps the window behind it in flight. ctx bounds the
// waiting. holding says that the caller holds another chunk: then it does not wait for a slab but fails with
// cache.ErrNoSlab, since two readers that each hold what the other waits for would wait for ever. ErrEnd beyond the
// sequence; other errors are the cache's.
func (s *Session) Chunk(ctx context.Context, n int, holding bool) (*cache.Chunk, cache.Outcome, error) {
	r, ok := s.sequence.At(n)
	if !ok {
		return nil, cache.Outcome{}, ErrEnd
	}
	pending := s.readahead.cache.Ask(r, holding)
	s.extend(n)
	return pending.Wait(ctx)
}

// extend asks for the chunks behind n that have not been asked for.
func (s *Session) extend(n int) {
	last := n + s.readahead.window
	if s.ahead <= n || s.ahead > last+1 { // the reader went on by more than the window, or back
		s.ahead = n + 1
	}
	for ; s.ahead <= last; s.ahead++ {
		r, ok := s.sequence.At(s.ahead)
		if !ok {
			return
		}
		if s.readahead.cache.Contains(r.Key) {
			continue
		}
		if s.follow == nil {
			s.follow, s.stop = context.WithCancel(context.Background())
		}
		if !s.readahead.cache.Prefetch(s.follow, r) {
			return // no memory to spare now; the next chunk tries again
		}
	}
}

// Close drops read-ahead that still queues. What the store has begun to send fills the cache. A closed or zero session
// may be closed again.
func (s *Session) Close() {
	if s.stop != nil {
		s.stop()
	}
	*s = Session{}
}
