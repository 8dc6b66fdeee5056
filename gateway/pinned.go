package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"coldtap/gateway/engine"

	"github.com/valyala/fasthttp"
)

// pinned is a body of bytes from pinned chunks: raw batches and segment files. It pins only what it has not written
// yet.
type pinned struct {
	x    *exchange
	src  pieces
	st   stream // the same as src for records, nil for a file
	held [maxPieces]piece
	n    int
	left int64 // bytes still to come of the declared length, -1: length unknown
	to   int64 // of a file: where the asked range ends
	all  bool  // what is held is all there is

	toEnd  bool  // the answer reaches the asked end or breaks
	broken error // ends the answer behind what is held

	// bounded: the answer is short enough to be collected whole before the status line. Pieces beyond those held are
	// copied to rest, one block of the decode budget, which is sent behind them.
	bounded bool
	rest    *engine.Block
}

// boundedBelow is the largest max_bytes with which batches always come with a length, and the length of rest.
const boundedBelow = 1 << 20

func (b *pinned) reset(x *exchange, src pieces, st stream) {
	*b = pinned{x: x, src: src, st: st, left: -1}
	x.SetBody(b)
}

// sendBatches sends batches as they are stored. When all of the answer was collected before the status line, its length
// and progress are headers; otherwise it is chunked, and the progress follows in trailers.
func sendBatches(x *exchange, ctx *fasthttp.RequestCtx, st stream) error {
	b := &x.pinned
	b.reset(x, st, st)
	b.toEnd = x.want.toEnd
	b.bounded = x.req.MaxBytes <= boundedBelow
	// An answer that may be longer than may be pinned ahead starts as soon as there is something worth a write.
	enough := x.srv.lookAhead
	if x.req.MaxBytes > enough {
		enough = min(enough, engine.WriteSlice)
	}
	size, cut, err := b.collect(x.Context(), enough)
	if err != nil {
		return err
	}
	if !b.all {
		x.sendStream(ctx, engine.Identity)
		return nil
	}
	if cut.end == 0 {
		cut = progressOf(st)
	}
	x.reportAll(cut, st)
	b.left = size
	x.Send(ctx, size, engine.Identity)
	return nil
}

// hold keeps a piece pinned.
func (b *pinned) hold(p piece) {
	b.noteMemory(p)
	b.held[b.n] = p
	b.n++
}

// copyToRest copies a piece to rest; false when there is no room.
func (b *pinned) copyToRest(p piece) bool {
	defer p.Release()
	if b.rest == nil {
		share := b.x.srv.decode.General()
		if b.rest = engine.TryBlock(share, boundedBelow); b.rest == nil {
			share.Press(boundedBelow)
			return false
		}
		b.x.Holds(b.rest.Memory())
	}
	if cap(b.rest.B)-len(b.rest.B) < len(p.Bytes()) {
		return false
	}
	b.rest.B = append(b.rest.B, p.Bytes()...)
	return true
}

// truncate gives back what was kept behind the last whole batch.
func (b *pinned) truncate(pieces, rest int) {
	for b.n > pieces {
		b.n--
		b.held[b.n].Release()
		b.held[b.n] = nil
	}
	if b.rest != nil {
		b.rest.B = b.rest.B[:rest]
	}
}

