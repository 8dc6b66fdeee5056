package readahead

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/cache"
	"coldtap/internal/invariants"
	"coldtap/internal/readcost"
	"coldtap/readerpool"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	chunkLen   = 1024
	perSegment = 10
)

// history is a topic's log: segments of ten chunks, the last chunk of each shorter. Every chunk starts with its number.
type history struct {
	mu       sync.Mutex
	loads    map[int]int
	queueing bool
	waiting  chan *load // when set, each load waits there
	delay    time.Duration
}

type load struct {
	n       int
	lane    readerpool.Lane
	ctx     context.Context
	begun   func()
	verdict chan error
}

type segmentLog struct {
	h       *history
	topic   byte
	segment int
}

func (s segmentLog) LoadChunk(ctx context.Context, off int64, dst []byte, lane readerpool.Lane) (readcost.Cost, error) {
	n := s.segment*perSegment + int(off/chunkLen)
	s.h.mu.Lock()
	if s.h.loads == nil {
		s.h.loads = map[int]int{}
	}
	s.h.loads[int(s.topic)<<20|n]++
	s.h.mu.Unlock()
	time.Sleep(s.h.delay)
	if s.h.waiting != nil {
		l := &load{n: n, lane: lane, ctx: ctx, begun: func() {}, verdict: make(chan error, 1)}
		if s.h.queueing {
			l.begun = cache.Queued(ctx)
		}
		s.h.waiting <- l
		select {
		case err := <-l.verdict:
			if err != nil {
				return readcost.Cost{}, err
			}
		case <-ctx.Done():
			return readcost.Cost{}, ctx.Err()
		}
	}
	clear(dst)
	binary.LittleEndian.PutUint32(dst, uint32(n))
	return readcost.Cost{Requests: 1, Bytes: int64(len(dst))}, nil
}

func (h *history) total() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := 0
	for _, n := range h.loads {
		sum += n
	}
	return sum
}

// run is chunks [first, end) of a topic's log.
type run struct {
	h          *history
	topic      byte
	first, end int
}

const segmentSize = (perSegment-1)*chunkLen + chunkLen/2

// spans lists the run, from the segment of chunk n on.
func (r run) spans(n int) (list []Span) {
	for seg := (r.first + n) / perSegment; seg*perSegment < r.end; seg++ {
		s := Span{Log: cache.Request{Source: segmentLog{r.h, r.topic, seg}}, Size: segmentSize, Chunk: chunkLen, Last: int64(min(perSegment, r.end-seg*perSegment)) - 1}
		if seg == r.first/perSegment {
			s.First = int64(r.first % perSegment)
		}
		s.Log.Key.Segment.Partition.Topic[0] = r.topic
		binary.LittleEndian.PutUint32(s.Log.Key.Segment.ID[:], uint32(seg))
		list = Append(list, s)
	}
	return list
}

// key names the chunk n steps behind the first.
func (r run) key(n int) cache.Key {
	return r.spans(n)[0].request(int64((r.first + n) % perSegment)).Key
}

// follower is a session along a run, whose list it shortens as it goes on.
type follower struct {
	Session
	run
	list []Span
	read int // segments that are read
}

func (f *follower) start(r *Readahead, x run) {
	r.Start(&f.Session)
	f.run, f.list, f.read = x, x.spans(0), x.first/perSegment
}

// chunk asks for the chunk n steps behind the first. When the reader goes back, the list begins anew.
func (f *follower) chunk(ctx context.Context, n int) (*cache.Chunk, cache.Outcome, error) {
	seg := (f.first + n) / perSegment
	if seg < f.read {
		f.list, f.read = f.spans(0), f.first/perSegment
	}
	for ; f.read < seg && len(f.list) > 1; f.read++ {
		f.list = f.list[1:]
	}
	number := int64(f.first + n - f.read*perSegment)
	return f.Chunk(ctx, f.list, number, 1<<40, false)
}

func open(t *testing.T, slabs int) *cache.Cache {
	t.Helper()
	c, err := cache.New(cache.Config{Memory: int64(slabs) * chunkLen, Chunk: chunkLen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n := c.SlabsInUse(); n != 0 {
			t.Errorf("%d slabs in use after Close", n)
		}
	})
	return c
}

