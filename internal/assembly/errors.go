package assembly

import (
	"context"
	"errors"
	"time"

	"coldtap/fetch"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/readerpool"
	"coldtap/tier"
)

// retryStore is when to come back after the store throttled or could not be reached.
const retryStore = 2 * time.Second

// translate turns an error of pool, layout or store into fetch's words. Context errors pass through: whether a caller
// left or a deadline passed is for fetch to say.
func translate(err error, seg *tier.Segment) error {
	if err == nil {
		return nil
	}
	e := &fetch.Error{Kind: fetch.Internal, Segment: seg.ID, Position: -1, NextOffset: -1, Err: err}
	if refused, ok := errors.AsType[*readerpool.Error](err); ok {
		e.Kind, e.Detail, e.RetryAfter = fetch.Busy, "the store's reader queue is full", refused.RetryAfter
		return e
	}
	if content, ok := errors.AsType[*layout.Error](err); ok {
		e.Kind, e.Detail = fetch.Missing, content.Error()
		if content.Unreadable {
			e.Kind, e.Position = fetch.Damaged, content.Position
		}
		return e
	}
	store, ok := errors.AsType[*rangeio.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return e
	}
	switch store.Kind {
	case rangeio.Canceled:
		return store.Err
	case rangeio.NotFound, rangeio.Changed, rangeio.BadRange, rangeio.BadAnswer, rangeio.BadKey:
		e.Kind = fetch.Missing
		e.Detail = "the object " + store.Key + " is missing or not what the metadata says"
	case rangeio.Throttled, rangeio.Unavailable:
		e.Kind, e.RetryAfter = fetch.Unreachable, retryStore
		e.Detail = "the object store is unreachable or throttling"
	case rangeio.NoBucket, rangeio.Forbidden:
		e.Kind, e.RetryAfter = fetch.Unreachable, retryStore
		e.Detail = "the object store refuses access (bucket or credentials)"
	}
	return e
}
