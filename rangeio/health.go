package rangeio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"coldtap/internal/episode"

	"github.com/prometheus/client_golang/prometheus"
)

// Trouble is a store that cannot be read, as its newest probe found.
type Trouble struct {
	Err       *Error
	Since     time.Time
	FromStart bool // it never could
}

// Lasting says that waiting alone is not expected to help.
func (t *Trouble) Lasting() bool { return t.Err.Kind.Remedy() != "" || t.Err.Kind == NotFound }

// String is one line for people.
func (t *Trouble) String() string {
	s := "the object store cannot be read since " + t.Since.Format(time.RFC3339)
	if r := t.Err.Kind.Remedy(); r != "" {
		s += "; " + r
	}
	return s + ": " + t.Err.Error()
}

const (
	// The pauses between probes of a store in trouble double from the first to the last.
	firstProbe = time.Second
	lastProbe  = 30 * time.Second
	// probeTime bounds a probe.
	probeTime = 15 * time.Second
	// idleProbe is the pause while there is nothing to ask for.
	idleProbe = time.Second
	// logPause is how often failures of one kind are logged.
	logPause = 10 * time.Minute
)

// ErrNothing is what a probe gives that has no object to ask for.
var ErrNothing = errors.New("nothing to ask for")

// health is what a Client knows of its store as a whole. One operation that fails proves nothing, since one object may
// be in an archive or denied; it makes Watch ask for others, and only that decides.
type health struct {
	log      *slog.Logger
	readable prometheus.Gauge
	suspect  chan struct{} // holds a token when a probe is due
	logged   episode.Seldom[Kind]

	mu struct {
		sync.Mutex
		watched bool
		asked   bool // a probe has ended
		read    bool // it could be read once
		trouble *Trouble
	}
}

func newHealth(log *slog.Logger, readable prometheus.Gauge) *health {
	h := &health{log: log, readable: readable, suspect: make(chan struct{}, 1), logged: episode.Seldom[Kind]{Every: logPause}}
	h.readable.Set(1)
	return h
}

// concernsStore says whether an error may concern the store as a whole; other answers prove that it can be read.
func concernsStore(kind Kind) bool {
	switch kind {
	case NoBucket, Forbidden, BadCredentials, Throttled, Unavailable, BadAnswer:
		return true
	}
	return false
}

// observe notes how an operation ended, its retries over.
func (h *health) observe(op string, err *Error) {
	if err == nil {
		if op == opGet {
			h.recovered()
		}
		return
	}
	if !concernsStore(err.Kind) && err.Kind != Archived {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.mu.watched {
		return
	}
	if h.logged.Due(err.Kind, time.Now()) {
		attrs := []any{"op", err.Op, "key", err.Key, "error", err}
		if r := err.Kind.Remedy(); r != "" {
			attrs = append(attrs, "remedy", r)
		}
		h.log.Warn("an operation of the object store failed; more of the kind are not logged for "+logPause.String(), attrs...)
	}
	if concernsStore(err.Kind) {
		select {
		case h.suspect <- struct{}{}:
		default:
		}
	}
}

// recovered ends the trouble, if there is any.
func (h *health) recovered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.read = true
	h.endTroubleLocked("the object store can be read again")
}

func (h *health) endTroubleLocked(why string) {
	if h.mu.trouble == nil {
		return
	}
	h.log.Info(why, "after", time.Since(h.mu.trouble.Since).Round(time.Second).String())
	h.mu.trouble = nil
	h.logged.Forget()
	h.readable.Set(1)
}

// Trouble is nil while the store can be read, as far as Watch knows. asked is false until its first probe has ended.
func (c *Client) Trouble() (t *Trouble, asked bool) {
	h := c.health
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.trouble, h.mu.asked
}

// Watch probes the store until ctx ends: at once, after an operation failed in a way that may be the whole store's, and
// for as long as probes fail. probe reads a few bytes through this Client; its error is nil when anything could be
// read, ErrNothing when there is nothing to ask for. From now on failed operations are logged, each kind once in ten
// minutes. Only one Watch at a time.
func (c *Client) Watch(ctx context.Context, probe func(context.Context) error) {
	h := c.health
	h.mu.Lock()
	h.mu.watched = true
	h.mu.Unlock()
	pause := firstProbe
	for {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, probeTime)
		err := probe(limited)
		cancel()
		if ctx.Err() != nil {
			return
		}
		wait := h.probed(err, &pause)
		if wait == 0 {
			select {
			case <-ctx.Done():
				return
			case <-h.suspect:
				wait = firstProbe - time.Since(began)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// probed notes what a probe found, and gives the pause until the next one; 0: not before something fails.
func (h *health) probed(err error, pause *time.Duration) time.Duration {
	if err == nil {
		h.recovered()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.asked = true
	switch {
	case errors.Is(err, ErrNothing):
		h.endTroubleLocked("the object store that cannot be read is not needed any more: the metadata names no object")
		return idleProbe
	case err == nil:
		*pause = firstProbe
		select {
		case <-h.suspect: // what failed before the probe
		default:
		}
		return 0
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind == Canceled {
		e = &Error{Kind: Unavailable, Op: opGet, Err: fmt.Errorf("no answer within %s: %w", probeTime, err)}
	}
	if h.mu.trouble == nil {
		h.mu.trouble = &Trouble{Since: time.Now(), FromStart: !h.mu.read}
		h.log.Warn("the object store cannot be read", "error", e, "remedy", e.Kind.Remedy())
	}
	t := *h.mu.trouble
	t.Err = e
	h.mu.trouble = &t
	h.readable.Set(0)
	wait := *pause
	*pause = min(2*wait, lastProbe)
	return wait
}

// ReadProbe reads the first byte of some of the objects, until one can be read: nil then, otherwise the last error. An
// object in an archive storage class was found and counts as read. When none of them is there, the error is NotFound.
func (c *Client) ReadProbe(ctx context.Context, keys []string) error {
	var last error = ErrNothing
	var first [1]byte
	for _, key := range keys {
		_, _, err := c.ReadRange(ctx, key, first[:], 0, "", -1)
		e, ok := errors.AsType[*Error](err)
		switch {
		case err == nil, ok && !concernsStore(e.Kind) && e.Kind != NotFound && e.Kind != Canceled:
			return nil
		case ok && e.Kind == NotFound:
			why := fmt.Errorf("of %d keys that objects of the metadata may have none is there: is it another bucket, prefix or folder?", len(keys))
			if e.Err != nil {
				why = fmt.Errorf("%w %w", why, e.Err)
			}
			err = &Error{Kind: NotFound, Op: e.Op, Key: e.Key, Err: why}
		}
		last = err
	}
	return last
}
