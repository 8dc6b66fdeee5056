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

// callersShare is what a stream leaves of the decode memory: its caller may hold up to 64 KiB of it while it waits for
// the stream (the buffer of an ndjson answer), and a stream that wants all of the rest would wait for its own caller.
const callersShare = 128 << 10

var errDecodeMemory = errors.New("decode memory is in use")

// grant is what one stream holds of the decode memory, for batches that had to be assembled and for their decoder. It
// is a segment.Budget that refuses instead of waiting, because its user may hold a chunk: see wait.
type grant struct {
	from    *budget.Budget
	share   *budget.Share // of from, whose bytes it holds
	small   bool          // little may come from what from keeps for small reservations: the answer holds it no longer than it is made
	held    int64         // reserved in from
	reserve int64         // of held, as a small reservation
	used    int64         // of held
	want    int64         // what the refused reservation would have made of used
	keeping bool          // held was waited for: keep what is released until trim
}

// smallGrant is how much one stream takes of the reserve for small reservations: a batch of the usual size,
// decompressed.
const smallGrant = 256 << 10

// most is what one stream may come to hold. More is not worth waiting for: it never comes.
func (g *grant) most() int64 {
	size := g.from.Large()
	return size - min(callersShare, size/8)
}

// hopeless says that what Reserve last refused can't be had, however long one waits.
func (g *grant) hopeless() bool { return g.want > g.most() }

// Reserve takes n bytes if that needs no waiting.
func (g *grant) Reserve(n int64) error {
	if more := g.used + n - g.held; more > 0 {
		switch {
		case g.used+n > g.most():
			g.want = g.used + n
			return errDecodeMemory
		case g.share.TryAcquire(more):
		case g.small && g.reserve+more <= smallGrant && g.from.Small().TryAcquire(more):
			g.reserve += more
		default:
			g.want = g.used + n
			return errDecodeMemory
		}
		g.held += more
	}
	g.used += n
	return nil
}

// lastStep is how many bytes Reserve could still have given when it last refused, before anything was released.
func (g *grant) lastStep() int64 { return g.most() - g.used }

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
		small := min(spare, g.reserve)
		g.from.Small().Release(small)
		g.share.Release(spare - small)
		g.held -= spare
		g.reserve -= small
	}
}

// move takes n used bytes out of the grant's account: whoever gets them releases them to the share.
func (g *grant) move(n int64) {
	g.used -= n
	g.held -= n
}

// wait reserves what Reserve last refused, which must not be hopeless. Nothing may be held: neither a chunk nor decode
// memory, else two streams could wait for each other.
func (g *grant) wait(ctx context.Context, w *waiter) error {
	p := w.begin(ctx)
	short, cancel := context.WithTimeout(p, memoryPatience)
	defer cancel()
	err := g.share.Acquire(short, g.want)
	if err != nil && ctx.Err() == nil {
		w.end(p, nil, nil)
		return failure(Busy, err, "decode memory is in use")
	}
	if err := w.end(p, nil, err); err != nil {
		return err
	}
	g.held, g.keeping = g.want, true
	return nil
}
