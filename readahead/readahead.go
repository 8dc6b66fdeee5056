// Package readahead keeps the next chunks of a reader in flight while it reads the current one.
//
// A reader has a list of Spans: the chunks that it can come to need, across the borders of segments, and no further
// than it may read. A Session follows it along the list. The chunk asked for is requested first, then the window behind
// it, then the session waits; so the window loads beside the chunk, and a hit keeps it going too. The reader holds its
// current chunk, so that what it reads in small steps is looked up once.
//
// Read-ahead never waits for memory and is never worth more than what is read: the cache refuses it when no slab can be
// spared, and what still queues for the store when the session closes is dropped. A chunk that could not be read ahead
// is simply loaded when the reader comes to it.
//
// Not here: detection of sequential access (every reader of this project declares its range), windows that grow, what a
// reader may come to need, and anything about where chunks come from.
package readahead

import (
	"cmp"
	"context"
	"errors"

	"coldtap/cache"
)

// defaultWindow hides the store's first byte behind two chunks: with 4 MiB chunks, 30 ms to the first byte and 80 MiB/s
// a connection, a chunk takes 80 ms, so three connections bring one every 27 ms.
const defaultWindow = 2

// ErrEnd says that a chunk beyond the end of the log was asked for.
var ErrEnd = errors.New("no such chunk in the log")

// Span is what a reader can need of one segment's log: consecutive chunks.
type Span struct {
	Log         cache.Request // of its chunks: segment, source and lane
	Size        int64         // bytes of the log
	Chunk       int64         // bytes of a chunk
	First, Last int64         // numbers of chunks, within the log

	step int // place of the span's first chunk in the list
}

// Append adds the span behind those of a list.
func Append(list []Span, s Span) []Span {
	s.step = 0
	if n := len(list); n > 0 {
		s.step = list[n-1].step + int(list[n-1].count())
	}
	return append(list, s)
}

// count is how many chunks there are from the first one to the log's end.
func (s *Span) count() int64 { return (s.Size+s.Chunk-1)/s.Chunk - s.First }

// Whole says that the span goes on to the log's end.
func (s *Span) Whole() bool { return s.Last-s.First+1 >= s.count() }

func (s *Span) request(number int64) cache.Request {
	r := s.Log
	r.Key.Chunk, r.Off = int32(number), number*s.Chunk
	r.Len = int(min(s.Chunk, s.Size-r.Off))
	return r
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
	return &Readahead{cache: c, window: max(cmp.Or(cfg.Window, defaultWindow), 0)}
}

// Window is how many chunks behind the current one are kept in flight.
func (r *Readahead) Window() int { return r.window }

// Session follows one reader along one list. Not for concurrent use. The zero value is ready after Start; one Session
// can serve reader after reader, which saves allocating it.
type Session struct {
	readahead *Readahead
	// ahead is the step of the first chunk that has not been asked for.
	ahead int
	// follow keeps this session's read-ahead alive. It is made with the first chunk read ahead, so that a reader whose
	// chunks are all in memory allocates nothing.
	follow context.Context
	stop   context.CancelFunc
}

// Start begins with a list. A session that is still open is closed.
func (r *Readahead) Start(s *Session) {
	s.Close()
	s.readahead = r
}

// Chunk gives a chunk of the first span's log, by its number, held for the caller, who releases it, and keeps the
// window behind it in flight, as far as the list goes and chunks begin less than room bytes behind this one. Between
// calls, spans that have been read may be taken off the list, and further ones appended.
//
// ctx bounds the waiting. holding says that the caller holds another chunk: then it does not wait for a slab but fails
// with cache.ErrNoSlab, since two readers that each hold what the other waits for would wait for ever. ErrEnd beyond
// the log; other errors are the cache's.
func (s *Session) Chunk(ctx context.Context, list []Span, number, room int64, holding bool) (*cache.Chunk, cache.Outcome, error) {
	if number*list[0].Chunk >= list[0].Size {
		return nil, cache.Outcome{}, ErrEnd
	}
	pending := s.readahead.cache.Ask(list[0].request(number), holding)
	s.extend(list, number, room)
	return pending.Wait(ctx)
}

// extend asks for the chunks behind one that have not been asked for.
func (s *Session) extend(list []Span, number, room int64) {
	n := list[0].step + int(number-list[0].First)
	last := n + s.readahead.window
	if s.ahead <= n || s.ahead > last+1 { // the reader went on by more than the window, or back
		s.ahead = n + 1
	}
	p, distance := &list[0], -number*list[0].Chunk // from the chunk to the span's log
	for ; s.ahead <= last; s.ahead++ {
		for s.ahead >= p.step+int(p.count()) {
			if len(list) == 1 {
				return
			}
			distance += p.Size
			list = list[1:]
			p = &list[0]
		}
		number := p.First + int64(s.ahead-p.step)
		if number > p.Last || distance+number*p.Chunk >= room {
			return
		}
		r := p.request(number)
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
