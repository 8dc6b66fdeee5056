package gateway

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"coldtap/internal/budget"

	"github.com/valyala/fasthttp"
)

// blockSizes are the lengths of the blocks that an answer grows by: small answers stay small, large ones take few
// blocks, and growing never copies.
var blockSizes = [...]int{16 << 10, 64 << 10, 256 << 10, 1 << 20}

// block is a piece of an answer's memory, pooled when it has one of the usual sizes.
type block struct {
	b     []byte
	share *budget.Share // its capacity is reserved of
}

var blockPools [len(blockSizes)]sync.Pool

func newBlock(size int) *block {
	for i, s := range blockSizes {
		if s == size {
			if b, ok := blockPools[i].Get().(*block); ok {
				return b
			}
		}
	}
	return &block{b: make([]byte, 0, size)}
}

// shareFor gives the share that the next block, of this length, is of: small reservations are all of a listing, and the
// first of records, so that short answers are made whatever long ones hold.
func (a *answer) shareFor(size int) *budget.Share {
	decode := a.x.srv.decode
	most := blockSizes[len(blockSizes)-1]
	if a.st != nil {
		most = blockSizes[1]
	}
	if (a.st == nil || len(a.blocks) == 0) && int64(size) <= min(decode.Reserve(), int64(most)) {
		return decode.Small()
	}
	return decode.General()
}

func (b *block) free() {
	for i, s := range blockSizes {
		if s == cap(b.b) {
			b.b = b.b[:0]
			blockPools[i].Put(b)
		}
	}
}

// answer is a JSON body that is whole before its status line, in blocks that are reserved from the decode budget
// before they are allocated and given back as they are written.
type answer struct {
	x      *exchange
	st     stream // what it is built from, until it is
	head   []byte // written first, though it is known last
	blocks []*block
	size   int // of head and blocks
	holds  int64
	room   int64 // of holds, for the head
	roomOf *budget.Share
}

var answers = sync.Pool{New: func() any { return new(answer) }}

func (x *exchange) newAnswer() *answer {
	a := answers.Get().(*answer)
	a.x = x
	x.owned = a
	return a
}

// reserve takes n bytes of the decode budget, waiting for them as long as the request may wait. held is what the
// request holds of the budget already: what does not fit beside that never will, and is no reason to wait or to come
// back.
func (x *exchange) reserve(share *budget.Share, n, held int64) error {
	budget := x.srv.decode
	if share.TryAcquire(n) {
		return nil
	}
	if n+held > budget.Large() {
		return newProblem(codeTooLarge, "a record takes %d bytes as JSON beside %d for its batch, above what answers may have of limits.decode_memory (%d); read it as %s",
			n, held, budget.Large(), formats[formatBatches].mediaType)
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.patience())
	defer cancel()
	x.enter(phaseWaiting)
	err := share.Acquire(ctx, n)
	x.enter(phaseBusy)
	if err != nil {
		if x.ctx.Err() != nil {
			return x.ctx.Err()
		}
		return memoryBusy()
	}
	return nil
}

// patience is how long the request may wait for memory.
func (x *exchange) patience() time.Duration {
	if x.req.Timeout > 0 {
		return x.req.Timeout
	}
	return defaultTimeout
}

// last gives the block with room for n more bytes, which the caller appends to by setting its b. The first block may
// be waited for; later ones are had at once or refused (ok false), since waiting for memory while holding some could
// leave everybody waiting.
func (a *answer) last(n int) (b *block, ok bool, err error) {
	if len(a.blocks) > 0 {
		b = a.blocks[len(a.blocks)-1]
		if cap(b.b)-len(b.b) >= n {
			return b, true, nil
		}
	}
	size := blockSizes[min(len(a.blocks), len(blockSizes)-1)]
	for i := 0; size < n && i < len(blockSizes); i++ {
		size = max(size, blockSizes[i])
	}
	size = max(size, n)
	share := a.shareFor(size)
	if len(a.blocks) == 0 {
		held := a.holds
		if a.st != nil {
			held += a.st.DecodeHeld()
		}
		if err := a.x.reserve(share, int64(size), held); err != nil {
			return nil, false, err
		}
	} else if !share.TryAcquire(int64(size)) {
		a.x.srv.decode.Press()
		return nil, false, nil
	}
	a.holds += int64(size)
	b = newBlock(size)
	b.share = share
	a.blocks = append(a.blocks, b)
	return b, true, nil
}

// append adds what fn appends, at most n bytes. For listings, which cannot stop halfway.
func (a *answer) append(n int, fn func(dst []byte) []byte) error {
	b, ok, err := a.last(n)
	if err != nil {
		return err
	}
	if !ok {
		return memoryBusy()
	}
	b.b = fn(b.b)
	return nil
}

// pressed says that the budget is nearly used up, so that an answer with something in it had better stop. That is
// pressure too: clients that have stalled over such memory would keep all answers short.
func (a *answer) pressed() bool {
	budget := a.x.srv.decode
	if budget.InUse() <= budget.Size()/4*3 {
		return false
	}
	budget.Press()
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
	a.holds, a.room, a.roomOf = a.holds+n, n, share
	return nil
}

// length is how many bytes the blocks hold.
func (a *answer) length() int {
	n := 0
	for _, b := range a.blocks {
		n += len(b.b)
	}
	return n
}

// send makes the answer the response's body. It belongs to fasthttp from then on.
func (a *answer) send(ctx *fasthttp.RequestCtx) {
	a.size = len(a.head) + a.length()
	a.x.holds.Store(uint32(decodeMemory))
	a.x.out.declareText(ctx, a, int64(a.size))
}

func (a *answer) Read([]byte) (int, error)  { return 0, errNeverRead }
func (a *answer) SupportsBodyWriteTo() bool { return true }

func (a *answer) WriteTo(to io.Writer) (written int64, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			a.x.notePanic(cause)
			err = errors.New("panic while writing a body")
		}
	}()
	a.x.out.begin(to)
	if err := a.x.out.write(a.head); err != nil {
		return 0, err
	}
	for i, b := range a.blocks {
		if err := a.x.out.write(b.b); err != nil {
			return 0, err
		}
		a.drop(i)
	}
	return int64(a.size), a.x.out.end()
}

func (a *answer) drop(i int) {
	b := a.blocks[i]
	if b == nil {
		return
	}
	a.blocks[i] = nil
	size, share := int64(cap(b.b)), b.share
	b.free()
	a.holds -= size
	share.Release(size)
}

// closeStream ends the reading: what the answer shows is in its blocks.
func (a *answer) closeStream() {
	if a.st != nil {
		a.x.requests = a.st.Stats().StoreRequests
		a.st.Close()
		a.st = nil
	}
}

// Close gives all memory back, whether the answer was written or not.
func (a *answer) Close() error {
	a.closeStream()
	for i := range a.blocks {
		a.drop(i)
	}
	x := a.x
	if a.roomOf != nil {
		a.roomOf.Release(a.room)
	}
	*a = answer{head: a.head[:0], blocks: a.blocks[:0]}
	if cap(a.head) > blockSizes[0] {
		a.head = nil
	}
	answers.Put(a)
	x.bodyClosed()
	return nil
}
