package fetch

import (
	"context"
	"errors"
	"time"

	"coldtap/internal/budget"
)

// memoryPatience bounds a wait for decode memory. Callers may hold some themselves (a JSON body under construction)
// while a stream of theirs waits for more, so a long wait would only be a slow refusal.
const memoryPatience = 2 * time.Second

var errDecodeMemory = errors.New("decode memory is in use")

// grant is what one stream holds of the decode memory, for batches that had to be assembled and for their decoder. It
// is a segment.Budget that refuses instead of waiting, because its user may hold a chunk: see wait.
type grant struct {
	from    *budget.Budget
	held    int64 // reserved in from
	used    int64 // of held
	want    int64 // what the refused reservation would have made of used
	keeping bool  // held was waited for: keep what is released until trim
}

// Reserve takes n bytes if that needs no waiting.
func (g *grant) Reserve(n int64) error {
	if more := g.used + n - g.held; more > 0 {
		if !g.from.TryAcquire(more) {
			g.want = g.used + n
			return errDecodeMemory
		}
		g.held += more
	}
	g.used += n
	return nil
}

// Release gives n bytes back.
func (g *grant) Release(n int64) {
	g.used -= n
	if !g.keeping {
		g.trim()
	}
}

// trim returns what is held but not used.
func (g *grant) trim() {
	g.keeping = false
	if spare := g.held - g.used; spare > 0 {
		g.from.Release(spare)
		g.held -= spare
	}
}

// move takes n used bytes out of the grant's account: whoever gets them releases them to the budget.
func (g *grant) move(n int64) {
	g.used -= n
	g.held -= n
}

// wait reserves what Reserve last refused. Nothing may be held: neither a chunk nor decode memory, else two streams
// could wait for each other.
func (g *grant) wait(ctx context.Context, w *waiter) error {
	p := w.begin(ctx)
	short, cancel := context.WithTimeout(p, memoryPatience)
	defer cancel()
	err := g.from.Acquire(short, g.want)
	if err != nil && ctx.Err() == nil {
		w.end(p, nil, nil)
		if g.want > g.from.Size() {
			return failure(Damaged, nil, "a batch needs %d bytes of decode memory, the bound is %d", g.want, g.from.Size())
		}
		return failure(Busy, err, "decode memory is in use")
	}
	if err := w.end(p, nil, err); err != nil {
		return err
	}
	g.held, g.keeping = g.want, true
	return nil
}
