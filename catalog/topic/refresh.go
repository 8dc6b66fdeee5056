package topic

import (
	"context"
	"errors"
	"sync"

	"coldtap/tier"
)

// refresh collects those who wait for a newer view: calls that wait together share one look.
type refresh struct {
	kick chan struct{}

	mu      sync.Mutex
	waiting []chan error
	closed  bool
}

func newRefresh() *refresh { return &refresh{kick: make(chan struct{}, 1)} }

var errClosed = errors.New("the follower is closed")

// join asks for a look that begins after the call.
func (r *refresh) join() (<-chan error, error) {
	answer := make(chan error, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	r.waiting = append(r.waiting, answer)
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return answer, nil
}

func (r *refresh) take() []chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waiting
	r.waiting = nil
	return w
}

// close refuses all that wait and will wait; false when it was closed before.
func (r *refresh) close() bool {
	r.mu.Lock()
	before := r.closed
	r.closed = true
	r.mu.Unlock()
	for _, answer := range r.take() {
		answer <- errClosed
	}
	return !before
}

// Refresh catches up with the topic's ends and the cluster's bounds as they are now; when it returns nil, all that the
// cluster held before the call is in Snapshot. Errors are *catalog.Error, of kind NotReady while the first replay runs
// and else Unavailable. It takes at most 5 s while brokers are away.
func (f *Follower) Refresh(ctx context.Context, partition tier.PartitionID) error {
	answer, err := f.refresh.join()
	if err != nil {
		return unavailable(err)
	}
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && !f.published.Load():
		return notReady(err)
	}
	return unavailable(err)
}

func (f *Follower) answerRefreshes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.refresh.kick:
		}
		waiting := f.refresh.take()
		if len(waiting) == 0 {
			continue
		}
		err := f.catchUp(ctx)
		for _, answer := range waiting {
			answer <- err
		}
	}
}

// catchUp waits until the view holds what the topic holds now, then asks the cluster for its bounds.
func (f *Follower) catchUp(ctx context.Context) error {
	if f.place.Load() == nil || !f.published.Load() {
		return errors.New("the metadata topic is still being read")
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ends, err := f.brokers.offsets(ctx, f.place.Load(), latest)
	if err != nil {
		// A leader may have moved.
		at, lost := f.brokers.locate(ctx)
		if lost != nil {
			return errors.Join(err, lost)
		}
		if ends, err = f.brokers.offsets(ctx, at, latest); err != nil {
			return err
		}
	}
	if err := f.progress.reach(ctx, ends); err != nil {
		return err
	}
	return f.ask(ctx)
}
