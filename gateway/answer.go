package gateway

import (
	"context"
	"sync"

	"coldtap/gateway/engine"
	"coldtap/internal/budget"

	"github.com/valyala/fasthttp"
)

// answer is a JSON body that is whole before its status line, in blocks that are reserved from the decode budget
// before they are allocated and given back as they are written.
type answer struct {
	x         *exchange
	st        stream // what it is built from, until it is
	head      []byte // written first, though it is known last
	blocks    []*engine.Block
	held      int64 // reserved, for blocks and head
	headRoom  int64 // of held, for the head
	headShare *budget.Share
}

var answers = sync.Pool{New: func() any { return new(answer) }}

func (x *exchange) newAnswer() *answer {
	a := answers.Get().(*answer)
	a.x = x
	x.SetBody(a)
	return a
}

// reserve takes n bytes of the decode budget, waiting for them as long as the request may wait. held is what the
// request holds of the budget already. Where n would not fit beside it even if nothing else were in use, the answer is
// an error at once, and not one that says when to come back.
func (x *exchange) reserve(share *budget.Share, n, held int64) error {
	if share.TryAcquire(n) {
		return nil
	}
	if most := x.srv.decode.Large(); n+held > most {
		return newProblem(codeTooLarge, "a record takes %d bytes as JSON beside %d for its batch, above what answers may have of limits.decode_memory (%d); read it as %s",
			n, held, most, formats[formatBatches].mediaType)
	}
	ctx, cancel := context.WithTimeout(x.Context(), x.req.Timeout)
	defer cancel()
	x.BeginWait()
	err := share.Acquire(ctx, n)
	x.EndWait()
	if err != nil {
		if x.Context().Err() != nil {
			return x.Context().Err()
		}
		return memoryBusy()
	}
	return nil
}

// shareFor gives the share that the next block, of this length, is reserved from. All blocks of a listing and the first
// of records are small reservations, so that short answers are made whatever long ones hold.
func (a *answer) shareFor(size int) *budget.Share {
	decode := a.x.srv.decode
	most := engine.BlockSizes[len(engine.BlockSizes)-1]
	if a.st != nil {
		most = engine.BlockSizes[1]
	}
	if (a.st == nil || len(a.blocks) == 0) && int64(size) <= min(decode.Reserve(), int64(most)) {
		return decode.Small()
	}
	return decode.General()
}

// blockFor gives the block with room for n more bytes, which the caller appends to by setting its B. The first block
// may be waited for; later ones are had at once or refused (ok false): answers that wait for memory while they hold
// some could all wait for each other.
func (a *answer) blockFor(n int) (b *engine.Block, ok bool, err error) {
	if len(a.blocks) > 0 {
		b = a.blocks[len(a.blocks)-1]
		if cap(b.B)-len(b.B) >= n {
			return b, true, nil
		}
	}
	sizes := engine.BlockSizes[:]
	size := sizes[min(len(a.blocks), len(sizes)-1)]
	for i := 0; size < n && i < len(sizes); i++ {
		size = max(size, sizes[i])
	}
	size = max(size, n)
	share := a.shareFor(size)
	if len(a.blocks) == 0 {
		held := a.held
		if a.st != nil {
			held += a.st.DecodeHeld()
		}
		if err := a.x.reserve(share, int64(size), held); err != nil {
			return nil, false, err
		}
		b = engine.NewBlock(share, size)
	} else if b = engine.TryBlock(share, size); b == nil {
		share.Press(int64(size))
		return nil, false, nil
	}
	a.x.Holds(b.Memory())
	a.held += int64(size)
	a.blocks = append(a.blocks, b)
	return b, true, nil
}

// append adds what fn appends, at most n bytes. For listings, which cannot stop halfway.
func (a *answer) append(n int, fn func(dst []byte) []byte) error {
	b, ok, err := a.blockFor(n)
	if err != nil {
		return err
	}
	if !ok {
		return memoryBusy()
	}
	b.B = fn(b.B)
	return nil
}

// appendItem is append for the element i of a list.
func (a *answer) appendItem(i, n int, fn func(dst []byte) []byte) error {
	return a.append(n+len(","), func(dst []byte) []byte {
		if i > 0 {
			dst = append(dst, ',')
		}
		return fn(dst)
	})
}

// underPressure says that the budget is nearly used up, so that an answer that has some records should end. It asks for
// memory as well: clients that have stalled with such memory would keep all answers short.
func (a *answer) underPressure() bool {
	decode := a.x.srv.decode
	if decode.InUse() <= decode.Size()/4*3 {
		return false
	}
	decode.Press()
	return true
}

// reserveHead takes n bytes for the head.
func (a *answer) reserveHead(n int64) error {
	share := a.x.srv.decode.General()
	if n <= a.x.srv.decode.Reserve() {
		share = a.x.srv.decode.Small()
	}
	if err := a.x.reserve(share, n, 0); err != nil {
		return err
	}
	a.x.Holds(engine.Memory(share.Set()))
	a.held, a.headRoom, a.headShare = a.held+n, n, share
	return nil
}

// send makes the answer the response's body. It belongs to fasthttp from then on.
func (a *answer) send(ctx *fasthttp.RequestCtx) {
	size := len(a.head)
	for _, b := range a.blocks {
		size += len(b.B)
	}
	a.x.Send(ctx, int64(size), textCoding(ctx))
}

// WriteBody writes the answer, giving back each block as soon as it is written.
func (a *answer) WriteBody(w *engine.Writer) error {
	if err := w.Write(a.head); err != nil {
		return err
	}
	for i, b := range a.blocks {
		if err := w.Write(b.B); err != nil {
			return err
		}
		a.freeBlock(i)
	}
	return nil
}

func (a *answer) freeBlock(i int) {
	if b := a.blocks[i]; b != nil {
		a.blocks[i] = nil
		b.Free()
	}
}

// closeStream ends the reading: what the answer shows is in its blocks.
func (a *answer) closeStream() {
	if a.st != nil {
		a.x.closeStream(a.st)
		a.st = nil
	}
}

// Close gives all memory back, whether the answer was written or not.
func (a *answer) Close() {
	a.closeStream()
	for i := range a.blocks {
		a.freeBlock(i)
	}
	if a.headShare != nil {
		a.headShare.Release(a.headRoom)
	}
	*a = answer{head: a.head[:0], blocks: a.blocks[:0]}
	if cap(a.head) > engine.BlockSizes[0] {
		a.head = nil
	}
	answers.Put(a)
}
