package gateway

import (
	"context"
	"errors"
	"io"
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

// lines streams records as ndjson, or as server-sent events (the HTML standard, 9.2). It writes whenever the next record would need I/O or decompression, so that a
// client sees each batch as soon as it is read.
type lines struct {
	x        *exchange
	st       stream
	encoder  jsonenc.Encoder
	record   segment.Record
	base     *[lineBuffer]byte
	buf      []byte
	reserved int64
	records  int64
	events   bool
	finished bool     // the last line is in buf
	progress progress // valid when finished, unless the answer broke
}

func (l *lines) reset(x *exchange, st stream, encoding jsonenc.Encoding, events bool) error {
	l.events = events
	l.x, l.st, l.records, l.finished, l.base, l.buf, l.reserved = x, st, 0, false, nil, nil, 0
	name, _ := st.Topic()
	l.encoder.Reset(name, x.req.Partition, encoding)
	if err := x.reserve(lineBuffer, 0); err != nil {
		return err
	}
	x.holds.Store(uint32(chunkMemory | decodeMemory))
	l.reserved = lineBuffer
	l.base = lineBuffers.Get().(*[lineBuffer]byte)
	l.buf = l.base[:0]
	return nil
}

// start encodes what can be had without more waiting than for the first record. An error behind the first record ends
// the answer there, as in body.collect.
func (l *lines) start(ctx context.Context) error {
	for !l.finished && len(l.buf) < flushFrom {
		before := l.st.NextOffset()
		err := l.fill(ctx)
		if err != nil {
			if l.records == 0 || problemOf(err).gone {
				return err
			}
			l.finish(limitAt(max(before, l.st.NextOffset())))
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
			return err
		}
		if err := l.room(l.encoder.SizeBound(&l.record) + frameSize); err != nil {
			return err
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
	if err := l.x.reserve(int64(size), l.reserved+l.st.DecodeHeld()); err != nil {
		return err
	}
	bigger := append(make([]byte, 0, size), l.buf...)
	l.x.srv.decode.Release(l.reserved - lineBuffer)
	l.reserved = lineBuffer + int64(size)
	l.buf = bigger
	return nil
}

// frameSize is room for what stands around a record.
const frameSize = 64

// frame appends one line, or one event whose id is the offset at which a client that comes back goes on. No JSON of
// ours has a line break in it.
func (l *lines) frame(event string, next int64, appendData func()) {
	if !l.events {
		appendData()
		l.buf = append(l.buf, '\n')
		return
	}
	l.buf = strconv.AppendInt(append(l.buf, "id: "...), next, 10)
	l.buf = append(append(append(l.buf, "\nevent: "...), event...), "\ndata: "...)
	appendData()
	l.buf = append(l.buf, '\n', '\n')
}

// finish appends the last line.
func (l *lines) finish(p progress) {
	l.finished, l.progress = true, p
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
		if err := l.fill(l.x.ctx); err != nil {
			p := problemOf(err)
			l.x.noteBroken(err)
			if p.gone {
				l.x.out.abort()
				return written, err
			}
			p.nextOffset = l.st.NextOffset()
			l.frame("error", p.nextOffset, func() {
				l.buf = append(p.appendFields(append(l.buf, '{'), string(l.x.id)), '}')
			})
			l.finished = true
			continue
		}
		if l.finished {
			l.x.setProgress(l.progress)
			l.x.setCost(l.st.Stats())
		}
	}
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