// step reads chunk n of a session that started at first.
func step(s *follower, first, n int) (cache.Outcome, error) {
	ch, outcome, err := s.chunk(context.Background(), n)
	if err != nil {
		return outcome, err
	}
	defer ch.Release()
	if got := int(binary.LittleEndian.Uint32(ch.Bytes())); got != first+n {
		return outcome, fmt.Errorf("asked for chunk %d, got %d", first+n, got)
	}
	return outcome, nil
}

// urgencies collects the loads that have begun, by chunk.
func (h *history) urgencies() map[int]*load {
	synctest.Wait()
	begun := map[int]*load{}
	for {
		select {
		case l := <-h.waiting:
			begun[l.n] = l
		default:
			return begun
		}
	}
}

func newGated() *history { return &history{waiting: make(chan *load, 100)} }

func TestWindowLoadsBesideTheChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := open(t, 16), newGated()
		defer c.Close(context.Background())
		r := New(c, Config{})
		var s follower
		s.start(r, run{h, 1, 8, 100})
		defer s.Close()
		done := make(chan error)
		go func() { _, err := step(&s, 8, 0); done <- err }()
		// Chunks 8 and 9 end a segment; 10 begins the next.
		begun := h.urgencies()
		if len(begun) != 3 || begun[8] == nil || begun[9] == nil || begun[10] == nil {
			t.Fatalf("in flight: %v", begun)
		}
		if begun[8].lane != readerpool.Interactive || begun[9].lane != readerpool.Ahead || begun[10].lane != readerpool.Ahead {
			t.Error("wrong urgencies")
		}
		for _, l := range begun {
			l.verdict <- nil
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		// A hit moves the window on.
		if o, err := step(&s, 8, 1); err != nil || o.Level != cache.Mem {
			t.Fatalf("%+v %v", o, err)
		}
		begun = h.urgencies()
		if len(begun) != 1 || begun[11] == nil {
			t.Fatalf("in flight: %v", begun)
		}
		begun[11].verdict <- nil
	})
}

func TestReadAheadEndsWithTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := open(t, 16), &history{}
		defer c.Close(context.Background())
		var s follower
		s.start(New(c, Config{Window: 5}), run{h, 1, 7, 10})
		defer s.Close()
		for n := range 3 {
			if _, err := step(&s, 7, n); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if h.total() != 3 {
			t.Errorf("%d loads of a list of 3", h.total())
		}
		if _, err := step(&s, 7, 3); !errors.Is(err, ErrEnd) {
			t.Errorf("beyond the end: %v", err)
		}
	})
}

// The room that the reader gives bounds read-ahead by bytes, across segments, and so does a span that ends before its
// log does.
func TestReadAheadEndsWithTheRoom(t *testing.T) {
	for _, tt := range []struct {
		first, end int
		room       int64
		last       int // chunk that is read ahead
	}{
		{5, 100, 1, 5}, {5, 100, chunkLen, 5}, {5, 100, chunkLen + 1, 6}, {5, 100, 2*chunkLen + 1, 7}, {5, 100, 1 << 40, 9},
		{8, 100, chunkLen + chunkLen/2, 9}, {8, 100, chunkLen + chunkLen/2 + 1, 10}, {8, 100, 2*chunkLen + chunkLen/2 + 1, 11},
		{5, 7, 1 << 40, 6}, {8, 11, 1 << 40, 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, h := open(t, 16), &history{}
			defer c.Close(context.Background())
			var s follower
			s.start(New(c, Config{Window: 4}), run{h, 1, tt.first, tt.end})
			defer s.Close()
			ch, _, err := s.Chunk(context.Background(), s.list, int64(tt.first), tt.room, false)
			if err != nil {
				t.Fatal(err)
			}
			ch.Release()
			synctest.Wait()
			if n := h.total(); n != tt.last-tt.first+1 {
				t.Errorf("%+v: %d loads", tt, n)
			}
		})
	}
}

// A scan of ten times the memory loads each chunk once: the figure the object store's bill depends on.
func TestScanLoadsEachChunkOnce(t *testing.T) {
	for _, window := range []int{-1, 1, 2, 4} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			c, h := open(t, 16), &history{}
			var s follower
			s.start(New(c, Config{Window: window}), run{h, 1, 0, 160})
			defer s.Close()
			for n := range 160 {
				if _, err := step(&s, 0, n); err != nil {
					t.Fatal(err)
				}
			}
			if h.total() != 160 {
				t.Errorf("%d loads of 160 chunks", h.total())
			}
		})
	}
}

