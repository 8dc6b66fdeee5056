package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/readerpool"
)

var errStore = errors.New("500 from the store")

// gate is a store whose loads wait until the test lets each go, in a synctest bubble.
type gate struct {
	store
	c        *Cache
	queueing bool // loads wait for a pool place first
	waiting  chan *gatedLoad
}

type gatedLoad struct {
	key     Key
	lane    readerpool.Lane
	ctx     context.Context
	begun   func()
	verdict chan error
}

func newGate(t *testing.T, slabs int, change ...func(*Config)) *gate {
	g := &gate{waiting: make(chan *gatedLoad, 1000)}
	g.c = open(t, slabs, change...)
	g.before = func(ctx context.Context, key Key, lane readerpool.Lane) error {
		l := &gatedLoad{key: key, lane: lane, ctx: ctx, begun: func() {}, verdict: make(chan error, 1)}
		if g.queueing {
			l.begun = Queued(ctx)
		}
		g.waiting <- l
		select {
		case err := <-l.verdict:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g
}

// next gives the load that came first and has not been taken yet; nil when nothing loads.
func (g *gate) next() *gatedLoad {
	synctest.Wait()
	select {
	case l := <-g.waiting:
		return l
	default:
		return nil
	}
}

// reader is one Acquire in a goroutine.
type reader struct {
	leave   context.CancelFunc
	outcome Outcome
	err     error
	done    chan struct{}
}

func (g *gate) reader(r Request) *reader { return g.start(r, g.c.Acquire) }

func (g *gate) start(r Request, acquire func(context.Context, Request) (*Chunk, Outcome, error)) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	rd := &reader{leave: cancel, done: make(chan struct{})}
	go func() {
		defer close(rd.done)
		defer cancel()
		var ch *Chunk
		ch, rd.outcome, rd.err = acquire(ctx, r)
		if rd.err == nil {
			rd.err = intact(ch)
			ch.Release()
		}
	}()
	synctest.Wait()
	return rd
}

func (rd *reader) ended() bool {
	synctest.Wait()
	select {
	case <-rd.done:
		return true
	default:
		return false
	}
}

// J7: however many ask for a cold chunk, the store is asked once.
func TestJ7HerdLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 8)
		defer g.c.Close(context.Background())
		var readers []*reader
		for range 300 {
			readers = append(readers, g.reader(g.chunkOf(1, 0)))
		}
		g.next().verdict <- nil
		missed := 0
		for _, rd := range readers {
			if !rd.ended() || rd.err != nil {
				t.Fatalf("a reader waits on, or failed: %v", rd.err)
			}
			if rd.outcome.Level == Miss {
				missed++
				if rd.outcome.Cost.Requests != 1 {
					t.Errorf("the leader's load: %+v", rd.outcome.Cost)
				}
			} else if rd.outcome != (Outcome{Level: Joined}) {
				t.Errorf("a follower's outcome: %+v", rd.outcome)
			}
		}
		if missed != 1 || g.count() != 1 {
			t.Errorf("%d leaders, %d loads", missed, g.count())
		}
		if p := g.c.pinned(); p != 0 {
			t.Errorf("%d bytes stay pinned", p)
		}
	})
}

// J1: an error is the answer to those who asked, not to those who ask later.
func TestJ1ErrorsAreNotKept(t *testing.T) {
	c, st := open(t, 8), &store{}
	fail := true
	st.before = func(context.Context, Key, readerpool.Lane) error {
		if fail {
			fail = false
			return errStore
		}
		return nil
	}
	if o, err := read(c, st.chunkOf(1, 0)); !errors.Is(err, errStore) || o.Cost.Requests != 1 {
		t.Fatalf("first read: %v %+v", err, o)
	}
	if n := c.SlabsInUse(); n != 0 {
		t.Errorf("the failed load keeps %d slabs", n)
	}
	mustRead(t, c, st.chunkOf(1, 0))
	if o := mustRead(t, c, st.chunkOf(1, 0)); o.Level != Mem {
		t.Errorf("third read: %+v", o)
	}
}

// J16: "not there" is not a fact to remember; a segment that appears is visible with the next read.
func TestJ16AbsenceIsNotKept(t *testing.T) {
	c, st := open(t, 8), &store{}
	errMissing := errors.New("404")
	var there atomic.Bool
	st.before = func(context.Context, Key, readerpool.Lane) error {
		if !there.Load() {
			return errMissing
		}
		return nil
	}
	for range 3 {
		if _, err := read(c, st.chunkOf(1, 0)); err != errMissing {
			t.Fatalf("the Source's error came as %v", err)
		}
	}
	there.Store(true)
	mustRead(t, c, st.chunkOf(1, 0))
}

