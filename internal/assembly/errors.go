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

// explain translates the error of a load. It logs what an operator has to repair: bytes that are missing, or are not
// what the metadata says, of a segment that is still readable.
func (o *Options) explain(err error, seg *tier.Segment) error {
	err = translate(err, seg)
	e, ok := errors.AsType[*fetch.Error](err)
	if !ok || e.Kind != fetch.Missing && e.Kind != fetch.Damaged {
		return err
	}
	if store, ok := errors.AsType[*rangeio.Error](err); ok && store.Kind.Remedy() != "" {
		return err // the store's client logs what it refuses
	}
	if p, ok := o.Source.Snapshot().Partition(seg.Partition); ok && p.Readable(seg.ID) {
		o.Logger.Warn(map[fetch.Kind]string{fetch.Missing: "an object is missing or not what the metadata says", fetch.Damaged: "damaged log bytes"}[e.Kind],
			"segment", seg.ID.String(), "topic", seg.Topic, "partition", seg.Partition.Partition, "position", e.Position, "error", err)
	}
	return err
}

// translate turns an error of pool, layout or store into a *fetch.Error. Errors of contexts are returned as they are:
// fetch knows whether the caller left or a deadline passed.
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
	case rangeio.Forbidden, rangeio.Archived:
		// Of this object: others may be read. A store that does not let us list says "denied" of what is deleted, too.
		e.Kind = fetch.Missing
		e.Detail = "the object " + store.Key + " cannot be read; " + store.Kind.Remedy()
	case rangeio.NoBucket, rangeio.BadCredentials:
		e.Kind = fetch.Refused
		e.Detail = "the object store cannot be read; " + store.Kind.Remedy()
	}
	return e
}
