package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/readerpool"
)

// hold acquires chunks and keeps them.
func hold(t *testing.T, c *Cache, st *store, segment, n int) []*Chunk {
	t.Helper()
	var held []*Chunk
	for i := range n {
		ch, _, err := c.Acquire(context.Background(), st.chunkOf(segment, i))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, ch)
	}
	return held
}

func release(held []*Chunk) {
	for _, ch := range held {
		ch.Release()
	}
}

// When readers hold every slab, loads wait in order of arrival, and each slab given back serves one.
func TestSlabsAreGivenInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 4)
		defer g.c.Close(context.Background())
		plain := &store{}
		held := hold(t, g.c, plain, 9, 4)
		var readers []*reader
		for n := range 4 {
			readers = append(readers, g.reader(g.chunkOf(1, n)))
		}
		if g.next() != nil {
			t.Fatal("a load began without a slab")
		}
		held[0].Release()
		for n, rd := range readers {
			l := g.next()
			if l == nil || int(l.key.Chunk) != n {
				t.Fatalf("reader %d's turn, but %+v loads", n, l)
			}
			if g.next() != nil {
				t.Fatal("one slab serves two loads")
			}
			// The reader lets go of its chunk at once, so its slab serves the next in line.
			l.verdict <- nil
			if !rd.ended() || rd.err != nil {
				t.Fatalf("reader %d: %v", n, rd.err)
			}
		}
		release(held[1:])
	})
}

func TestWaitingForASlabEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := open(t, 4), &store{}
		held := hold(t, c, st, 9, 4)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, _, err := c.Acquire(ctx, st.chunkOf(1, 0)); !errors.Is(err, ErrNoSlab) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at the deadline: %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("waited %v", d)
		}
		gone, leave := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, leave)
		if _, _, err := c.Acquire(gone, st.chunkOf(1, 0)); !errors.Is(err, ErrNoSlab) || !errors.Is(err, context.Canceled) {
			t.Errorf("a client that left: %v", err)
		}
		// Nobody waits any more, so nothing loads when slabs come back.
		release(held)
		synctest.Wait()
		if st.count() != 4 {
			t.Errorf("%d loads", st.count())
		}
		// A caller without a deadline waits as long as a flight lives.
		held = hold(t, c, st, 9, 4)
		if _, _, err := c.Acquire(context.Background(), st.chunkOf(1, 0)); !errors.Is(err, ErrNoSlab) {
			t.Errorf("without a deadline: %v", err)
		}
		release(held)
		c.Close(context.Background())
	})
}

func TestNoWaitAndReadAheadDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 4)
		defer g.c.Close(context.Background())
		st := &store{}
		held := hold(t, g.c, st, 9, 4)
		if _, _, err := g.c.AcquireNoWait(context.Background(), g.chunkOf(1, 0)); err != ErrNoSlab {
			t.Errorf("with every slab held: %v", err)
		}
		if g.c.Prefetch(context.Background(), g.chunkOf(1, 0)) {
			t.Error("read-ahead began with every slab held")
		}
		// Somebody waits for a slab for that key: joining would be waiting too.
		rd := g.reader(g.chunkOf(1, 0))
		if _, _, err := g.c.AcquireNoWait(context.Background(), g.chunkOf(1, 0)); err != ErrNoSlab {
			t.Errorf("with the flight waiting for a slab: %v", err)
		}
		held[0].Release()
		l := g.next()
		// Now the flight has its slab, and waiting for a load is fine.
		holder := g.start(g.chunkOf(1, 0), g.c.AcquireNoWait)
		if holder.ended() {
			t.Fatalf("%v", holder.err)
		}
		l.verdict <- nil
		if !rd.ended() || !holder.ended() || rd.err != nil || holder.err != nil {
			t.Errorf("%v, %v", rd.err, holder.err)
		}
		release(held[1:])
	})
}