// A failed load goes to the one who led it; one of the others tries again, and if that fails too nobody tries for the
// rest.
func TestFailurePromotesOneWaiterOnce(t *testing.T) {
	for _, second := range []error{nil, errStore} {
		t.Run(fmt.Sprint(second), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t, 8)
				defer g.c.Close(context.Background())
				r := g.chunkOf(1, 0)
				leader := g.reader(r)
				bulk := r
				bulk.Lane = readerpool.Bulk
				backfill, follower := g.reader(bulk), g.reader(r)
				g.next().verdict <- errStore
				if !leader.ended() || leader.err != errStore || leader.outcome.Level != Miss {
					t.Fatalf("leader: %v %+v", leader.err, leader.outcome)
				}
				if follower.ended() || backfill.ended() {
					t.Fatal("a waiter got the leader's error")
				}
				l := g.next()
				if l.lane != readerpool.Interactive {
					t.Errorf("the second attempt has lane %v though an interactive reader waits", l.lane)
				}
				l.verdict <- second
				if !follower.ended() || !backfill.ended() {
					t.Fatal("a waiter waits on")
				}
				if follower.err != second || backfill.err != second {
					t.Errorf("%v and %v", follower.err, backfill.err)
				}
				if follower.outcome.Level != Miss || backfill.outcome.Level != Joined || follower.outcome.Cost.Requests != 1 {
					t.Errorf("promoted %+v, other %+v", follower.outcome, backfill.outcome)
				}
				if g.next() != nil || g.count() != 2 {
					t.Errorf("%d loads", g.count())
				}
			})
		})
	}
}

func TestReadAheadThatFailsGivesItsReaderATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 8)
		defer g.c.Close(context.Background())
		if !g.c.Prefetch(context.Background(), g.chunkOf(1, 0)) {
			t.Fatal("no read-ahead into an empty cache")
		}
		rd := g.reader(g.chunkOf(1, 0))
		l := g.next()
		if l.lane != readerpool.Ahead {
			t.Errorf("read-ahead loads with lane %v", l.lane)
		}
		l.verdict <- errors.New("refused: lane full")
		if l = g.next(); l == nil || l.lane != readerpool.Interactive {
			t.Fatalf("no second attempt: %+v", l)
		}
		l.verdict <- nil
		if !rd.ended() || rd.err != nil || rd.outcome.Level != Miss {
			t.Errorf("%v %+v", rd.err, rd.outcome)
		}
	})
}

// A reader that leaves disturbs neither the load nor those who stay.
func TestLoadGoesOnWithoutItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 8)
		defer g.c.Close(context.Background())
		leader, follower := g.reader(g.chunkOf(1, 0)), g.reader(g.chunkOf(1, 0))
		l := g.next()
		leader.leave()
		if !leader.ended() || !errors.Is(leader.err, context.Canceled) {
			t.Fatalf("leader that left: %v", leader.err)
		}
		follower.leave()
		if !follower.ended() || l.ctx.Err() != nil {
			t.Fatal("a load that had begun was cancelled")
		}
		l.verdict <- nil
		synctest.Wait()
		if !g.c.Contains(g.chunkOf(1, 0).Key) {
			t.Error("the load did not fill the cache")
		}
	})
}

// A load that queues for a pool place is dropped when nobody wants it any more, and its slab comes back.
func TestQueuedLoadIsDroppedWithItsLastReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 8)
		defer g.c.Close(context.Background())
		g.queueing = true
		one, two := g.reader(g.chunkOf(1, 0)), g.reader(g.chunkOf(1, 0))
		l := g.next()
		one.leave()
		one.ended()
		if l.ctx.Err() != nil {
			t.Fatal("dropped though a reader waits")
		}
		two.leave()
		two.ended()
		synctest.Wait()
		if l.ctx.Err() == nil {
			t.Fatal("nobody wants it, and it still queues")
		}
		if n := g.c.SlabsInUse(); n != 0 {
			t.Errorf("%d slabs kept", n)
		}
		// Later readers start anew instead of joining what was dropped.
		three := g.reader(g.chunkOf(1, 0))
		l = g.next()
		l.begun()
		three.leave()
		three.ended()
		if l.ctx.Err() != nil {
			t.Fatal("dropped though it had its turn")
		}
		l.verdict <- nil
		synctest.Wait()
		if !g.c.Contains(g.chunkOf(1, 0).Key) {
			t.Error("the load did not fill the cache")
		}
	})
}

