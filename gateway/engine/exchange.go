package engine

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Exchange is one request and its answer, from the handler's start until the last byte is written or given up. It is
// meant to be embedded in the owner's pooled state of a request, so that it costs no allocation but its context's. The
// exported methods are for the goroutine of the exchange.
type Exchange struct {
	Response *fasthttp.Response
	Head     bool // the request's method is HEAD
	HTTP10   bool
	Sent     int64         // bytes of the body that were written; compressed, if it is
	Blocked  time.Duration // spent writing to the client

	server *Server
	owner  Owner
	conn   net.Conn
	ctx    context.Context
	cancel context.CancelFunc

	// phase packs what the exchange is doing and since when (see setPhase). cut is why it was ended from outside.
	phase atomic.Int64
	cut   atomic.Uint32
	holds atomic.Uint32 // a Memory

	handling  bool // the handler still runs: it ends the exchange, not the body
	streaming bool // the body is fasthttp's, which ends the exchange by closing it
	body      Body // of the answer in the making, then of the response
	stream    bodyStream
	out       Writer
}

// Owner is what embeds an Exchange.
type Owner interface {
	// Ended is called last. The owner calls Release before it uses the exchange for another request.
	Ended()
	// Panicked is called for a panic of the body while it is written. The answer breaks.
	Panicked(cause any)
}

// Begin starts the exchange for a request that fasthttp handles.
func (x *Exchange) Begin(s *Server, ctx *fasthttp.RequestCtx, owner Owner) {
	x.server, x.owner, x.conn, x.Response = s, owner, ctx.Conn(), &ctx.Response
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.Head, x.HTTP10 = ctx.IsHead(), !ctx.Request.Header.IsHTTP11()
	x.Sent, x.Blocked = 0, 0
	x.handling, x.streaming = true, false
	x.cut.Store(uint32(notCut))
	x.holds.Store(0)
	x.out.reset(x)
	x.setPhase(computing)
	s.clients.add(x)
}

// Handled says that the handler returns. The exchange ends now, or when its body has been written.
func (x *Exchange) Handled() {
	x.handling = false
	if !x.streaming {
		x.end()
		return
	}
	x.setPhase(writing) // the header, by fasthttp, with the body's memory held
}

// end ends the exchange. Nothing of it may be used afterwards.
func (x *Exchange) end() {
	x.out.compressor.free()
	x.server.clients.remove(x)
	x.cancel()
	x.owner.Ended()
}

// Release drops what the exchange refers to, so that a pooled one keeps none of it alive.
func (x *Exchange) Release() {
	x.Response, x.server, x.owner, x.conn, x.ctx, x.cancel = nil, nil, nil, nil, nil, nil
}

// Context is the request's own: it is cancelled when the client has gone or is cut, and when the exchange ends.
func (x *Exchange) Context() context.Context { return x.ctx }

// RemoteAddr is the client's address.
func (x *Exchange) RemoteAddr() net.Addr { return x.conn.RemoteAddr() }

// Loopback says that the connection came by a listener on a loopback address.
func (x *Exchange) Loopback() bool {
	c, ok := x.conn.(*corkedConn)
	return ok && c.loopback
}

// CutReason says why the exchange was ended from outside, "" when it was not.
func (x *Exchange) CutReason() string { return cutReason(x.cut.Load()).String() }

// BeginWait notes that the exchange waits for data or memory, and that its client should be watched. EndWait must
// follow.
func (x *Exchange) BeginWait() { x.setPhase(waiting) }

// BeginLookAhead is BeginWait for more data while the exchange has some in hand that it could send. Under memory
// pressure the wait may be interrupted: the context is cancelled. toEnd: the answer was promised whole and would break,
// so that only pressure on chunks interrupts it.
func (x *Exchange) BeginLookAhead(toEnd bool) {
	if toEnd {
		x.setPhase(lookingAheadToEnd)
	} else {
		x.setPhase(lookingAhead)
	}
}

// EndWait ends what BeginWait or BeginLookAhead began, and says whether it was interrupted.
func (x *Exchange) EndWait() (interrupted bool) { return x.setPhase(computing) == interruptedAhead }

// Holds adds to the memory that the exchange is known to hold while its client is waited for.
func (x *Exchange) Holds(m Memory) { x.holds.Store(x.holds.Load() | uint32(m)) }

// SetBody makes b the body of the answer in the making. The exchange owns it from then on.
func (x *Exchange) SetBody(b Body) { x.body = b }

// Drop closes the body of an answer in the making.
func (x *Exchange) Drop() {
	if x.body != nil && !x.streaming {
		x.body.Close()
		x.body = nil
	}
}

// Discard gives up whatever was prepared of an answer, for another one.
func (x *Exchange) Discard() {
	x.Drop()
	x.Response.Reset() // closes a body that was sent
	if corked, ok := x.conn.(*corkedConn); ok {
		corked.uncork()
	}
}

// bodyClosed is called when fasthttp has closed the body.
func (x *Exchange) bodyClosed() {
	x.body = nil
	if x.handling {
		x.streaming = false
		return
	}
	x.end()
}