// The reader that was first in line left: the one that waits with it takes over, with its own Source and lane.
func TestLeaderLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 4)
		defer g.c.Close(context.Background())
		held := hold(t, g.c, &store{}, 9, 4)
		bulk := g.chunkOf(1, 0)
		bulk.Lane = readerpool.Bulk
		leader, follower := g.reader(bulk), g.reader(g.chunkOf(1, 0))
		leader.leave()
		if !leader.ended() || !errors.Is(leader.err, ErrNoSlab) {
			t.Errorf("leader: %v", leader.err)
		}
		release(held)
		l := g.next()
		if l == nil || l.lane != readerpool.Interactive {
			t.Fatalf("load %+v", l)
		}
		l.verdict <- nil
		if !follower.ended() || follower.err != nil || follower.outcome.Level != Miss {
			t.Errorf("follower: %v %+v", follower.err, follower.outcome)
		}
	})
}

// Readers are asked to let go at once when they hold everything, and again every 100 ms as long as loads wait; not when
// loads in flight hold the slabs and come back.
func TestPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []time.Duration
		var held []*Chunk
		start := time.Now()
		running := false
		g := newGate(t, 4, func(cfg *Config) {
			cfg.Pressure = func() {
				if running {
					t.Error("two calls at a time")
				}
				running = true
				calls = append(calls, time.Since(start))
				if len(calls) == 3 {
					held[0].Release()
				}
				running = false
			}
		})
		defer g.c.Close(context.Background())
		st := &store{}
		held = hold(t, g.c, st, 9, 4)
		rd := g.reader(g.chunkOf(1, 0))
		time.Sleep(time.Second)
		synctest.Wait()
		if len(calls) != 3 || calls[0] != 0 || calls[1] != pressureInterval || calls[2] != 2*pressureInterval {
			t.Errorf("calls after %v", calls)
		}
		l := g.next()
		if l == nil {
			t.Fatal("the slab that pressure brought was not used")
		}
		calls, start = nil, time.Now()
		second := g.reader(g.chunkOf(1, 1))
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if len(calls) != 0 {
			t.Error("pressed though a load is in flight")
		}
		l.verdict <- nil
		if rd.ended(); rd.err != nil {
			t.Error(rd.err)
		}
		g.next().verdict <- nil
		if second.ended(); second.err != nil {
			t.Error(second.err)
		}
		if len(calls) != 0 {
			t.Errorf("pressed after %v", calls)
		}
		release(held[1:])
	})
}

// A load that hangs does not protect readers that stall.
func TestPressureBehindAHangingLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := newGate(t, 4, func(cfg *Config) { cfg.Pressure = func() { calls++ } })
		defer g.c.Close(context.Background())
		held := hold(t, g.c, &store{}, 9, 3)
		hanging := g.reader(g.chunkOf(1, 0))
		waiting := g.reader(g.chunkOf(1, 1))
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if calls != 2 {
			t.Errorf("%d calls in 250 ms without a slab", calls)
		}
		release(held)
		g.next().verdict <- nil
		g.next().verdict <- nil
		if !hanging.ended() || !waiting.ended() {
			t.Error("a reader waits on")
		}
	})
}

// Read-ahead spares what other read-ahead brought a moment ago, but chunks nobody came for don't hold their slabs for
// ever.
func TestUnreadChunksAreSparedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := open(t, 8), &store{}
		defer c.Close(context.Background())
		for n := range 4 {
			if !c.Prefetch(context.Background(), st.chunkOf(1, n)) {
				t.Fatalf("chunk %d refused", n)
			}
			synctest.Wait()
		}
		if c.Prefetch(context.Background(), st.chunkOf(1, 4)) {
			t.Error("unread chunks may fill more than half of the memory")
		}
		for n := range 20 {
			mustRead(t, c, st.chunkOf(2, n))
		}
		for n := range 4 {
			if !c.Contains(st.chunkOf(1, n).Key) {
				t.Errorf("unread chunk %d was pushed out by a scan", n)
			}
		}
		mustRead(t, c, st.chunkOf(1, 0))
		if !c.Prefetch(context.Background(), st.chunkOf(1, 4)) {
			t.Error("a chunk was read, but read-ahead is still refused")
		}
		synctest.Wait()
		time.Sleep(unreadGrace)
		for n := range 20 {
			mustRead(t, c, st.chunkOf(3, n))
		}
		if n := c.unread.Load(); n != 0 {
			t.Errorf("%d chunks that nobody came for hold their slabs", n)
		}
	})
}
