package gateway

import (
	"context"
	"io"
	"log/slog"
	"strconv"

	"coldtap/fetch"
	"coldtap/gateway/engine"
	"coldtap/internal/jsonenc"
	"coldtap/segment"

	"github.com/valyala/fasthttp"
)

const (
	// flushFrom is how full the buffer gets before it is written even though the next record is at hand.
	flushFrom = 48 << 10
	// tailSize is the room that records leave for the last line, which says how the answer ended.
	tailSize = 512
)

// lines streams records as ndjson, as a JSON text sequence (RFC 7464), or as server-sent events (the HTML standard,
// 9.2). It writes whenever the next record would need I/O or decompression, so that a client sees each batch as soon as
// it is read.
type lines struct {
	x        *exchange
	st       stream
	encoder  jsonenc.Encoder
	record   segment.Record
	block    *engine.Block // what buf is of; nil: there was no memory
	buf      []byte
	pending  bool // record is not in buf yet: there was no room
	records  int64
	summary  bool     // a last line, or event, says how the answer ended
	broken   error    // ends the answer behind what is in buf
	next     int64    // after an error: where a client that has all of buf goes on
	finished bool     // the end is in buf
	progress progress // valid when finished
}

// reset makes the lines x's body. The buffer they are encoded into never grows, so that a client that takes nothing
// holds no more beside the batch at hand: a record that is too large for it is written in pieces.
func (l *lines) reset(x *exchange, st stream) error {
	l.x, l.st, l.records, l.finished, l.pending, l.block, l.broken = x, st, 0, false, false, nil, nil
	l.summary = x.want.summary || x.want.format == formatEvents
	x.SetBody(l)
	name, _ := st.Topic()
	l.encoder.Reset(name, x.req.Partition, x.want.encoding)
	decode := x.srv.decode
	if err := x.reserve(decode.Buffers(), engine.BufferSize, 0); err != nil {
		return err
	}
	l.block = engine.NewBlock(decode.Buffers(), engine.BufferSize)
	l.buf = l.block.B
	x.Holds(engine.Chunks | l.block.Memory() | engine.Memory(decode.Streams().Set()))
	return nil
}

// sendLines streams records as ndjson, as a JSON text sequence or as events.
func sendLines(x *exchange, ctx *fasthttp.RequestCtx, st stream) error {
	l := &x.lines
	if err := l.reset(x, st); err != nil {
		return err
	}
	if x.want.format == formatEvents {
		x.Response.Header.Set("Cache-Control", "no-cache")
	}
	if err := l.start(x.Context()); err != nil {
		return err
	}
	if !l.finished {
		x.sendStream(ctx, textCoding(ctx))
		return nil
	}
	x.reportAll(l.progress, st)
	if x.want.resumed && l.records == 0 && l.progress.end != fetch.EndLimit {
		// An event source comes back by itself whenever an answer ends; this is how it learns that there is no more.
		x.Drop()
		x.setStatus(fasthttp.StatusNoContent)
		return nil
	}
	x.Send(ctx, int64(len(l.buf)), textCoding(ctx))
	return nil
}

// start encodes what can be had without more waiting than for the first record. An error behind the first record ends
// or breaks the answer there, as in pinned.collect.
func (l *lines) start(ctx context.Context) error {
	for !l.finished && !l.pending && len(l.buf) < flushFrom {
		err := l.fill(ctx)
		if err != nil {
			if l.records == 0 || problemOf(err).gone {
				return err
			}
			if l.x.want.toEnd {
				l.broken = err
				return nil
			}
			l.finish(limitAt(l.next))
			return nil
		}
		if !l.st.Buffered() {
			break
		}
	}
	return nil
}

// fill encodes records until the next one would need waiting or has no room, the buffer is full enough, or the end.
func (l *lines) fill(ctx context.Context) error {
	for {
		if !l.st.Buffered() {
			l.x.BeginWait()
		}
		err := l.st.NextRecord(ctx, &l.record)
		l.x.EndWait()
		if err == io.EOF {
			l.finish(progressOf(l.st))
			return nil
		}
		if err != nil {
			l.next = l.st.NextOffset()
			return err
		}
		if l.pending = !l.encode(); l.pending {
			return nil
		}
		if len(l.buf) >= flushFrom || !l.st.Buffered() {
			return nil
		}
	}
}