// collect pins pieces of a record stream up to the end or to enough bytes. A bounded answer is collected whole: where
// batches lie between hidden ones, or chunks are small, it has more pieces than may be held. all true: the answer is
// size bytes. An error behind the first whole batch ends the answer there, cleanly, and cut, else zero, says where: the
// client makes progress, and the next request meets the error by itself. So does memory pressure that interrupts a
// wait, since readers that wait for chunks while they hold some could wait for each other. Where the answer was
// promised up to its end (toEnd), it breaks there instead, or it would look like all there is.
func (b *pinned) collect(ctx context.Context, enough int64) (size int64, cut progress, err error) {
	wholeN, wholeRest, wholeSize := 0, 0, int64(0) // as far as pieces end with a whole batch
	for b.bounded || b.n < maxPieces && size < enough {
		if wholeN > 0 {
			b.x.BeginLookAhead(b.toEnd)
		} else {
			b.x.BeginWait()
		}
		before := b.st.NextOffset()
		p, err := b.src.next(ctx, b.n)
		interrupted := b.x.EndWait()
		if err == io.EOF {
			b.all = true
			return size, progress{}, nil
		}
		next := b.st.NextOffset()
		if err == nil {
			n := int64(len(p.Bytes()))
			room := !b.bounded || b.n < maxPieces-1 && size < enough
			if room || wholeN == 0 {
				b.hold(p)
			}
			switch {
			case !room && wholeN == 0:
				// A first batch in so many pieces may be longer than all that can be kept: it is sent while it is read.
				return size + n, progress{}, nil
			case !room && !b.copyToRest(p):
				next, err = before, memoryBusy()
			default:
				if size += n; b.st.Whole() {
					wholeN, wholeSize = b.n, size
					if b.rest != nil {
						wholeRest = len(b.rest.B)
					}
				}
			}
		}
		if err == nil && !interrupted {
			continue
		}
		if wholeN == 0 || !interrupted && problemOf(err).gone {
			return 0, progress{}, err
		}
		b.truncate(wholeN, wholeRest)
		if b.toEnd {
			if b.broken = err; interrupted {
				b.broken = memoryBusy()
			}
			return wholeSize, progress{}, nil
		}
		b.all = true
		return wholeSize, limitAt(next), nil
	}
	return size, progress{}, nil
}

// WriteBody writes the body, releasing each piece as soon as it is written.
func (b *pinned) WriteBody(w *engine.Writer) error {
	for i := range b.n {
		p := b.held[i]
		b.held[i] = nil
		if err := b.writePiece(w, p); err != nil {
			return err
		}
	}
	if b.rest != nil {
		if err := b.write(w, b.rest.B); err != nil {
			return err
		}
	}
	for !b.all {
		var p piece
		err := b.broken
		if err == nil {
			b.x.BeginWait()
			p, err = b.src.next(b.x.Context(), 0)
			b.x.EndWait()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return b.breakOff(err)
		}
		if err := b.writePiece(w, p); err != nil {
			return err
		}
	}
	if b.left > 0 {
		return b.breakOff(fmt.Errorf("the body is %d bytes short of its declared length", b.left))
	}
	if b.left < 0 {
		b.x.reportAll(progressOf(b.st), b.st)
	}
	return nil
}

// breakOff logs why the body ends here, and how far it has come.
func (b *pinned) breakOff(err error) error {
	reached := slog.Int64("position", b.to-b.left)
	if b.st != nil {
		reached = slog.Int64("offset", b.st.NextOffset())
	}
	b.x.logBroken(err, reached)
	return err
}

// noteMemory notes which memory a piece lies in.
func (b *pinned) noteMemory(p piece) {
	if p.InDecodeMemory() {
		b.x.Holds(engine.Memory(b.x.srv.decode.Streams().Set()))
	} else {
		b.x.Holds(engine.Chunks)
	}
}

func (b *pinned) writePiece(w *engine.Writer, p piece) error {
	defer p.Release()
	b.noteMemory(p)
	return b.write(w, p.Bytes())
}

func (b *pinned) write(w *engine.Writer, p []byte) error {
	if b.left >= 0 {
		if int64(len(p)) > b.left {
			return b.breakOff(errors.New("the body is longer than its declared length"))
		}
		b.left -= int64(len(p))
	}
	return w.Write(p)
}

// Close releases what was not written.
func (b *pinned) Close() {
	for i, p := range b.held {
		if p != nil {
			p.Release()
			b.held[i] = nil
		}
	}
	if b.rest != nil {
		b.rest.Free()
		b.rest = nil
	}
	if b.st != nil {
		b.x.closeStream(b.st)
	} else {
		b.src.Close()
	}
}
