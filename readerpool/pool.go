package readerpool

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config sizes a Pool.
type Config struct {
	// Threads is how many reads run at a time; less than 1 counts as 1.
	Threads int
	// MaxPending is how many reads may wait for a place; one more is refused with Full. 0: no read waits.
	MaxPending int
	// QueueTimeout bounds one read's waiting, which then ends with TimedOut; 0 leaves that to the read's context.
	QueueTimeout time.Duration
	// Registerer gets the metrics; nil keeps them to ourselves.
	Registerer prometheus.Registerer
}

// Pool admits reads. All methods may be called concurrently.
type Pool struct {
	threads    int
	maxPending int
	timeout    time.Duration
	metrics    *metrics

	mu      sync.Mutex
	running int
	queue   queue
	service time.Duration // moving average of how long a read takes; 0 until one has ended
	closed  bool
	idle    chan struct{} // closed once the pool is closed and nothing runs
}

// New makes a pool.
func New(cfg Config) *Pool {
	return &Pool{
		threads:    max(cfg.Threads, 1),
		maxPending: max(cfg.MaxPending, 0),
		timeout:    cfg.QueueTimeout,
		metrics:    newMetrics(cfg.Registerer),
		idle:       make(chan struct{}),
	}
}

// Do runs fn on the caller's goroutine, with ctx, once a place is free, and returns fn's error. A refusal is an *Error;
// when ctx ends while the read waits, its error is returned. fn must not call Do of the same pool: it would wait for a
// place while it holds one.
func (p *Pool) Do(ctx context.Context, lane Lane, fn func(ctx context.Context) error) error {
	if err := p.acquire(ctx, lane); err != nil {
		return err
	}
	begin := time.Now()
	defer func() { p.release(time.Since(begin)) }()
	return fn(ctx)
}

// Close refuses every read that has not started (Closed), those in the queue included, and waits for the running ones
// until ctx ends. It may be called again, to wait longer.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		for w := range p.queue.drain() {
			p.metrics.pending[w.lane].Dec()
			p.refuseLocked(w, Closed)
		}
		if p.running == 0 {
			close(p.idle)
		}
	}
	p.mu.Unlock()
	select {
	case <-p.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acquire returns nil when the caller has a place, which it must release.
func (p *Pool) acquire(ctx context.Context, lane Lane) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	begin := time.Now()
	w, err := p.admit(lane)
	if err != nil {
		return err
	}
	if w != nil {
		if err := p.wait(ctx, w); err != nil {
			return err
		}
	}
	p.metrics.admitted[lane].Inc()
	p.metrics.wait.Observe(time.Since(begin).Seconds())
	return nil
}

// admit gives a free place (nil, nil), or a position in the queue, or refuses.
func (p *Pool) admit(lane Lane) (*waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, p.errorLocked(lane, Closed)
	case p.running < p.threads:
		p.running++
		p.metrics.running.Inc()
		return nil, nil
	case p.queue.len >= p.maxPending:
		// No client waits for read-ahead, which is a guess: the latest guess makes room for a read that a client waits
		// for.
		guess := p.queue.last(Ahead)
		if lane == Ahead || guess == nil {
			return nil, p.errorLocked(lane, Full)
		}
		p.removeLocked(guess)
		p.refuseLocked(guess, Full)
	}
	w := p.queue.push(lane)
	p.metrics.pending[lane].Inc()
	return w, nil
}

// wait returns nil when w was given a place.
func (p *Pool) wait(ctx context.Context, w *waiter) error {
	var expired <-chan time.Time
	if p.timeout > 0 {
		timer := time.NewTimer(p.timeout)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case err := <-w.answer:
		return err
	case <-expired:
		return p.giveUp(w, func() error { return p.errorLocked(w.lane, TimedOut) })
	case <-ctx.Done():
		return p.giveUp(w, func() error {
			p.metrics.canceled[w.lane].Inc()
			return ctx.Err()
		})
	}
}

// giveUp takes w out of the queue and returns reason's error, unless w was answered at the same time: then the answer
// counts, because a place that was handed over must be used or released.
func (p *Pool) giveUp(w *waiter, reason func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.queued() {
		return <-w.answer
	}
	p.removeLocked(w)
	return reason()
}

// release gives a place to the next read, or frees it.
func (p *Pool) release(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// An average over the last 8 reads or so follows a store that turns slow within a fraction of a second.
	if p.service == 0 {
		p.service = took
	} else {
		p.service += (took - p.service) / 8
	}
	if w := p.queue.next(); w != nil {
		p.metrics.pending[w.lane].Dec()
		w.answer <- nil
		return
	}
	p.running--
	p.metrics.running.Dec()
	if p.closed && p.running == 0 {
		close(p.idle)
	}
}

func (p *Pool) removeLocked(w *waiter) {
	p.queue.remove(w)
	p.metrics.pending[w.lane].Dec()
}

// refuseLocked answers a waiter that is out of the queue.
func (p *Pool) refuseLocked(w *waiter, kind Kind) {
	w.answer <- p.errorLocked(w.lane, kind)
}

func (p *Pool) errorLocked(lane Lane, kind Kind) error {
	p.metrics.refused[lane][kind].Inc()
	e := &Error{Kind: kind}
	if e.Retriable() {
		e.RetryAfter = p.retryAfterLocked()
	}
	return e
}

// Bounds of Error.RetryAfter: HTTP counts in whole seconds, and after half a minute the estimate says nothing.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 30 * time.Second
)

// retryAfterLocked estimates when one more read would get a place: after those that wait now.
func (p *Pool) retryAfterLocked() time.Duration {
	rounds := float64(p.queue.len+1) / float64(p.threads)
	estimate := time.Duration(min(float64(p.service)*rounds, float64(maxRetryAfter)))
	return max(estimate, minRetryAfter)
}