// encode appends the record to buf; false when there is no room for it.
func (l *lines) encode() bool {
	if len(l.buf)+l.encoder.SizeBound(&l.record)+frameSize+tailSize > engine.BufferSize {
		return false
	}
	l.frame("record", l.st.NextOffset(), func() { l.buf = l.encoder.AppendRecord(l.buf, &l.record) })
	l.records++
	return true
}

// recordSeparator stands before each text of a JSON text sequence.
const recordSeparator = 0x1e

// frameSize is room for what stands around a record.
const frameSize = 64

// frame appends one line, or one event whose id is the offset at which a client that comes back goes on. The JSON has
// no line breaks.
func (l *lines) frame(event string, next int64, appendData func()) {
	if l.x.want.format != formatEvents {
		if l.x.want.format == formatSequence {
			l.buf = append(l.buf, recordSeparator)
		}
		appendData()
		l.buf = append(l.buf, '\n')
		return
	}
	l.buf = strconv.AppendInt(append(l.buf, "id: "...), next, 10)
	l.buf = append(append(append(l.buf, "\nevent: "...), event...), "\ndata: "...)
	appendData()
	l.buf = append(l.buf, '\n', '\n')
}

// finish ends the answer, with a last line if one is wanted.
func (l *lines) finish(p progress) {
	l.finished, l.progress = true, p
	if !l.summary {
		return
	}
	l.frame("end", p.next, func() {
		l.buf = l.x.report.appendEnd(append(l.buf, '{'), p)
		l.buf = strconv.AppendInt(append(l.buf, `,"next_offset":`...), p.next, 10)
		l.buf = strconv.AppendInt(append(l.buf, `,"records":`...), l.records, 10)
		l.buf = append(l.buf, '}')
	})
}

// WriteBody writes what is encoded, and encodes on until the stream ends.
func (l *lines) WriteBody(w *engine.Writer) error {
	for {
		if err := l.flush(w); err != nil || l.finished {
			return err
		}
		if l.pending {
			if l.pending = false; !l.encode() {
				if err := l.writeInPieces(w); err != nil {
					return err
				}
			}
			continue
		}
		if l.broken == nil {
			l.broken = l.fill(l.x.Context())
		}
		if l.broken != nil {
			l.breakOff(w)
			return l.broken
		}
		if l.finished {
			l.x.reportAll(l.progress, l.st)
		}
	}
}

// breakOff sends what is whole, then, if the client asked for it, why there is no more.
func (l *lines) breakOff(w *engine.Writer) {
	p := problemOf(l.broken)
	l.x.logBroken(l.broken, slog.Int64("offset", l.next))
	if !p.gone {
		if p.code != codeDamaged && p.code != codeTooLarge { // else it is behind what cannot be given
			p.nextOffset = l.next
		}
		if l.summary {
			l.frame("error", l.next, func() {
				l.buf = append(p.appendFields(append(l.buf, '{'), string(l.x.id)), '}')
			})
		}
		w.Write(l.buf)
	}
}

// flush writes what is in buf.
func (l *lines) flush(w *engine.Writer) error {
	if err := w.Write(l.buf); err != nil {
		return err
	}
	l.buf = l.block.B
	return nil
}

// writeInPieces writes a record that is too large for an empty buffer. Its end stays in buf.
func (l *lines) writeInPieces(w *engine.Writer) (err error) {
	l.frame("record", l.st.NextOffset(), func() {
		l.buf, err = l.encoder.AppendInPieces(l.buf, &l.record, func(b []byte) ([]byte, error) {
			l.buf = b
			err := l.flush(w)
			return l.buf, err
		})
	})
	l.records++
	return err
}

// Close ends the reading and gives the buffer back.
func (l *lines) Close() {
	l.x.closeStream(l.st)
	if l.block != nil {
		l.block.Free()
		l.block, l.buf = nil, nil
	}
}
