package rangeio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config tunes a Client. Zero values take the defaults.
type Config struct {
	Attempts     int           // per read or write, default 3 (first included); resumes after a broken body count
	MaxBackoff   time.Duration // default 2 s, full jitter from 50 ms
	StallTimeout time.Duration // no byte for so long = the attempt is dead; default 10 s
	Logger       *slog.Logger  // retries at debug level; nil = silent
	Registerer   prometheus.Registerer
}

// Client makes a Backend reliable. Safe for concurrent use. It holds no resources of its own: the Backend is closed by
// the code that opened it.
type Client struct {
	backend Backend
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	health  *health
}

// NewClient wraps b. Metrics go to cfg.Registerer when there is one; one Registerer serves one Client.
func NewClient(b Backend, cfg Config) *Client {
	if cfg.Attempts <= 0 {
		cfg.Attempts = 3
	}
	if cfg.MaxBackoff <= 0 {
		cfg.MaxBackoff = 2 * time.Second
	}
	if cfg.StallTimeout <= 0 {
		cfg.StallTimeout = 10 * time.Second
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := newMetrics(cfg.Registerer)
	return &Client{backend: b, cfg: cfg, log: log, metrics: m, health: newHealth(log, m.readable)}
}

// String names the store.
func (c *Client) String() string { return c.backend.String() }

// Stat gives size and version of key.
func (c *Client) Stat(ctx context.Context, key string) (Info, error) {
	var info Info
	err := c.retry(ctx, opStat, key, func() *Error {
		actx, watch := watchStall(ctx, c.cfg.StallTimeout)
		defer watch.stop()
		var err error
		info, err = c.backend.Stat(actx, key)
		return classify(ctx, actx, opStat, key, err)
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// Put writes the whole object, atomically and durably. A failed attempt starts over with the first byte. Full,
// Forbidden, BadKey and BadContent are final at once.
func (c *Client) Put(ctx context.Context, key string, content Content) (Info, error) {
	var info Info
	err := c.retry(ctx, opPut, key, func() *Error {
		// No stall watch around a write: a store may need minutes to join the parts. The S3 transport bounds each write to
		// its socket instead.
		var err error
		info, err = c.backend.Put(ctx, key, content)
		return classify(ctx, ctx, opPut, key, err)
	})
	if err != nil {
		return Info{}, err
	}
	c.metrics.written.Add(float64(content.Size()))
	return info, nil
}

// Delete removes key; a missing object is no error.
func (c *Client) Delete(ctx context.Context, key string) error {
	return c.retry(ctx, opDelete, key, func() *Error {
		actx, watch := watchStall(ctx, c.cfg.StallTimeout)
		defer watch.stop()
		return classify(ctx, actx, opDelete, key, c.backend.Delete(actx, key))
	})
}

// listError carries an error of the caller's function through the retries, which must not touch it.
type listError struct{ err error }

func (e listError) Error() string { return e.err.Error() }

// List calls fn once for each object whose key begins with prefix, in key order, however often the listing had to begin
// again. An error of fn ends it and comes back as it is.
func (c *Client) List(ctx context.Context, prefix string, fn func(Object) error) error {
	var (
		last    string // greatest key that fn has seen
		fnError error
	)
	err := c.retry(ctx, opList, prefix, func() *Error {
		// Pages without a match can be long in coming (a walk of many folders), so silence counts only after six times the
		// usual.
		actx, watch := watchStall(ctx, 6*c.cfg.StallTimeout)
		defer watch.stop()
		err := c.backend.List(actx, prefix, func(o Object) error {
			if o.Key <= last {
				return nil
			}
			watch.hold()
			defer watch.progress()
			if err := fn(o); err != nil {
				return listError{err}
			}
			last = o.Key
			return nil
		})
		if stop, ok := errors.AsType[listError](err); ok {
			fnError = stop.err
			return nil
		}
		return classify(ctx, actx, opList, prefix, err)
	})
	if err != nil {
		return err
	}
	return fnError
}

// retry runs attempts until one succeeds, one fails for good, or they are used up.
func (c *Client) retry(ctx context.Context, op, key string, attempt func() *Error) error {
	badAnswers := 0
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return canceled(ctx, op, key)
		}
		end := c.metrics.startAttempt(op)
		err := attempt()
		end(err)
		if err == nil {
			c.health.observe(op, nil)
			return nil
		}
		if err.Kind == BadAnswer {
			badAnswers++
			// Nonsense may come from one bad server behind the address, so it is asked for once more; the second such answer is
			// final.
			err.exhausted = err.exhausted || badAnswers > 1 || n >= c.cfg.Attempts
		}
		if !err.Retriable() || n >= c.cfg.Attempts {
			c.health.observe(op, err)
			return err
		}
		d := backoff(n, err.Kind, c.cfg.MaxBackoff)
		c.log.Debug("store operation is tried again", "op", op, "key", key, "attempt", n, "after", d, "err", err)
		c.metrics.retries[op].Inc()
		if !pause(ctx, d) {
			return canceled(ctx, op, key)
		}
	}
}

// canceled is the error of an operation whose context ended.
func canceled(ctx context.Context, op, key string) *Error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &Error{Kind: Canceled, Op: op, Key: key, Err: err}
}

// classify turns a backend's error into *Error. It distinguishes the caller's cancellation (ctx) from the stall watch's
// (actx).
func classify(ctx, actx context.Context, op, key string, err error) *Error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return canceled(ctx, op, key)
	}
	if cause, ok := stalled(actx); ok {
		return &Error{Kind: Unavailable, Op: op, Key: key, Err: cause}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		c := *e
		return &c
	}
	return &Error{Kind: Unavailable, Op: op, Key: key, Err: err}
}
