package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/valyala/fasthttp"
)

// body streams bytes from pinned chunks to the socket: raw batches and segment files. It pins only what it has not
// written yet.
type body struct {
	x    *exchange
	src  pieces
	st   stream // the same as src for records, nil for a file
	held [maxPieces]piece
	n    int
	left int64 // bytes still owed of a declared length, -1: length unknown
	to   int64 // of a file: where the asked range ends
	all  bool  // what is held is all there is

	toEnd  bool  // the answer reaches the asked end or breaks
	broken error // ends the answer behind what is held

	// bounded: the answer is short enough to be seen whole. What cannot be held of it is copied to rest, which follows
	// what is held: one block, of the decode budget.
	bounded bool
	rest    *block
}

// boundedBelow is the largest max_bytes with which batches always come with a length, and the length of rest.
const boundedBelow = 1 << 20

// bodyStream is what fasthttp asks of a body, and what closeDelimited does.
type bodyStream interface {
	io.Reader
	fasthttp.BodyWriterTo
	io.Closer
}

var errNeverRead = errors.New("a body is written, never read")

func (b *body) reset(x *exchange, src pieces, st stream) {
	*b = body{x: x, src: src, st: st, left: -1}
}

// first pulls the first piece, so that what fails before the first byte is an error with a proper status.
func (b *body) first(ctx context.Context) error {
	b.x.enter(phaseWaiting)
	p, err := b.src.next(ctx, 0)
	b.x.enter(phaseBusy)
	if err != nil {
		return err
	}
	b.hold(p)
	return nil
}

func (b *body) hold(p piece) {
	b.noteHeld(p)
	b.held[b.n] = p
	b.n++
}

// keep holds a piece, or copies it when no more are to be held; false when there is no room.
func (b *body) keep(p piece, hold bool) bool {
	if hold {
		b.hold(p)
		return true
	}
	defer p.Release()
	if b.rest == nil {
		if !b.x.srv.decode.TryAcquire(boundedBelow) {
			b.x.srv.decode.Press()
			return false
		}
		b.x.holds.Store(b.x.holds.Load() | uint32(decodeMemory))
		b.rest = newBlock(boundedBelow)
	}
	if cap(b.rest.b)-len(b.rest.b) < len(p.Bytes()) {
		return false
	}
	b.rest.b = append(b.rest.b, p.Bytes()...)
	return true
}

// keepWhole gives back what was kept behind the last whole batch.
func (b *body) keepWhole(pieces, rest int) {
	for b.n > pieces {
		b.n--
		b.held[b.n].Release()
		b.held[b.n] = nil
	}
	if b.rest != nil {
		b.rest.b = b.rest.b[:rest]
	}
}

// collect pins pieces of a record stream until it has seen the end or enough bytes, or, of a bounded answer, keeps all
// of it: batches between hidden ones, or small chunks, make more pieces than may be held. all true: the answer is size
// bytes. An error behind the first whole batch ends the answer there, cleanly, and cut, else zero, says where: the
// client makes progress, and the next request meets the error by itself. So does memory pressure while it waits
// (hurryUp), since readers that wait for chunks while they hold some could wait for each other. Where the client
// expects no limit (toEnd), the answer breaks there instead, or it would look like all there is.
func (b *body) collect(ctx context.Context, enough int64) (size int64, cut progress, err error) {
	wholeN, wholeRest, wholeSize := 0, 0, int64(0) // as far as pieces end with a whole batch
	for b.bounded || b.n < maxPieces && size < enough {
		if wholeN > 0 {
			b.x.enter(phaseAhead)
		} else {
			b.x.enter(phaseWaiting)
		}
		before := b.st.NextOffset()
		p, err := b.src.next(ctx, b.n)
		hurried := b.x.enter(phaseBusy) == phaseHurried
		if err == io.EOF {
			b.all = true
			return size, progress{}, nil
		}
		next := b.st.NextOffset()
		if err == nil {
			n := int64(len(p.Bytes()))
			hold := !b.bounded || b.n < maxPieces-1 && size < enough
			if !hold && wholeN == 0 {
				// A first batch in so many pieces may be longer than all that can be kept: it is sent while it is read.
				b.hold(p)
				return size + n, progress{}, nil
			}
			if !b.keep(p, hold) {
				next, err = before, memoryBusy()
			} else if size += n; b.st.Whole() {
				wholeN, wholeSize = b.n, size
				if b.rest != nil {
					wholeRest = len(b.rest.b)
				}
			}
		}
		if err == nil && !hurried {
			continue
		}
		if wholeN == 0 || !hurried && problemOf(err).gone {
			return 0, progress{}, err
		}
		b.keepWhole(wholeN, wholeRest)
		if b.toEnd {
			if b.broken = err; hurried {
				b.broken = memoryBusy()
			}
			return wholeSize, progress{}, nil
		}
		b.all = true
		return wholeSize, limitAt(next), nil
	}
	return size, progress{}, nil
}

