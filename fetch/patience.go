package fetch

import (
	"context"
	"sync"
	"time"
)

// patience is the context of one wait. It ends with its parent, or once waiting took longer than allowed. The clock
// starts when somebody first asks for Done, that is when there is something to wait for: what is in memory costs
// neither a timer nor a look at the clock.
type patience struct {
	context.Context
	allowed time.Duration
	bounded bool

	mu struct {
		sync.Mutex
		inner  context.Context
		cancel context.CancelFunc
		since  time.Time
	}
}

// Done starts the clock.
func (p *patience) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.inner == nil {
		p.mu.since = time.Now()
		if p.bounded {
			p.mu.inner, p.mu.cancel = context.WithTimeout(p.Context, p.allowed)
		} else {
			p.mu.inner, p.mu.cancel = context.WithCancel(p.Context)
		}
	}
	return p.mu.inner.Done()
}

func (p *patience) current() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.inner == nil {
		return p.Context
	}
	return p.mu.inner
}

// Err and Value answer as the running clock's context does, so that contexts derived from this one find their parent.
func (p *patience) Err() error                  { return p.current().Err() }
func (p *patience) Value(key any) any           { return p.current().Value(key) }
func (p *patience) Deadline() (time.Time, bool) { return p.current().Deadline() }

// stop ends the wait and tells how long it was, 0 when nothing had to be waited for.
func (p *patience) stop() (waited time.Duration, expired bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.inner == nil {
		return 0, false
	}
	expired = p.mu.inner.Err() != nil && p.Context.Err() == nil
	p.mu.cancel()
	return time.Since(p.mu.since), expired
}

// waiter spends a request's time for waiting and keeps the request's statistics.
type waiter struct {
	allowed time.Duration
	left    time.Duration
	bounded bool
	anew    bool // progress starts the time anew
	stats   Stats
	spare   *patience // of a wait that was none
}

func (w *waiter) reset(timeout time.Duration, anew bool) {
	*w = waiter{allowed: timeout, left: timeout, bounded: timeout > 0, anew: anew, spare: w.spare}
}

// progressed notes that something came that had not been there before.
func (w *waiter) progressed() {
	if w.anew {
		w.left = w.allowed
	}
}

// begin makes the context of a wait; end must follow. Nothing may keep the context for later without having asked for
// Done: it is used again.
func (w *waiter) begin(ctx context.Context) *patience {
	p := w.spare
	if p == nil {
		p = new(patience)
	}
	w.spare = nil
	p.Context, p.allowed, p.bounded = ctx, max(w.left, 0), w.bounded
	return p
}

// end books the wait in spent, which may be nil, and translates err.
func (w *waiter) end(p *patience, spent *time.Duration, err error) error {
	ctx := p.Context
	waited, expired := p.stop()
	w.left -= waited
	if spent != nil {
		*spent += waited
	}
	if p.mu.inner == nil {
		p.Context = nil
		w.spare = p
	}
	if err != nil {
		return translate(ctx, expired, err)
	}
	return nil
}
