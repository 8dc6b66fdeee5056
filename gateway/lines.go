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
	// lineBuffer is what an ndjson answer encodes into, reserved from the decode budget: 1,000 of them are 64 MiB.
	lineBuffer = 64 << 10
	// flushFrom is how full the buffer gets before it is written even though the next record is at hand.
	flushFrom = 48 << 10
)

var lineBuffers = sync.Pool{New: func() any { return new([lineBuffer]byte) }}

// lines streams records as ndjson, as a JSON text sequence (RFC 7464), or as server-sent events (the HTML standard, 9.2).
// It writes whenever the next record would need I/O or decompression, so that a client sees each batch as soon as it is
// read.
type lines struct {
	x        *exchange
	st       stream
	encoder  jsonenc.Encoder
	record   segment.Record
	base     *[lineBuffer]byte
	buf      []byte
	reserved int64
	records  int64
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
	l.x, l.st, l.records, l.finished, l.base, l.buf, l.reserved = x, st, 0, false, nil, nil, 0
	name, _ := st.Topic()
	l.encoder.Reset(name, x.req.Partition, want.encoding)
	if err := x.reserve(lineBuffer, 0, false); err != nil {
		return err
	}
	x.holds.Store(uint32(chunkMemory | decodeMemory))
	l.reserved = lineBuffer
	l.base = lineBuffers.Get().(*[lineBuffer]byte)
	l.buf = l.base[:0]
	return nil
}

// start encodes what can be had without more waiting than for the first record. An error behind the first record ends
// or breaks the answer there, as in body.collect.
func (l *lines) start(ctx context.Context) error {
	for !l.finished && len(l.buf) < flushFrom {
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

// fill encodes records until the next one would need waiting, the buffer is full enough, or the end.
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
		if err := l.room(l.encoder.SizeBound(&l.record) + frameSize); err != nil {
			l.next = l.record.Offset
			return past(err, l.record.Offset)
		}
		l.frame("record", l.st.NextOffset(), func() { l.buf = l.encoder.AppendRecord(l.buf, &l.record) })
		l.records++
		if len(l.buf) >= flushFrom || !l.st.Buffered() {
			return nil
		}
	}
}

// room makes space for n more bytes, reserved first. A buffer beyond the usual size lasts until it is written.
func (l *lines) room(n int) error {
	if cap(l.buf)-len(l.buf) >= n {
		return nil
	}
	size := len(l.buf) + n
	if err := l.x.reserve(int64(size), l.reserved+l.st.DecodeHeld(), false); err != nil {
		return err
	}
	bigger := append(make([]byte, 0, size), l.buf...)
	l.x.srv.decode.Release(l.reserved - lineBuffer)
	l.reserved = lineBuffer + int64(size)
	l.buf = bigger
	return nil
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
		if err := l.x.out.write(l.buf); err != nil {
			return written, err
		}
		written += int64(len(l.buf))
		l.empty()
		if l.finished {
			return written, l.x.out.end()
		}
		if l.broken == nil {
			l.broken = l.fill(l.x.ctx)
		}
		if l.broken != nil {
			l.breakOff()
			return written, l.broken
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

func (l *lines) empty() {
	l.buf = l.base[:0]
	l.x.srv.decode.Release(l.reserved - lineBuffer)
	l.reserved = lineBuffer
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
	l.x.srv.decode.Release(l.reserved)
	l.reserved = 0
}
