package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"coldtap/fetch"
	"coldtap/gateway/engine"
	"coldtap/segment"

	"github.com/valyala/fasthttp"
)

// exchange is one request and its answer: what was asked for, and the formats' state while they answer it. Its
// connection is the engine's. Pooled: exchanges and bodies together keep a request on the hit path at a handful of
// allocations.
type exchange struct {
	engine.Exchange
	srv      *Server
	started  time.Time
	id       []byte
	route    route
	query    query
	req      fetch.Request
	want     wanted
	status   int
	requests int // to the store

	report   report
	pinned   pinned
	lines    lines
	segments []segment.UUID // those of the answer's validator
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// handle is fasthttp's handler. fasthttp does not recover panics: one here would end the process.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	x := exchanges.Get().(*exchange)
	x.srv, x.started, x.route = s, time.Now(), routeOther
	x.status, x.requests = 0, 0
	x.id = appendRequestID(x.id[:0], ctx.Request.Header.Peek("X-Request-Id"))
	x.Begin(s.engine, ctx, x)
	defer func() {
		if cause := recover(); cause != nil {
			x.Panicked(cause)
			x.fail(internalProblem())
		}
		x.Handled()
	}()
	refused := ambiguous(&ctx.Request.Header)
	if refused == nil {
		refused = s.guard.refuse(siteOf(ctx, x.Loopback()))
	}
	if refused != nil {
		x.fail(refused)
		x.Response.SetConnectionClose()
		return
	}
	if err := x.dispatch(ctx); err != nil {
		x.fail(err)
	}
}

// Ended counts and logs the exchange, and makes it ready for another request.
func (x *exchange) Ended() {
	s := x.srv
	took := time.Since(x.started)
	s.metrics.observe(x.route, x.status, took, x.Sent)
	if s.log.Enabled(x.Context(), slog.LevelDebug) {
		x.log().Debug("request", "status", x.status, "bytes", x.Sent, "took", took, "gets", x.requests, "topic", x.req.Topic,
			"partition", x.req.Partition, "client", x.RemoteAddr().String(), "cut", x.CutReason())
	}
	x.Release()
	x.srv, x.req, x.want = nil, fetch.Request{}, wanted{}
	x.query.reset(nil)
	exchanges.Put(x)
}

// log is the server's, with which request it is about.
func (x *exchange) log() *slog.Logger {
	return x.srv.log.With("id", string(x.id), "route", x.route.String())
}

// Panicked logs a panic with its stack.
func (x *exchange) Panicked(cause any) {
	x.srv.metrics.panics.Inc()
	x.log().Error("panic while serving a request", "panic", cause, "stack", string(debug.Stack()))
}

// logBroken logs an answer that broke after its status line, and how far it had come: the next offset of records, or
// the position in a file.
func (x *exchange) logBroken(err error, reached slog.Attr) {
	if !problemOf(err).gone {
		x.srv.metrics.broken.Inc()
		x.log().Warn("answer broke on the way", "bytes", x.Sent, "topic", x.req.Topic, "partition", x.req.Partition,
			reached, "error", err.Error())
	}
}

// closeStream ends a read and counts its requests to the store.
func (x *exchange) closeStream(st stream) {
	x.requests = st.Stats().StoreRequests
	st.Close()
}

// respond starts an answer with the fields that every one has.
func (x *exchange) respond(contentType string) *fasthttp.ResponseHeader {
	x.status = fasthttp.StatusOK
	h := &x.Response.Header
	h.SetContentType(contentType)
	h.SetBytesV("X-Request-Id", x.id)
	h.Set("Vary", x.route.vary())
	return h
}

// setStatus makes the answer that was begun another one than 200.
func (x *exchange) setStatus(status int) {
	x.status = status
	x.Response.SetStatusCode(status)
}

// fail answers with an error. Whatever was prepared of another answer is dropped.
func (x *exchange) fail(err error) {
	x.Discard()
	p := problemOf(err)
	if p.gone {
		// The client has gone, unless the server is draining: then the connection ends here.
		x.Response.SetConnectionClose()
	}
	if p.code == codeInternal && !errors.As(err, new(*problem)) {
		x.log().Error("request failed", "error", err.Error())
	}
	h := x.respond(formats[formatJSON].mediaType)
	x.setStatus(p.status())
	if p.retryAfter > 0 {
		h.SetBytesV("Retry-After", x.report.decimal(int64(p.retrySeconds())))
	}
	if p.code == codeMethod {
		h.Set("Allow", "GET, HEAD")
	}
	if p.size >= 0 {
		h.SetBytesV("Content-Range", append([]byte("bytes */"), x.report.decimal(p.size)...))
	}
	message := p.appendBody(nil, string(x.id))
	x.Sent = int64(len(message))
	x.Response.SetBodyRaw(message)
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