// Sessions that read different things in a memory that holds little more than their windows don't push out each other's
// read-ahead.
func TestSessionsShareASmallMemory(t *testing.T) {
	for _, sessions := range []int{4, 8, 12} {
		t.Run(fmt.Sprint(sessions), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, h := open(t, 16), &history{delay: 10 * time.Millisecond}
				defer c.Close(context.Background())
				r := New(c, Config{})
				var wg sync.WaitGroup
				for n := range sessions {
					wg.Go(func() {
						var s follower
						s.start(r, run{h, byte(n), 0, 100})
						defer s.Close()
						for i := range 100 {
							if _, err := step(&s, 0, i); err != nil {
								t.Error(err)
							}
							time.Sleep(time.Duration(n+1) * time.Millisecond)
						}
					})
				}
				wg.Wait()
				if total, chunks := h.total(), sessions*100; float64(total) > 1.02*float64(chunks) {
					t.Errorf("%d loads of %d chunks", total, chunks)
				}
			})
		})
	}
}

func TestHundredReadersLoadEachChunkOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := open(t, 64), &history{delay: 10 * time.Millisecond}
		defer c.Close(context.Background())
		r := New(c, Config{})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				var s follower
				s.start(r, run{h, 1, 0, 200})
				defer s.Close()
				for n := range 200 {
					if _, err := step(&s, 0, n); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if h.total() != 200 {
			t.Errorf("%d loads of 200 chunks by 100 readers", h.total())
		}
	})
}

func TestCloseDropsWhatQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := open(t, 16), newGated()
		defer c.Close(context.Background())
		h.queueing = true
		r := New(c, Config{})
		var s follower
		s.start(r, run{h, 1, 0, 100})
		done := make(chan error)
		go func() { _, err := step(&s, 0, 0); done <- err }()
		loads := h.urgencies()
		loads[0].begun()
		loads[0].verdict <- nil
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		loads[1].begun()
		s.Close()
		synctest.Wait()
		if loads[1].ctx.Err() != nil {
			t.Error("read-ahead that the store had begun was thrown away")
		}
		if loads[2].ctx.Err() == nil {
			t.Error("read-ahead of a closed session still queues")
		}
		loads[1].verdict <- nil
		s.Close()
		// The session serves the next reader.
		h.queueing = false
		s.start(r, run{h, 2, 50, 51})
		go func() { _, err := step(&s, 50, 0); done <- err }()
		h.urgencies()[50].verdict <- nil
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Close()
	})
}

func TestHoldingDoesNotWait(t *testing.T) {
	c, h := open(t, 4), &history{}
	var s follower
	s.start(New(c, Config{Window: -1}), run{h, 1, 0, 100})
	defer s.Close()
	var held []*cache.Chunk
	for n := range 4 {
		ch, _, err := s.Chunk(context.Background(), s.list, int64(n), 1<<40, len(held) > 0)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, ch)
	}
	if _, _, err := s.Chunk(context.Background(), s.list, 4, 1<<40, true); !errors.Is(err, cache.ErrNoSlab) {
		t.Errorf("with the memory full of held chunks: %v", err)
	}
	for _, ch := range held {
		ch.Release()
	}
	if _, err := step(&s, 0, 4); err != nil {
		t.Error(err)
	}
}

// Jumps, in both directions, cost read-ahead, not correctness, and the window follows.
func TestJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := open(t, 64), &history{}
		defer c.Close(context.Background())
		var s follower
		s.start(New(c, Config{}), run{h, 1, 0, 100})
		defer s.Close()
		for _, n := range []int{0, 50, 20, 21, 90} {
			if _, err := step(&s, 0, n); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for i := n + 1; i <= n+2; i++ {
				if !c.Contains(s.key(i)) {
					t.Errorf("after chunk %d, chunk %d is not there", n, i)
				}
			}
		}
	})
}

// Read-ahead that the store refused is not tried again for the same chunk: a store in trouble is asked when the reader
// comes to it.
func TestFailedReadAheadIsNotRepeatedAtTheSameChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := open(t, 16), newGated()
		defer c.Close(context.Background())
		var s follower
		s.start(New(c, Config{}), run{h, 1, 0, 100})
		defer s.Close()
		done := make(chan error)
		go func() { _, err := step(&s, 0, 0); done <- err }()
		loads := h.urgencies()
		loads[0].verdict <- nil
		loads[1].verdict <- errors.New("the store is in trouble")
		loads[2].verdict <- errors.New("the store is in trouble")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := step(&s, 0, 0); err != nil {
			t.Fatal(err)
		}
		if again := h.urgencies(); len(again) != 0 {
			t.Errorf("asked for again: %v", again)
		}
	})
}

