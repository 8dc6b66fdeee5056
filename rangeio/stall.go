package rangeio

import (
	"context"
	"fmt"
	"time"
)

// stallError is the cause of a context that a stallWatch ended.
type stallError struct{ after time.Duration }

func (e stallError) Error() string { return fmt.Sprintf("no byte for %v", e.after) }

// stallWatch ends an attempt in which nothing moves. A deadline for the whole attempt would do harm: a large range over
// a slow link is healthy as long as bytes arrive. The transport's own read timeout is no substitute, since it also
// kills idle pooled connections.
type stallWatch struct {
	after  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// watchStall gives the attempt's context. The caller calls progress for every sign of life, and stop at the end.
func watchStall(ctx context.Context, after time.Duration) (context.Context, *stallWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &stallWatch{after: after, cancel: cancel}
	w.timer = time.AfterFunc(after, func() { cancel(stallError{after}) })
	return ctx, w
}

func (w *stallWatch) progress() { w.timer.Reset(w.after) }

// hold suspends the watch while the caller itself is busy; progress resumes it.
func (w *stallWatch) hold() { w.timer.Stop() }

// stop ends the attempt's context: a body that was not read to its end is cut off by it.
func (w *stallWatch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// stalled reports whether ctx was ended by a stallWatch.
func stalled(ctx context.Context) (error, bool) {
	cause, ok := context.Cause(ctx).(stallError)
	return cause, ok
}