func (b *body) Read([]byte) (int, error)  { return 0, errNeverRead }
func (b *body) SupportsBodyWriteTo() bool { return true }

// WriteTo writes the body, releasing each piece as soon as it is written.
func (b *body) WriteTo(to io.Writer) (written int64, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			b.x.notePanic(cause)
			err = errors.New("panic while writing a body")
		}
		if err != nil {
			b.x.out.abort()
		}
	}()
	b.x.out.begin(to)
	for i := range b.n {
		n, err := b.writePiece(b.held[i])
		b.held[i] = nil
		written += n
		if err != nil {
			return written, err
		}
	}
	if b.rest != nil {
		n, err := b.writeBytes(b.rest.b)
		written += n
		if err != nil {
			return written, err
		}
	}
	for !b.all {
		var p piece
		err := b.broken
		if err == nil {
			b.x.enter(phaseWaiting)
			p, err = b.src.next(b.x.ctx, 0)
			b.x.enter(phaseBusy)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			b.x.noteBroken(err, b.reached())
			return written, err
		}
		n, err := b.writePiece(p)
		written += n
		if err != nil {
			return written, err
		}
	}
	if b.left > 0 {
		err := fmt.Errorf("the body is %d bytes short of its declared length", b.left)
		b.x.noteBroken(err, b.reached())
		return written, err
	}
	if b.st != nil && b.x.out.framing == framedByChunks {
		b.x.setProgress(progressOf(b.st))
		b.x.setCost(b.st.Stats())
	}
	return written, nil
}

// reached says how far the body has come.
func (b *body) reached() slog.Attr {
	if b.st != nil {
		return slog.Int64("offset", b.st.NextOffset())
	}
	return slog.Int64("position", b.to-b.left)
}

// noteHeld adds the memory that a piece lies in to what the exchange is known to hold.
func (b *body) noteHeld(p piece) {
	kind := chunkMemory
	if p.InDecodeMemory() {
		kind = decodeMemory
	}
	b.x.holds.Store(b.x.holds.Load() | uint32(kind))
}

func (b *body) writePiece(p piece) (int64, error) {
	defer p.Release()
	b.noteHeld(p)
	return b.writeBytes(p.Bytes())
}

func (b *body) writeBytes(bytes []byte) (int64, error) {
	if b.left >= 0 {
		if int64(len(bytes)) > b.left {
			err := fmt.Errorf("the body is longer than its declared length")
			b.x.noteBroken(err, b.reached())
			return 0, err
		}
		b.left -= int64(len(bytes))
	}
	if err := b.x.out.write(bytes); err != nil {
		return 0, err
	}
	return int64(len(bytes)), nil
}

// Close releases what was not written.
func (b *body) Close() error {
	for i, p := range b.held {
		if p != nil {
			p.Release()
			b.held[i] = nil
		}
	}
	if b.rest != nil {
		b.rest.free()
		b.rest = nil
		b.x.srv.decode.Release(boundedBelow)
	}
	if b.st != nil {
		b.x.requests = b.st.Stats().StoreRequests
	}
	b.src.Close()
	b.x.bodyClosed()
	return nil
}
