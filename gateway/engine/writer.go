package engine

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// WriteSlice is the most that one write takes. Bigger writes cost a little less CPU (0.125 s per GiB at 4 MiB
	// against 0.165 at 1 MiB), but the time since a slice was begun is how a stalled client is known from a slow one.
	WriteSlice = 1 << 20
	// CoalesceBelow is the length of a body that is copied behind its header, to leave in one packet; from it on the
	// header is flushed first and the body goes to the socket without a copy.
	CoalesceBelow = 16 << 10
)

// Body is what an answer consists of behind its header. Close is called exactly once, whether it was written or not.
type Body interface {
	// WriteBody writes all of the body. An error means that it is not whole.
	WriteBody(w *Writer) error
	Close()
}

// framing says how the end of a body is marked.
type framing uint8

const (
	framedByLength framing = iota
	framedByChunks
	framedByClose // HTTP/1.0 without a length
)

// Writer writes a body to its client. fasthttp's own writer puts one absolute deadline on the whole answer and pieces
// through a small buffer; a body of any size therefore goes to the connection itself, each slice with a deadline of
// its own, with the chunk framing around it when the length is unknown. What fasthttp writes before (the header,
// flushed) and after (the last chunk and the trailers) it still writes itself.
type Writer struct {
	x          *Exchange
	framing    framing
	buffered   io.Writer // fasthttp's writer, for bodies below CoalesceBelow; nil: straight to the connection
	compressor compressor

	lengthLine [20]byte
	parts      [4][]byte
	vector     net.Buffers
}

func (w *Writer) reset(x *Exchange) {
	w.x, w.framing, w.buffered = x, framedByLength, nil
	w.parts, w.vector = [4][]byte{}, nil
}

// errCut ends a body whose client was cut from outside or took nothing for the stall timeout.
var errCut = errors.New("the client was cut off")

// Send makes the exchange's body the response's: of size bytes, or of unknown length when size is negative. It is
// compressed as coding says if that is worth it. Memory for that is not waited for: the body then goes as it is.
func (x *Exchange) Send(ctx *fasthttp.RequestCtx, size int64, coding Coding) {
	w := &x.out
	if coding != Identity && (size < 0 || size >= compressFrom) && !x.HTTP10 {
		if out := TryBlock(x.server.decode.Buffers(), BufferSize); out != nil {
			w.compressor = compressor{coding: coding, out: out}
			x.Holds(out.Memory())
			x.Response.Header.SetContentEncoding(coding.String())
			size = -1
		}
	}
	x.streaming = true
	x.stream.x = x
	switch {
	case size >= 0:
		x.Response.ImmediateHeaderFlush = size >= CoalesceBelow
	case x.HTTP10:
		w.sendUntilClose(ctx)
		return
	default:
		w.framing = framedByChunks
		x.Response.ImmediateHeaderFlush = true
		size = -1
	}
	if corked, ok := x.conn.(*corkedConn); ok && x.Response.ImmediateHeaderFlush && !x.Head {
		corked.cork()
	}
	x.Response.SetBodyStream(&x.stream, int(size))
}

// sendUntilClose serves a body of unknown length to an HTTP/1.0 client, which knows no chunks: all of it is written
// here, in the handler, and the connection closed, since fasthttp would write chunks all the same.
func (w *Writer) sendUntilClose(ctx *fasthttp.RequestCtx) {
	x := w.x
	w.framing = framedByClose
	x.Response.SetConnectionClose()
	if err := w.Write(x.Response.Header.AppendBytes(nil)); err == nil {
		x.Sent = 0
		x.stream.WriteTo(nil)
	}
	x.stream.Close()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
}

// bodyStream is the exchange's body as fasthttp takes it.
type bodyStream struct{ x *Exchange }

func (*bodyStream) Read([]byte) (int, error)  { return 0, errors.New("a body is written, never read") }
func (*bodyStream) SupportsBodyWriteTo() bool { return true }

func (b *bodyStream) WriteTo(to io.Writer) (written int64, err error) {
	x, w := b.x, &b.x.out
	before := x.Sent
	defer func() {
		if cause := recover(); cause != nil {
			x.owner.Panicked(cause)
			err = errors.New("panic while writing a body")
		}
		if err != nil && w.framing == framedByClose {
			reset(x.conn) // only the connection's end tells the client that the body is not whole
		}
	}()
	if w.framing == framedByLength && !x.Response.ImmediateHeaderFlush {
		w.buffered = to
	}
	if err = x.body.WriteBody(w); err == nil && w.compressor.coding == Gzip {
		err = w.send(w.compressor.gzipTrailer())
	}
	return x.Sent - before, err
}

func (b *bodyStream) Close() error {
	b.x.body.Close()
	b.x.bodyClosed()
	return nil
}

// Write sends p whole, compressed if that was agreed. An error is final: the body must end with it.
func (w *Writer) Write(p []byte) error {
	if w.compressor.coding == Identity {
		return w.send(p)
	}
	for len(p) > 0 {
		n := min(len(p), compressLimit)
		if err := w.send(w.compressor.compress(&w.x.server.compressors, p[:n])); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (w *Writer) send(p []byte) error {
	start := time.Now()
	for len(p) > 0 {
		n := min(len(p), WriteSlice)
		w.x.setPhase(writing)
		err := w.writeSlice(p[:n])
		w.x.setPhase(computing)
		if err != nil {
			return err
		}
		w.x.Sent += int64(n)
		p = p[n:]
	}
	w.x.Blocked += time.Since(start)
	return nil
}

func (w *Writer) writeSlice(p []byte) error {
	if w.buffered != nil {
		// Below fasthttp's own write deadline, which is the stall timeout too: one write of a few KiB.
		_, err := w.buffered.Write(p)
		return err
	}
	w.vector = w.parts[:0]
	corked, _ := w.x.conn.(*corkedConn)
	if corked != nil && corked.corked {
		w.vector = append(w.vector, corked.uncork())
		defer corked.headSent()
	}
	if w.framing == framedByChunks {
		line := append(strconv.AppendInt(w.lengthLine[:0], int64(len(p)), 16), '\r', '\n')
		w.vector = append(w.vector, line, p, crlf)
	} else {
		w.vector = append(w.vector, p)
	}
	for {
		if err := w.x.conn.SetWriteDeadline(time.Now().Add(time.Duration(w.x.server.stallTimeout.Load()))); err != nil {
			return err
		}
		n, err := w.writeVector()
		switch {
		case err == nil:
			return nil
		case cutReason(w.x.cut.Load()) != notCut:
			return errCut
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case n == 0:
			w.x.server.clients.cutStalled(w.x)
			return errCut
		}
		// It took something since: slow, not stalled.
	}
}

// writeVector writes what is left of the vector, with writev where there are several parts.
func (w *Writer) writeVector() (int64, error) {
	if len(w.vector) == 1 {
		n, err := w.x.conn.Write(w.vector[0])
		w.vector[0] = w.vector[0][n:]
		return int64(n), err
	}
	conn := w.x.conn
	if wrapped, ok := conn.(*corkedConn); ok {
		conn = wrapped.TCPConn // else each part would be a write of its own
	}
	return w.vector.WriteTo(conn)
}

var crlf = []byte("\r\n")
