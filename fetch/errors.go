package fetch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"coldtap/cache"
	"coldtap/fetch/scan"
	"coldtap/indexcache"
	"coldtap/internal/errkind"
	"coldtap/segment"
	"coldtap/tier"
)

// Kind classifies an Error.
type Kind uint8

const (
	TopicUnknown Kind = iota + 1
	PartitionUnknown
	SegmentUnknown // or a file that the segment does not have
	BadRequest     // end before start, or a start that can't be resolved here
	OutOfRange     // certain: below the tier's start, or above its end after a refresh
	Damaged        // the log contradicts its checksums or itself, or its transaction index does
	TooLarge       // a sound batch that cannot be decoded within the decode memory
	Missing        // bytes are not there although the metadata says so
	Busy           // reader queue full, or a memory bound reached
	NotReady       // metadata still loading, a needed refresh failed, or the brokers do not tell where the log ends
	Refused        // the store does not let itself be read, until an operator mends that
	Unreachable    // store down, throttling, or too slow for a flight's own deadline
	TimedOut       // Request.Timeout was used up and nothing had been handed out
	Canceled       // the caller went away
	Internal

	kinds = int(Internal) + 1
)

var kindNames = [kinds]string{
	TopicUnknown:     "topic unknown",
	PartitionUnknown: "partition unknown",
	SegmentUnknown:   "segment unknown",
	BadRequest:       "bad request",
	OutOfRange:       "out of range",
	Damaged:          "damaged",
	TooLarge:         "too large",
	Missing:          "missing",
	Busy:             "busy",
	NotReady:         "not ready",
	Refused:          "refused",
	Unreachable:      "unreachable",
	TimedOut:         "timed out",
	Canceled:         "canceled",
	Internal:         "internal",
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is the error of every call. Errors of the loaders given at wiring are *Error already (the wiring translates
// those of store, pool and layout), context errors, or cache.ErrNoSlab.
type Error struct {
	Kind       Kind
	Detail     string
	Segment    segment.UUID // when it concerns one
	Position   int64        // byte position in the segment's log, -1 = none
	NextOffset int64        // where a read goes on: behind what is damaged or too large; -1 = not known
	Bounds     Bounds       // for OutOfRange; else all 0
	RetryAfter time.Duration
	Err        error
}

// Error gives the detail, then where it happened and why.
func (e *Error) Error() string {
	var s strings.Builder
	if e.Detail == "" {
		s.WriteString(e.Kind.String())
	} else {
		s.WriteString(e.Detail)
	}
	if !e.Segment.IsZero() {
		fmt.Fprintf(&s, " (segment %s", e.Segment)
		if e.Position >= 0 {
			fmt.Fprintf(&s, ", position %d", e.Position)
		}
		s.WriteString(")")
	}
	if e.Err != nil {
		s.WriteString(": ")
		s.WriteString(e.Err.Error())
	}
	return s.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// mendable is an error of a store that may say what an operator has to do before it can go away; "": it may by itself.
type mendable interface {
	error
	Remedy() string
}

// retryAfter is what refusals suggest: a flight takes well under a second when the store is healthy.
const retryAfter = time.Second

// failure makes an *Error. Metadata that is not ready because of something that waiting does not mend, by its cause's
// own word, is Refused.
func failure(kind Kind, cause error, format string, args ...any) *Error {
	e := &Error{Kind: kind, Detail: fmt.Sprintf(format, args...), Position: -1, NextOffset: -1, Err: cause}
	if m, ok := errors.AsType[mendable](cause); ok && kind == NotReady && m.Remedy() != "" {
		kind = Refused
		e.Kind, e.Detail = Refused, e.Detail+"; "+m.Remedy()
	}
	switch kind {
	case Busy, NotReady, Unreachable:
		e.RetryAfter = retryAfter
	}
	return e
}

func kindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return 0
}

// scanFault makes an *Error of what a scanner found wrong with a segment's log; other errors stay as they are.
func scanFault(err error, seg *tier.Segment) error {
	found, ok := errors.AsType[*scan.Error](err)
	if !ok {
		return err
	}
	if loaders, ok := errors.AsType[*Error](found.Err); ok {
		e := *loaders // that the bytes can't be had is the loader's error
		e.NextOffset = found.NextOffset
		return &e
	}
	e := &Error{Kind: Damaged, Detail: found.Detail, Segment: seg.ID, Position: found.Position, NextOffset: found.NextOffset, Err: found.Err}
	switch found.Kind {
	case scan.TooLarge:
		e.Kind, e.Detail = TooLarge, e.Detail+"; application/vnd.kafka.recordbatch gives it undecoded"
	case scan.Changed:
		e.Kind, e.RetryAfter = Unreachable, retryAfter
	}
	return e
}

// translate turns what a wait ended with into an *Error. caller is the context that the caller gave, expired says that
// the time for waiting was used up. A deadline that is neither's is that of a load.
func translate(caller context.Context, expired bool, err error) *Error {
	if ours, ok := errors.AsType[*Error](err); ok {
		return ours
	}
	chunks, _ := errors.AsType[*cache.Error](err)
	indexes, _ := errors.AsType[*indexcache.Error](err)
	switch {
	case chunks != nil && chunks.Kind == cache.NoSlab:
		return failure(Busy, err, "chunk memory is in use")
	case chunks != nil && chunks.Kind == cache.Closed, indexes != nil && indexes.Kind == indexcache.Closed:
		return failure(NotReady, err, "shutting down")
	case chunks != nil && chunks.Kind == cache.TimedOut, indexes != nil && indexes.Kind == indexcache.TimedOut:
		return failure(Unreachable, err, "the store did not answer in time")
	case chunks != nil || indexes != nil:
		return failure(Internal, err, "unexpected error")
	case errors.Is(caller.Err(), context.DeadlineExceeded):
		return failure(TimedOut, err, "the caller's deadline passed")
	case caller.Err() != nil:
		return failure(Canceled, err, "the caller went away")
	case expired:
		return failure(TimedOut, nil, "the time for waiting was used up")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failure(Unreachable, err, "the store did not answer in time")
	}
	return failure(Internal, err, "unexpected error")
}
