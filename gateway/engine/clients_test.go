package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"coldtap/internal/budget"

	"github.com/valyala/fasthttp"
)

// Very many connections above the bound at a time all get the answer.
func TestManyConnectionsAboveTheBound(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Connections = 1 })
	first, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for h.connected() == 0 {
	}
	var conns []net.Conn
	for range 3 * maxTurnedAway {
		conn, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
			t.Errorf("%.100q, %v", answer, err)
		}
	}
}

// TestPressureCutsHoldersOfTheWantedShare: where one share is full, clients that hold memory of another one are not
// cut, however long they have stalled.
func TestPressureCutsHoldersOfTheWantedShare(t *testing.T) {
	decode := budget.NewWithReserve(8<<20, 1<<20)
	h := newHarness(t, func(c *Config) { c.Decode = decode })
	h.stalledHolding(t, 4, decode.Buffers())
	h.stalledHolding(t, 2, decode.General())
	general, buffers, batches := Memory(decode.General().Set()), Memory(decode.Buffers().Set()), Memory(decode.Batches().Set())
	for _, step := range []struct {
		wanted Memory
		cut    bool
		left   int
	}{
		{Chunks, false, 6},
		{batches, false, 6},
		{general, true, 5},
		{batches | general, true, 4}, // two this time, and one is left
		{general, false, 4},
		{buffers | general, true, 0}, // four
		{buffers, false, 0},
	} {
		if cut := h.Relieve(step.wanted); cut != step.cut || h.stalled() != step.left {
			t.Errorf("%x wanted: cut %v, %d left, want %v and %d", step.wanted, cut, h.stalled(), step.cut, step.left)
		}
	}
	for range 6 {
		if x := <-h.ended; x.CutReason() != "pressure" || x.closed != 1 {
			t.Errorf("%q, closed %d times", x.CutReason(), x.closed)
		}
	}
}

// TestPressureOnChunksAndOnDecodeMemoryAreCountedApart: what was cut for the one makes no difference for the other.
func TestPressureOnChunksAndOnDecodeMemoryAreCountedApart(t *testing.T) {
	decode := budget.NewWithReserve(8<<20, 1<<20)
	h := newHarness(t, func(c *Config) { c.Decode = decode })
	h.stalledHolding(t, 8, decode.General())
	h.clients.mu.Lock()
	chunks := true
	for x := range h.clients.exchanges {
		if chunks = !chunks; chunks {
			x.holds.Store(uint32(Chunks))
		}
	}
	h.clients.mu.Unlock()
	for _, left := range []int{7, 5, 4} { // 1, 2, and the last one that holds chunks
		if h.Relieve(Chunks); h.stalled() != left {
			t.Errorf("%d left, want %d", h.stalled(), left)
		}
	}
	if h.Relieve(Memory(decode.General().Set())); h.stalled() != 3 {
		t.Errorf("%d left, want 3", h.stalled())
	}
}

// TestOneWhoWaitsForMemoryHasItsHoldersCut goes from the budget to the client that is cut.
func TestOneWhoWaitsForMemoryHasItsHoldersCut(t *testing.T) {
	decode := budget.NewWithReserve(512<<10, 64<<10)
	h := newHarness(t, func(c *Config) { c.Decode = decode })
	h.stalledHolding(t, 3, decode.Buffers()) // all of their share
	h.stalledHolding(t, 2, decode.Streams()) // with the buffers all of theirs
	h.stalledHolding(t, 1, decode.General())
	if err := decode.Buffers().Acquire(t.Context(), BufferSize); err != nil {
		t.Fatal(err)
	}
	x := <-h.ended
	if x.CutReason() != "pressure" || h.stalled() != 5 {
		t.Errorf("%q, %d left", x.CutReason(), h.stalled())
	}
	decode.Buffers().Release(BufferSize)
}

