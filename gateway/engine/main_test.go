package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"coldtap/internal/budget"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// fasthttp's clock for the Date header runs as long as the process; its pool's cleaner of a stopped server sleeps
	// out its last 10 s.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// harness is a running server whose answers are scripted.
type harness struct {
	*Server
	addr  string
	serve func(x *scripted, ctx *fasthttp.RequestCtx)
	ended chan *scripted
}

// scripted is an exchange and its body.
type scripted struct {
	Exchange
	harness *harness
	panics  []any
	data    []byte // the body
	fail    error  // behind it
	block   *Block
	closed  int
}

func (x *scripted) Ended()             { x.harness.ended <- x }
func (x *scripted) Panicked(cause any) { x.panics = append(x.panics, cause) }
func (x *scripted) WriteBody(w *Writer) error {
	if err := w.Write(x.data); err != nil {
		return err
	}
	return x.fail
}
func (x *scripted) Close() {
	if x.closed++; x.block != nil {
		x.block.Free()
		x.block = nil
	}
}

func newHarness(t *testing.T, change ...func(*Config)) *harness {
	t.Helper()
	h := &harness{ended: make(chan *scripted, 1000)}
	cfg := Config{
		Handle: func(ctx *fasthttp.RequestCtx) {
			x := &scripted{harness: h}
			x.Begin(h.Server, ctx, x)
			defer x.Handled()
			h.serve(x, ctx)
		},
		Malformed:    func(ctx *fasthttp.RequestCtx, _ error) { ctx.SetStatusCode(400) },
		Expect:       func(*fasthttp.RequestCtx) int { return 417 },
		Busy:         func(bool) []byte { return []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n") },
		Decode:       budget.NewWithReserve(8<<20, 1<<20),
		StallTimeout: time.Minute, ReadTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
		Connections: 1000, HeaderLimit: 4 << 10, BodyLimit: 1 << 10, Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	h.Server = New(cfg)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- h.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		h.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		for h.connected() > 0 {
			time.Sleep(time.Millisecond)
		}
		if n := cfg.Decode.InUse(); n != 0 {
			t.Errorf("%d bytes never given back", n)
		}
	})
	return h
}

func (h *harness) connected() int { return h.clients.connected() }

// ask opens a connection and sends a request.
func (h *harness) ask(t *testing.T, method, version string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "%s / %s\r\nHost: x\r\nConnection: close\r\n\r\n", method, version)
	return conn
}

// answer gives all that a connection says, and how it ended.
func (h *harness) answer(t *testing.T, method, version string) (head, body string, err error) {
	t.Helper()
	all, err := io.ReadAll(h.ask(t, method, version))
	head, body, _ = strings.Cut(string(all), "\r\n\r\n")
	return head, body, err
}

// stalledHolding makes n clients that take nothing of an answer that holds a block of each share.
func (h *harness) stalledHolding(t *testing.T, n int, share *budget.Share) {
	t.Helper()
	h.serve = func(x *scripted, ctx *fasthttp.RequestCtx) {
		x.block = TryBlock(share, BufferSize)
		x.Holds(x.block.Memory())
		x.data = make([]byte, 16<<20)
		x.SetBody(x)
		x.Send(ctx, int64(len(x.data)), Identity)
	}
	before := h.stalled()
	for range n {
		h.ask(t, "GET", "HTTP/1.1")
	}
	for deadline := time.Now().Add(10 * time.Second); h.stalled() < before+n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d have stalled", h.stalled()-before, n)
		}
	}
}

func (h *harness) stalled() (n int) {
	h.clients.mu.Lock()
	defer h.clients.mu.Unlock()
	for x := range h.clients.exchanges {
		if p, since := unpackPhase(x.phase.Load()); p == writing && since >= stalledFrom && x.cut.Load() == 0 {
			n++
		}
	}
	return n
}
