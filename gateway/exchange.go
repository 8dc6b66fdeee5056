package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/fetch"
	"coldtap/segment"

	"github.com/valyala/fasthttp"
)

// exchange is one request and its answer, from the handler's start until the last byte is written or given up. It is
// what the client watch looks at, and what a body needs to write itself. Pooled: exchanges and bodies together keep a
// request on the hit path at a handful of allocations.
type exchange struct {
	srv  *Server
	conn net.Conn
	resp *fasthttp.Response

	// ctx is the request's own context: fasthttp's is done only when the server stops.
	ctx    context.Context
	cancel context.CancelFunc

	// phase packs what the exchange is doing and since when (see enter). cut is why it was ended from outside.
	phase atomic.Int64
	cut   atomic.Uint32
	holds atomic.Uint32 // memory that the answer holds
	// next and prev link the exchanges under way; under the clients' mutex.
	next, prev *exchange

	id       []byte
	head     bool // HEAD
	http10   bool
	route    route
	started  time.Time
	status   int
	sent     int64
	requests int // store requests

	handling  bool // the handler still runs: it ends the exchange, not the body
	streaming bool // a body stream was set, which ends the exchange when closed

	// owned is an answer in the making; once declared, fasthttp owns it.
	owned io.Closer

	query  query
	req    fetch.Request
	out    wire
	body   body
	lines  lines
	number [20]byte

	// Of an answer with records: the parts of the next page's address, the value of Server-Timing, when the stream
	// was opened and what it had waited for until then, and whether brokers are known to hold what follows.
	link, linkHead, linkTail []byte
	timing                   []byte
	openedAt                 time.Time
	openedStore, openedIndex time.Duration
	clustered                bool
	segments                 []segment.UUID // those of its validator
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// begin starts the exchange for a request.
func (s *Server) begin(ctx *fasthttp.RequestCtx) *exchange {
	x := exchanges.Get().(*exchange)
	x.srv = s
	x.conn = ctx.Conn()
	x.resp = &ctx.Response
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.started = time.Now()
	x.head = ctx.IsHead()
	x.http10 = !ctx.Request.Header.IsHTTP11()
	x.route = routeOther
	x.status, x.sent, x.requests = 0, 0, 0
	x.handling, x.streaming = true, false
	x.cut.Store(uint32(notCut))
	x.holds.Store(0)
	x.id = appendRequestID(x.id[:0], ctx.Request.Header.Peek("X-Request-Id"))
	x.out.reset(x)
	x.enter(phaseBusy)
	s.clients.add(x)
	return x
}

// end closes the books of an exchange. Nothing of it may be used afterwards.
func (x *exchange) end() {
	s := x.srv
	x.out.free()
	s.clients.remove(x)
	x.cancel()
	took := time.Since(x.started)
	s.metrics.observe(x.route, x.status, took, x.sent)
	if s.log.Enabled(x.ctx, slog.LevelDebug) {
		s.log.LogAttrs(x.ctx, slog.LevelDebug, "request",
			slog.String("id", string(x.id)), slog.String("route", x.route.String()), slog.Int("status", x.status),
			slog.Int64("bytes", x.sent), slog.Duration("took", took), slog.Int("gets", x.requests),
			slog.String("topic", x.req.Topic), slog.Int64("partition", int64(x.req.Partition)),
			slog.String("client", x.conn.RemoteAddr().String()), slog.String("cut", cutReason(x.cut.Load()).String()))
	}
	x.srv, x.conn, x.resp, x.ctx, x.cancel = nil, nil, nil, nil, nil
	x.req = fetch.Request{}
	x.query.reset(nil)
	exchanges.Put(x)
}

// bodyClosed is called by a body when fasthttp has closed it.
func (x *exchange) bodyClosed() {
	if x.handling {
		x.streaming = false
		return
	}
	x.end()
}

// drop gives up an answer in the making.
func (x *exchange) drop() {
	if x.owned != nil {
		x.owned.Close()
		x.owned = nil
	}
}

// respond starts a good answer.
func (x *exchange) respond(contentType string) {
	x.status = fasthttp.StatusOK
	h := &x.resp.Header
	h.SetContentType(contentType)
	h.SetBytesV("X-Request-Id", x.id)
	h.Set("Vary", x.route.vary())
}

// decimal formats a number for a header, valid until the next call.
func (x *exchange) decimal(n int64) []byte {
	return strconv.AppendInt(x.number[:0], n, 10)
}

// noteBroken logs an answer that broke after its status line, and how far it had come: the next offset of records, or
// the position in a file.
func (x *exchange) noteBroken(err error, reached slog.Attr) {
	if problemOf(err).gone {
		return
	}
	x.srv.metrics.broken.Inc()
	x.srv.log.LogAttrs(context.Background(), slog.LevelWarn, "answer broke on the way",
		slog.String("id", string(x.id)), slog.String("route", x.route.String()), slog.Int64("bytes", x.sent),
		slog.String("topic", x.req.Topic), slog.Int64("partition", int64(x.req.Partition)), reached,
		slog.String("error", err.Error()))
}

// panicked turns a panic into an answer that names the request and a log line that has the stack.
func (x *exchange) panicked(cause any) {
	x.notePanic(cause)
	x.fail(internalProblem())
}

func (x *exchange) notePanic(cause any) {
	x.srv.metrics.panics.Inc()
	x.srv.log.LogAttrs(context.Background(), slog.LevelError, "panic while serving a request",
		slog.String("id", string(x.id)), slog.String("route", x.route.String()), slog.Any("panic", cause),
		slog.String("stack", string(debug.Stack())))
}

// fail answers with an error. Whatever was prepared of another answer is dropped.
func (x *exchange) fail(err error) {
	x.drop()
	x.resp.Reset() // closes a body that was declared
	if corked, ok := x.conn.(*corkedConn); ok {
		corked.uncork()
	}
	p := problemOf(err)
	x.status = p.status()
	h := &x.resp.Header
	if p.gone {
		// Nobody reads it, unless the server is draining: then the connection ends here.
		x.resp.SetConnectionClose()
	}
	if p.code == codeInternal && !errors.As(err, new(*problem)) {
		x.srv.log.LogAttrs(context.Background(), slog.LevelError, "request failed",
			slog.String("id", string(x.id)), slog.String("route", x.route.String()), slog.String("error", err.Error()))
	}
	x.resp.SetStatusCode(x.status)
	h.SetContentType(formats[formatJSON].mediaType)
	h.SetBytesV("X-Request-Id", x.id)
	h.Set("Vary", x.route.vary())
	if p.retryAfter > 0 {
		h.SetBytesV("Retry-After", x.decimal(int64(p.retrySeconds())))
	}
	if p.code == codeMethod {
		h.Set("Allow", "GET, HEAD")
	}
	if p.size >= 0 {
		h.SetBytesV("Content-Range", append([]byte("bytes */"), x.decimal(p.size)...))
	}
	message := p.appendBody(nil, string(x.id))
	x.sent = int64(len(message))
	x.resp.SetBodyRaw(message)
}

// maxRequestID is how much of a client's request id is echoed.
const maxRequestID = 128

// appendRequestID echoes the client's id, without what could break a header or a log line, or makes one.
func appendRequestID(dst, given []byte) []byte {
	for _, c := range given[:min(len(given), maxRequestID)] {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=', c == '@':
			dst = append(dst, c)
		}
	}
	if len(dst) > 0 {
		return dst
	}
	// It has to be unlike others, not hard to guess: no system call for it.
	var random [8]byte
	binary.BigEndian.PutUint64(random[:], rand.Uint64())
	return hex.AppendEncode(dst, random[:])
}
