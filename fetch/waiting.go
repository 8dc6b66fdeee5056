package fetch

import (
	"context"
	"sync"
	"time"
)

// waitContext is the context of one wait. It ends with its parent, or once waiting took longer than allowed. The clock
// starts when Done is first asked for, that is when there is something to wait for: what is in memory costs neither a
// timer nor a look at the clock.
type waitContext struct {
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
func (c *waitContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.inner == nil {
		c.mu.since = time.Now()
		if c.bounded {
			c.mu.inner, c.mu.cancel = context.WithTimeout(c.Context, c.allowed)
		} else {
			c.mu.inner, c.mu.cancel = context.WithCancel(c.Context)
		}
	}
	return c.mu.inner.Done()
}

func (c *waitContext) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.inner == nil {
		return c.Context
	}
	return c.mu.inner
}

// Err and Value answer as the running clock's context does, so that contexts derived from this one find their parent.
func (c *waitContext) Err() error                  { return c.current().Err() }
func (c *waitContext) Value(key any) any           { return c.current().Value(key) }
func (c *waitContext) Deadline() (time.Time, bool) { return c.current().Deadline() }

// stop ends the wait and tells how long it was, 0 when nothing had to be waited for.
func (c *waitContext) stop() (waited time.Duration, expired bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.inner == nil {
		return 0, false
	}
	expired = c.mu.inner.Err() != nil && c.Context.Err() == nil
	c.mu.cancel()
	return time.Since(c.mu.since), expired
}

// waiter spends a request's time for waiting and keeps the request's statistics.
type waiter struct {
	allowed time.Duration
	left    time.Duration
	bounded bool
	restart bool // progress starts the time anew
	stats   Stats
	spare   *waitContext // of a wait that took no time, for the next one
}

func (w *waiter) reset(timeout time.Duration, restart bool) {
	*w = waiter{allowed: timeout, left: timeout, bounded: timeout > 0, restart: restart, spare: w.spare}
}

// progressed notes that something came that had not been there before.
func (w *waiter) progressed() {
	if w.restart {
		w.left = w.allowed
	}
}

// start makes the context of a wait; done must follow. Nothing may keep the context for later without having asked for
// Done: it is used again.
func (w *waiter) start(ctx context.Context) *waitContext {
	p := w.spare
	if p == nil {
		p = new(waitContext)
	}
	w.spare = nil
	p.Context, p.allowed, p.bounded = ctx, max(w.left, 0), w.bounded
	return p
}

// done books the wait in spent, which may be nil, and translates err.
func (w *waiter) done(p *waitContext, spent *time.Duration, err error) error {
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
