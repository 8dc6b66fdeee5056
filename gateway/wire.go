package gateway

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
	// writeSlice is the most that one write takes. Bigger writes cost a little less CPU (0.125 s per GiB at 4 MiB
	// against 0.165 at 1 MiB), but the time since a slice was begun is how a stalled client is told from a slow one.
	writeSlice = 1 << 20
	// coalesceBelow is the length of a body that is copied behind its header, to leave in one packet; from it on the
	// header is flushed first and the body goes to the socket without a copy.
	coalesceBelow = 16 << 10
)

// framing says how the end of a body is told.
type framing uint8

const (
	framedByLength framing = iota
	framedByChunks
	framedByClose // HTTP/1.0 without a length
)

// wire writes a body to its client. fasthttp's own writer puts one absolute deadline on the whole answer and pieces
// through a small buffer; a body of any size therefore goes to the connection itself, each slice with a deadline of
// its own, with the chunk framing around it when the length is unknown. What fasthttp writes before (the header,
// flushed) and after (the last chunk and the trailers) it still writes itself.
type wire struct {
	x        *exchange
	framing  framing
	buffered io.Writer     // fasthttp's writer, for bodies below coalesceBelow; nil: straight to the connection
	blocked  time.Duration // spent writing
	squeeze  squeeze

	lengthLine [20]byte
	parts      [4][]byte
	vector     net.Buffers
}

func (w *wire) reset(x *exchange) {
	w.x, w.framing, w.buffered = x, framedByLength, nil
	w.parts, w.vector, w.blocked = [4][]byte{}, nil, 0
}

// errCut ends a body whose client was cut from outside or took nothing for the stall timeout.
var errCut = errors.New("the client was cut off")

// declare puts the body on the response: of size bytes, or of unknown length when size is negative.
func (w *wire) declare(stream io.Reader, size int64) {
	x := w.x
	x.owned, x.streaming = nil, true
	switch {
	case size >= 0:
		w.framing = framedByLength
		x.resp.ImmediateHeaderFlush = size >= coalesceBelow
	default:
		w.framing = framedByChunks
		x.resp.ImmediateHeaderFlush = true
		size = -1
	}
	if corked, ok := x.conn.(*corkedConn); ok && x.resp.ImmediateHeaderFlush && !x.head {
		corked.cork()
	}
	x.resp.SetBodyStream(stream, int(size))
}

// declareText is declare for a body of text, which is compressed if the client takes that and it is worth it. Memory
// for it that is not there now is not waited for: the body then goes as it is.
func (w *wire) declareText(ctx *fasthttp.RequestCtx, stream io.Reader, size int64) {
	x := w.x
	if (size < 0 || size >= squeezeFrom) && !x.http10 {
		coding := negotiateCoding(ctx.Request.Header.Peek("Accept-Encoding"))
		if coding != identity && x.srv.decode.Buffers().TryAcquire(lineBuffer) {
			w.squeeze.start(coding)
			x.resp.Header.SetContentEncoding(coding.String())
			size = -1
		}
	}
	w.declare(stream, size)
}

// begin is called by a body's WriteTo with what fasthttp gave it.
func (w *wire) begin(to io.Writer) {
	if w.framing == framedByLength && !w.x.resp.ImmediateHeaderFlush {
		w.buffered = to
	}
}

// write sends p whole, compressed if that was declared. An error is final: the body must end with it.
func (w *wire) write(p []byte) error {
	if w.squeeze.coding == identity {
		return w.send(p)
	}
	for len(p) > 0 {
		n := min(len(p), squeezeLimit)
		if err := w.send(w.squeeze.piece(&w.x.srv.compressors, p[:n])); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// end sends what a compressed body ends with. A body that is not whole must not call it.
func (w *wire) end() error {
	if w.squeeze.coding != codingGzip {
		return nil
	}
	return w.send(w.squeeze.gzipEnd())
}

// free gives back what compressing took.
func (w *wire) free() {
	if w.squeeze.out != nil {
		w.squeeze.free()
		w.x.srv.decode.Buffers().Release(lineBuffer)
	}
}

func (w *wire) send(p []byte) error {
	began := time.Now()
	for len(p) > 0 {
		n := min(len(p), writeSlice)
		w.x.enter(phaseWriting)
		err := w.slice(p[:n])
		w.x.enter(phaseBusy)
		if err != nil {
			return err
		}
		w.x.sent += int64(n)
		p = p[n:]
	}
	w.blocked += time.Since(began)
	return nil
}

func (w *wire) slice(p []byte) error {
	if w.buffered != nil {
		// Below fasthttp's own write deadline, which is the stall timeout too: one write of a few KiB.
		_, err := w.buffered.Write(p)
		return err
	}
	w.vector = w.parts[:0]
	corked, _ := w.x.conn.(*corkedConn)
	if corked != nil && corked.corked {
		w.vector = append(w.vector, corked.uncork())
		defer corked.sent()
	}
	if w.framing == framedByChunks {
		line := append(strconv.AppendInt(w.lengthLine[:0], int64(len(p)), 16), '\r', '\n')
		w.vector = append(w.vector, line, p, crlf)
	} else {
		w.vector = append(w.vector, p)
	}
	for {
		if err := w.x.conn.SetWriteDeadline(time.Now().Add(w.x.srv.limits.Load().stallTimeout)); err != nil {
			return err
		}
		n, err := w.vectorWrite()
		switch {
		case err == nil:
			return nil
		case cutReason(w.x.cut.Load()) != notCut:
			return errCut
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case n == 0:
			w.x.srv.clients.cutStalled(w.x)
			return errCut
		}
		// It took something since: slow, not stalled.
	}
}

// vectorWrite writes what is left of the vector, with writev where there are several parts.
func (w *wire) vectorWrite() (int64, error) {
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

// abort makes sure that the client cannot take what it got for the whole: where only the connection's end would tell
// it, the connection is reset.
func (w *wire) abort() {
	if w.framing == framedByClose {
		reset(w.x.conn)
	}
}

// trailer announces a header field that follows the body; its value is set when it is known.
func (x *exchange) trailer(name string) {
	if err := x.resp.Header.AddTrailer(name); err != nil {
		panic(err) // the names are ours
	}
}

// closeDelimited serves a body of unknown length to an HTTP/1.0 client, which knows no chunks: all of it is written
// here, in the handler, and the connection closed, since fasthttp would write chunks all the same.
func (x *exchange) closeDelimited(ctx *fasthttp.RequestCtx, stream interface {
	io.WriterTo
	io.Closer
}) {
	x.owned = nil
	x.out.framing = framedByClose
	x.resp.SetConnectionClose()
	header := x.resp.Header.AppendBytes(nil)
	if err := x.out.write(header); err == nil {
		x.sent = 0
		stream.WriteTo(nil)
	}
	stream.Close()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
}
