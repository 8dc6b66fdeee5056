package cache

import (
	"fmt"

	"coldtap/internal/errkind"
)

// Kind tells errors of this package apart.
type Kind uint8

const (
	NoSlab     Kind = iota + 1 // the memory bound is reached and nothing could be evicted
	Closed                     // the cache is closing
	TimedOut                   // the load took longer than Config.FlightTimeout
	Panicked                   // the Source panicked; Stack says where
	BadRequest                 // a request that no chunk can satisfy: a mistake of the caller
)

var kindNames = [...]string{
	NoSlab: "no slab", Closed: "closed", TimedOut: "timed out", Panicked: "panicked", BadRequest: "bad request",
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is what the cache itself has to say. A Source's errors reach the callers as they are, or wrapped in TimedOut.
type Error struct {
	Kind  Kind
	Key   Key    // zero for ErrNoSlab and ErrClosed
	Err   error  // cause, may be nil
	Stack []byte // of a panic
}

var (
	// ErrNoSlab says that the memory bound is reached: everything is being read or loaded. Trying again later helps.
	ErrNoSlab error = &Error{Kind: NoSlab}
	// ErrClosed says that the cache is closing.
	ErrClosed error = &Error{Kind: Closed}
)

func (e *Error) Error() string {
	var text string
	switch e.Kind {
	case NoSlab:
		text = "every slab of the chunk memory is in use"
	case Closed:
		text = "the chunk cache is closed"
	case TimedOut:
		text = fmt.Sprintf("loading chunk %v took too long", e.Key)
	case Panicked:
		text = fmt.Sprintf("loading chunk %v panicked", e.Key)
	default:
		text = fmt.Sprintf("chunk %v cannot be requested so", e.Key)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is lets errors.Is find ErrNoSlab and ErrClosed in errors of those kinds that carry a cause.
func (e *Error) Is(target error) bool {
	return e.Kind == NoSlab && target == ErrNoSlab || e.Kind == Closed && target == ErrClosed
}

// Retriable says whether the same request may succeed later.
func (e *Error) Retriable() bool { return e.Kind == NoSlab || e.Kind == TimedOut }
