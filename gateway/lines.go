package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync"

	"coldtap/internal/jsonenc"
	"coldtap/segment"
)

const (
	// lineBuffer is what an ndjson answer encodes into, reserved from the decode budget: 1,000 of them are 64 MiB. It
	// never grows, so that a client that takes nothing holds no more beside the batch at hand: a record that is too large
	// for it is written in pieces.
	lineBuffer = 64 << 10
	// flushFrom is how full the buffer gets before it is written even though the next record is at hand.
	flushFrom = 48 << 10
	// tailSize is room that records leave for the line that says how the answer ended.
	tailSize = 512
)

var lineBuffers = sync.Pool{New: func() any { return new([lineBuffer]byte) }}

// lines streams records as ndjson, as a JSON text sequence (RFC 7464), or as server-sent events (the HTML standard,
// 9.2). It writes whenever the next record would need I/O or decompression, so that a client sees each batch as soon as
// it is read.
type lines struct {
	x        *exchange
	st       stream
	encoder  jsonenc.Encoder
	record   segment.Record
	base     *[lineBuffer]byte
	buf      []byte
	pending  bool // record is not in buf yet: there was no room
	records  int64
	written  int64
	format   format
	summary  bool     // a last line, or event, tells how the answer ended
	toEnd    bool     // the answer reaches the asked end or breaks
	broken   error    // ends the answer behind what is in buf
	next     int64    // valid behind an error: where a client goes on that has all of buf
	finished bool     // the end is in buf
	progress progress // valid when finished
}

func (l *lines) reset(x *exchange, st stream, want *wanted, format format) error {
	l.format, l.summary, l.toEnd, l.broken = format, want.summary || format == formatEvents, want.toEnd, nil
	l.x, l.st, l.records, l.written, l.finished, l.pending, l.base, l.buf = x, st, 0, 0, false, false, nil, nil
	name, _ := st.Topic()
	l.encoder.Reset(name, x.req.Partition, want.encoding)
	if err := x.reserve(x.srv.decode.Buffers(), lineBuffer, 0); err != nil {
		return err
	}
	x.holds.Store(uint32(chunkMemory | decodeMemory))
	l.base = lineBuffers.Get().(*[lineBuffer]byte)
	l.buf = l.base[:0]
	return nil
}

// start encodes what can be had without more waiting than for the first record. An error behind the first record ends
// or breaks the answer there, as in body.collect.
func (l *lines) start(ctx context.Context) error {
	for !l.finished && !l.pending && len(l.buf) < flushFrom {
		err := l.fill(ctx)
		if err != nil {
			if l.records == 0 || problemOf(err).gone {
				return err
			}
			if l.toEnd {
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
			l.x.enter(phaseWaiting)
		}
		err := l.st.NextRecord(ctx, &l.record)
		l.x.enter(phaseBusy)
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

// encode puts the record into buf; false when it has no room beside what is there.
func (l *lines) encode() bool {
	if len(l.buf)+l.encoder.SizeBound(&l.record)+frameSize+tailSize > lineBuffer {
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

// frame appends one line, or one event whose id is the offset at which a client that comes back goes on. No JSON of
// ours has a line break in it.
func (l *lines) frame(event string, next int64, appendData func()) {
	if l.format != formatEvents {
		if l.format == formatSequence {
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
		l.buf = l.x.appendEnd(append(l.buf, '{'), p)
		l.buf = strconv.AppendInt(append(l.buf, `,"next_offset":`...), p.next, 10)
		l.buf = strconv.AppendInt(append(l.buf, `,"records":`...), l.records, 10)
		l.buf = append(l.buf, '}')
	})
}

func (l *lines) Read([]byte) (int, error)  { return 0, errNeverRead }
func (l *lines) SupportsBodyWriteTo() bool { return true }

func (l *lines) WriteTo(to io.Writer) (written int64, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			l.x.notePanic(cause)
			err = errors.New("panic while writing a body")
			l.x.out.abort()
		}
	}()
	l.x.out.begin(to)
	for {
		if err := l.flush(); err != nil {
			return l.written, err
		}
		if l.finished {
			return l.written, l.x.out.end()
		}
		if l.pending {
			if l.pending = false; !l.encode() {
				if err := l.inPieces(); err != nil {
					return l.written, err
				}
			}
			continue
		}
		if l.broken == nil {
			l.broken = l.fill(l.x.ctx)
		}
		if l.broken != nil {
			l.breakOff()
			return l.written, l.broken
		}
		if l.finished {
			l.x.setProgress(l.progress)
			l.x.setCost(l.st.Stats())
		}
	}
}

// breakOff sends what is whole, then, if the client asked to be told, why there is no more. The body has no last chunk,
// so that nothing takes it for all there is.
func (l *lines) breakOff() {
	p := problemOf(l.broken)
	l.x.noteBroken(l.broken, slog.Int64("offset", l.next))
	if !p.gone {
		if p.code != codeDamaged && p.code != codeTooLarge { // else it is behind what cannot be given
			p.nextOffset = l.next
		}
		if l.summary {
			l.frame("error", l.next, func() {
				l.buf = append(p.appendFields(append(l.buf, '{'), string(l.x.id)), '}')
			})
		}
		l.x.out.write(l.buf)
	}
	l.x.out.abort()
}

// flush writes what is in buf.
func (l *lines) flush() error {
	if err := l.x.out.write(l.buf); err != nil {
		return err
	}
	l.written += int64(len(l.buf))
	l.buf = l.base[:0]
	return nil
}

// inPieces writes the record, which has no room in an empty buffer either, but for its end.
func (l *lines) inPieces() (err error) {
	l.frame("record", l.st.NextOffset(), func() {
		l.buf, err = l.encoder.AppendInPieces(l.buf, &l.record, func(b []byte) ([]byte, error) {
			l.buf = b
			err := l.flush()
			return l.buf, err
		})
	})
	l.records++
	return err
}

func (l *lines) Close() error {
	l.x.requests = l.st.Stats().StoreRequests
	l.st.Close()
	l.free()
	l.x.bodyClosed()
	return nil
}

// free gives the buffer and its reservation back.
func (l *lines) free() {
	if l.base == nil {
		return
	}
	lineBuffers.Put(l.base)
	l.base, l.buf = nil, nil
	l.x.srv.decode.Buffers().Release(lineBuffer)
}
