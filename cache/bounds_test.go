package cache

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What is refused is named with the bound that it breaks; the smallest that works does.
func TestBoundsOfTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Memory: 1, Chunk: math.MaxInt32}, "fewer than 4 chunks"},
		{Config{Memory: 1, Chunk: math.MaxInt32 + 1}, "not within 1 and 2147483647"},
		{Config{Memory: math.MaxInt32 + 1, Chunk: 1}, "more than 2147483647 chunks"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
	c, err := New(Config{Memory: 4, Chunk: 1})
	if err != nil {
		t.Fatal(err)
	}
	closeEmpty(t, c)
	if c.arena.mem.mem != nil {
		t.Error("the memory was not given back")
	}
}

func TestErrorsTellTheirKindAndCause(t *testing.T) {
	cause := errors.New("the client left")
	noSlab, closed := &Error{Kind: NoSlab, Err: cause}, &Error{Kind: Closed, Err: cause}
	for _, c := range []struct {
		err, target error
		want        bool
	}{
		{noSlab, ErrNoSlab, true}, {noSlab, ErrClosed, false}, {closed, ErrClosed, true}, {closed, ErrNoSlab, false},
		{&Error{Kind: TimedOut}, ErrNoSlab, false}, {&Error{Kind: TimedOut}, ErrClosed, false}, {noSlab, cause, true},
	} {
		if got := errors.Is(c.err, c.target); got != c.want {
			t.Errorf("%v is %v: %t", c.err, c.target, got)
		}
	}
	if !strings.HasSuffix(noSlab.Error(), ": the client left") || strings.HasSuffix(ErrNoSlab.Error(), ": ") {
		t.Errorf("%q, %q", noSlab, ErrNoSlab)
	}
}

// Chunks of just a sixteenth of a slab share one.
func TestSixteenSmallChunksShareASlab(t *testing.T) {
	c, st := open(t, 4), &store{}
	for n := range parts {
		r := st.chunkOf(n, 0)
		r.Len = testChunk / parts
		mustRead(t, c, r)
	}
	if n := c.SlabsInUse(); n != 1 {
		t.Errorf("%d slabs in use", n)
	}
}

// A chunk that is being evicted, and is in the index for a moment more, is not there for anybody; one that is loaded
// meanwhile takes its place.
func TestChunkThatIsBeingEvictedIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := open(t, 8), &store{}
		defer c.Close(context.Background())
		r := st.chunkOf(1, 0)
		mustRead(t, c, r)
		old, _ := c.TryAcquire(r.Key)
		old.Release()
		old.refs.Store(0)
		if c.Contains(r.Key) {
			t.Error("it is said to be in memory")
		}
		c.Prefetch(context.Background(), r)
		synctest.Wait()
		if st.count() != 2 || !c.Contains(r.Key) {
			t.Errorf("%d loads; in memory: %t", st.count(), c.Contains(r.Key))
		}
		old.refs.Store(1)
	})
}

// A window that is just full keeps what it has; nothing is counted twice or left over when chunks go.
func TestListsCountTheirChunks(t *testing.T) {
	c, st := open(t, 8), &store{}
	for n := range 4 {
		mustRead(t, c, st.chunkOf(1, n))
	}
	if c.window.n != 4 || c.frequent.n != 0 {
		t.Errorf("%d chunks in the window of 4, %d behind it", c.window.n, c.frequent.n)
	}
	for n := range 100 {
		mustRead(t, c, st.chunkOf(2, n))
	}
	c.DropSegment(segmentKeyN(1).Segment)
	c.DropSegment(segmentKeyN(2).Segment)
	if c.window.n != 0 || c.frequent.n != 0 || c.window.bytes != 0 || c.frequent.bytes != 0 {
		t.Errorf("dropped, but %d and %d chunks, %d and %d bytes are listed", c.window.n, c.frequent.n, c.window.bytes, c.frequent.bytes)
	}
}

// forgets notes which chunks the frequency policy is made to forget.
type forgets struct {
	frequency
	hashes map[uint64]int
}

func (f *forgets) forget(hash uint64) {
	f.hashes[hash]++
	f.frequency.forget(hash)
}