// A chunk that could not be read ahead belongs to the reader that asks for it: when that gives up waiting for memory,
// the store is not asked.
func TestReaderThatGivesUpLeavesNoReadAheadBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := open(t, 4), &history{}
		defer c.Close(context.Background())
		var s follower
		s.start(New(c, Config{Window: 1}), run{h, 1, 0, 100})
		defer s.Close()
		var held []*cache.Chunk
		for n := range 4 {
			ch, _, err := s.Chunk(context.Background(), s.list, int64(n), 1<<40, n > 0)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, ch)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { _, _, err := s.Chunk(ctx, s.list, 4, 1<<40, false); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("waiting for memory until canceled: %v", err)
		}
		for _, ch := range held {
			ch.Release()
		}
		synctest.Wait()
		if h.total() != 4 {
			t.Errorf("%d loads; 4 chunks were read", h.total())
		}
	})
}

// asked notes the chunks that are asked for, and their lengths.
type asked struct {
	mu     sync.Mutex
	chunks map[int64]int // by position
}

func (a *asked) LoadChunk(_ context.Context, off int64, dst []byte, _ readerpool.Lane) (readcost.Cost, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.chunks[off] = len(dst)
	return readcost.Cost{}, nil
}

// A reader that begins inside a log has its last chunk, which is shorter, and the next log's first ones read ahead.
func TestReadAheadFromInsideALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, 16)
		defer c.Close(context.Background())
		var list []Span
		var logs [3]asked
		for n, first := range []int64{2, 0, 0} {
			logs[n].chunks = map[int64]int{}
			log := cache.Request{Source: &logs[n]}
			log.Key.Segment.ID[0] = byte(n)
			list = Append(list, Span{Log: log, Size: 4*chunkLen + chunkLen/2, Chunk: chunkLen, First: first, Last: 4})
		}
		var s Session
		New(c, Config{Window: 4}).Start(&s)
		defer s.Close()
		ch, _, err := s.Chunk(context.Background(), list, 2, 1<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		ch.Release()
		synctest.Wait()
		for n, want := range []map[int64]int{
			{2 * chunkLen: chunkLen, 3 * chunkLen: chunkLen, 4 * chunkLen: chunkLen / 2}, {0: chunkLen, chunkLen: chunkLen}, {},
		} {
			if !maps.Equal(logs[n].chunks, want) {
				t.Errorf("of log %d were asked for: %v, want %v", n, logs[n].chunks, want)
			}
		}
		// A log of whole chunks has one less.
		whole := Span{Log: list[0].Log, Size: 4 * chunkLen, Chunk: chunkLen, Last: 3}
		if _, _, err := s.Chunk(context.Background(), Append(nil, whole), 4, 1<<20, false); !whole.Whole() || !errors.Is(err, ErrEnd) {
			t.Errorf("chunks 0 to 3 of 4 are whole: %t; chunk 4: %v", whole.Whole(), err)
		}
		for first := range int64(5) {
			for last := first; last < 5; last++ {
				if p := (Span{Size: list[0].Size, Chunk: chunkLen, First: first, Last: last}); p.Whole() != (last == 4) {
					t.Errorf("chunks %d to %d of 5 are whole: %t", first, last, p.Whole())
				}
			}
		}
	})
}

func TestHitsAllocateNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("with the race detector sync.Pool forgets at random, and ristretto counts look-ups in one")
	}
	c, h := open(t, 64), &history{}
	r := New(c, Config{})
	x := run{h, 1, 0, 20}
	list := x.spans(0)
	var s follower
	s.start(r, x)
	for n := range 20 {
		if _, err := step(&s, 0, n); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		r.Start(&s.Session)
		s.list, s.read = list, 0
		for n := range 20 {
			ch, _, err := s.chunk(ctx, n)
			if err != nil {
				t.Fatal(err)
			}
			ch.Release()
		}
		s.Close()
	}); n > 1 { // ristretto starts a new buffer every 64 look-ups
		t.Errorf("%v allocations for 20 chunks in memory", n)
	}
}