// TestInterruptedLookAhead: under pressure an exchange that has something to send stops waiting for more, and one that
// promised to go on to the end does so for chunks only.
func TestInterruptedLookAhead(t *testing.T) {
	decode := budget.NewWithReserve(8<<20, 1<<20)
	general := Memory(decode.General().Set())
	for _, c := range []struct {
		toEnd         bool
		holds, wanted Memory
		interrupted   bool
	}{
		{false, Chunks, Chunks, true}, {false, general, general, true}, {false, Chunks, general, false},
		{true, Chunks, Chunks, true}, {true, general, general, false}, {true, Chunks | general, general | Chunks, false},
	} {
		h := newHarness(t, func(c *Config) { c.Decode = decode })
		began, done := make(chan struct{}), make(chan struct{})
		h.serve = func(x *scripted, _ *fasthttp.RequestCtx) {
			x.Holds(c.holds)
			x.BeginLookAhead(c.toEnd)
			close(began)
			select {
			case <-x.Context().Done():
			case <-done:
			}
			if interrupted := x.EndWait(); interrupted != c.interrupted || (x.Context().Err() != nil) != c.interrupted {
				t.Errorf("%+v: %v, %v", c, interrupted, x.Context().Err())
			}
		}
		h.ask(t, "GET", "HTTP/1.1")
		<-began
		if got := h.Relieve(c.wanted); got != c.interrupted {
			t.Errorf("%+v: %v", c, got)
		}
		close(done)
		<-h.ended
	}
}

// TestBodiesEndOnceAndVisibly goes through the ways a body is framed, whole and broken.
func TestBodiesEndOnceAndVisibly(t *testing.T) {
	h := newHarness(t)
	for _, size := range []int64{100, 100_000, -1} {
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			for _, broken := range []bool{false, true} {
				h.serve = func(x *scripted, ctx *fasthttp.RequestCtx) {
					n := max(size, 100_000*min(1, -size)) // of unknown length: 100 KB
					if x.data = make([]byte, n); broken {
						x.data, x.fail = x.data[1:], errors.New("broken")
					}
					x.SetBody(x)
					x.Send(ctx, size, Identity)
				}
				_, body, err := h.answer(t, "GET", version)
				x := <-h.ended
				if x.closed != 1 || x.Sent != int64(len(x.data)) {
					t.Errorf("%d %s: closed %d times, %d bytes sent", size, version, x.closed, x.Sent)
				}
				whole := err == nil && (size >= 0 && int64(len(body)) == size || size < 0 && version == "HTTP/1.0" || strings.HasSuffix(body, "\r\n0\r\n\r\n"))
				if whole == broken {
					t.Errorf("%d %s, broken %v: %d bytes, %v", size, version, broken, len(body), err)
				}
			}
		}
	}
}

// TestDroppedAnswerIsClosedOnce: an error after a body was set, or even sent, gives it up.
func TestDroppedAnswerIsClosedOnce(t *testing.T) {
	h := newHarness(t)
	for _, sent := range []bool{false, true} {
		h.serve = func(x *scripted, ctx *fasthttp.RequestCtx) {
			x.SetBody(x)
			if sent {
				x.Send(ctx, 100_000, Identity)
			}
			x.Discard()
			ctx.SetStatusCode(503)
		}
		if head, _, err := h.answer(t, "GET", "HTTP/1.1"); err != nil || !strings.HasPrefix(head, "HTTP/1.1 503 ") {
			t.Errorf("%q %v", head, err)
		}
		if x := <-h.ended; x.closed != 1 {
			t.Errorf("closed %d times", x.closed)
		}
	}
}

// TestContextEndsWithTheExchange also where it was answered without a body.
func TestContextEndsWithTheExchange(t *testing.T) {
	h := newHarness(t)
	var ctx context.Context
	h.serve = func(x *scripted, _ *fasthttp.RequestCtx) { ctx = x.Context() }
	h.answer(t, "HEAD", "HTTP/1.1")
	if x := <-h.ended; ctx.Err() == nil || x.CutReason() != "" || !x.Head || x.HTTP10 {
		t.Errorf("%v, %q", ctx.Err(), x.CutReason())
	}
}