// The frequency policy forgets what it was given when that is dropped, or its bound would shrink; what is in the window
// it does not know.
func TestDropIsToldToTheFrequencyPolicy(t *testing.T) {
	for _, whole := range []bool{true, false} {
		c, st := open(t, 8), &store{}
		f := &forgets{c.frequency, map[uint64]int{}}
		c.frequency = f
		var chunks []*Chunk
		for n := range 8 {
			mustRead(t, c, st.chunkOf(1, n))
			c.frequency.waitDecided()
		}
		given := map[uint64]int{}
		for n := range 8 {
			if ch, ok := c.TryAcquire(st.chunkOf(1, n).Key); ok {
				if chunks = append(chunks, ch); ch.residency == inFrequent {
					given[ch.hash]++
				}
			}
		}
		if len(given) == 0 || len(given) == len(chunks) {
			t.Fatalf("%d of %d chunks are the policy's", len(given), len(chunks))
		}
		if whole {
			c.DropSegment(segmentKeyN(1).Segment)
		}
		for _, ch := range chunks {
			if !whole {
				c.Drop(ch)
			}
			ch.Release()
		}
		for _, ch := range chunks {
			if f.hashes[ch.hash] != given[ch.hash] {
				t.Errorf("chunk %v was forgotten %d times, want %d", ch.key, f.hashes[ch.hash], given[ch.hash])
			}
		}
	}
}

// Read-ahead does not push out what other read-ahead brought; a reader that holds a chunk may, without waiting.
func TestReadersComeBeforeUnreadChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := open(t, 8), &store{}
		defer c.Close(context.Background())
		held := hold(t, c, st, 9, 5)
		for n := range 3 {
			if !c.Prefetch(context.Background(), st.chunkOf(1, n)) {
				t.Fatalf("read-ahead %d was refused", n)
			}
			synctest.Wait()
		}
		if c.Prefetch(context.Background(), st.chunkOf(1, 3)) {
			t.Error("read-ahead took the slab of unread read-ahead")
		}
		ch, _, err := c.AcquireNoWait(context.Background(), st.chunkOf(2, 0))
		if err != nil {
			t.Fatalf("with unread chunks in memory: %v", err)
		}
		release(append(held, ch))
	})
}

// Failed loads are counted as such, and are no lack of memory; loads that nobody wants any more are neither.
func TestFailuresAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 8)
		g.queueing = true
		defer g.c.Close(context.Background())
		rd := g.reader(g.chunkOf(1, 0))
		if n := g.c.pinned(); n != 0 {
			t.Errorf("%d bytes are pinned while a chunk loads", n)
		}
		g.next().verdict <- errors.New("the store is broken")
		if !rd.ended() || rd.err == nil {
			t.Fatal("the failure did not reach its reader")
		}
		if n := testutil.ToFloat64(g.c.metrics.loadErrors); n != 1 {
			t.Errorf("%v loads failed, want 1", n)
		}
		rd = g.reader(g.chunkOf(1, 1))
		rd.leave()
		rd.ended()
		if n := testutil.ToFloat64(g.c.metrics.loadErrors); n != 1 {
			t.Errorf("%v loads failed, want 1", n)
		}
		if n := testutil.ToFloat64(g.c.metrics.noSlab); n != 0 {
			t.Errorf("%v requests were refused for want of memory", n)
		}
	})
}

// The reader that asked first could not wait for a slab: the load is the next one's, with what it costs.
func TestLoadOfARefusedReaderIsTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := open(t, 4), &store{}
		defer c.Close(context.Background())
		held := hold(t, c, st, 9, 4)
		r := st.chunkOf(1, 0)
		first := &waiter{request: r, holding: true, result: make(chan result, 1)}
		second := &waiter{request: r, joined: true, result: make(chan result, 1)}
		s := c.shard(c.hash(r.Key))
		s.mu.Lock()
		f := c.newFlightLocked(s, r.Key, c.hash(r.Key))
		f.joinLocked(first)
		f.leader = first
		f.joinLocked(second)
		s.mu.Unlock()
		f.start(r)
		if res := <-first.result; res.err != ErrNoSlab {
			t.Errorf("the one that holds a chunk got %v", res.err)
		}
		release(held)
		res := <-second.result
		if res.err != nil || res.outcome.Level != Miss || res.outcome.Cost.Requests != 1 {
			t.Errorf("%+v, %v", res.outcome, res.err)
		}
		res.chunk.Release()
	})
}