func TestReadAheadLivesAsLongAsSomebodyFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 8)
		defer g.c.Close(context.Background())
		g.queueing = true
		a, stopA := context.WithCancel(context.Background())
		b, stopB := context.WithCancel(context.Background())
		defer stopB()
		if !g.c.Prefetch(a, g.chunkOf(1, 0)) || !g.c.Prefetch(b, g.chunkOf(1, 0)) {
			t.Fatal("refused")
		}
		l := g.next()
		stopA()
		synctest.Wait()
		if l.ctx.Err() != nil {
			t.Fatal("dropped though another session follows")
		}
		rd := g.reader(g.chunkOf(1, 0))
		stopB()
		synctest.Wait()
		if l.ctx.Err() != nil {
			t.Fatal("dropped though a reader waits")
		}
		rd.leave()
		rd.ended()
		synctest.Wait()
		if l.ctx.Err() == nil || g.c.SlabsInUse() != 0 {
			t.Fatal("read-ahead that nobody follows still queues")
		}
		if g.c.Prefetch(a, g.chunkOf(1, 0)) {
			t.Error("read-ahead for a session that ended")
		}
	})
}

func TestDropKeepsFlightsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 8)
		defer g.c.Close(context.Background())
		rd := g.reader(g.chunkOf(1, 0))
		g.c.Prefetch(context.Background(), g.chunkOf(1, 1))
		l, ahead := g.next(), g.next()
		if l.key.Chunk != 0 {
			l, ahead = ahead, l
		}
		k := segmentKeyN(1)
		g.c.DropSegment(k.Segment)
		if l.ctx.Err() != nil {
			t.Error("the load of a waiting reader was cancelled")
		}
		if ahead.ctx.Err() == nil {
			t.Error("read-ahead of a dropped segment goes on")
		}
		// The segment is asked for again before the old load ends: that is another flight.
		late := g.reader(g.chunkOf(1, 0))
		l.verdict <- nil
		if !rd.ended() || rd.err != nil {
			t.Errorf("the waiting reader got %v", rd.err)
		}
		if g.c.Contains(g.chunkOf(1, 0).Key) {
			t.Error("a flight of a dropped segment entered the cache")
		}
		g.next().verdict <- nil
		if !late.ended() || late.err != nil {
			t.Errorf("the later reader got %v", late.err)
		}
	})
}

func TestPanicInSourceIsAnError(t *testing.T) {
	c, st := open(t, 8), &store{}
	st.before = func(context.Context, Key, readerpool.Lane) error { panic("index out of range") }
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_, err := read(c, st.chunkOf(1, 0))
			var e *Error
			if !errors.As(err, &e) || e.Kind != Panicked || len(e.Stack) == 0 {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	st.before = nil
	mustRead(t, c, st.chunkOf(1, 0))
}

func TestLoadHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 8, func(cfg *Config) { cfg.FlightTimeout = 5 * time.Second })
		defer g.c.Close(context.Background())
		rd := g.reader(g.chunkOf(1, 0))
		start := time.Now()
		<-rd.done
		var e *Error
		if !errors.As(rd.err, &e) || e.Kind != TimedOut || !e.Retriable() || !errors.Is(rd.err, context.DeadlineExceeded) {
			t.Errorf("got %v", rd.err)
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("after %v", d)
		}
	})
}

func TestCloseEndsFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 4)
		rd := g.reader(g.chunkOf(1, 0))
		g.next()
		if err := g.c.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if !rd.ended() || !errors.Is(rd.err, ErrClosed) {
			t.Errorf("got %v", rd.err)
		}
		if err := g.c.Close(context.Background()); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

// A Source that does not listen to its context delays the end, not the caller of Close, and may still write into its
// slab.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := open(t, 4), &store{}
		let := make(chan struct{})
		st.before = func(context.Context, Key, readerpool.Lane) error { <-let; return nil }
		p := c.Ask(st.chunkOf(1, 0), false)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("close: %v", err)
		}
		if c.SlabsInUse() != 1 {
			t.Error("a slab that is written to was given back")
		}
		close(let)
		ch, _, err := p.Wait(context.Background())
		if err != nil || intact(ch) != nil {
			t.Fatalf("%v", err)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		ch.Release()
	})
}
