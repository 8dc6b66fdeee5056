package readerpool

import (
	"time"

	"coldtap/internal/errkind"
)

// Kind says why the pool refused a read.
type Kind uint8

const (
	// Full: MaxPending reads wait already, or the read waited in the Ahead lane and had to make room.
	Full Kind = iota + 1
	// TimedOut: the read waited for QueueTimeout and no place came free.
	TimedOut
	// Closed: the pool is shutting down.
	Closed
)

var kindNames = [...]string{Full: "full", TimedOut: "timeout", Closed: "closed"}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is a refusal: the read did not run. A read that ran and failed gives its own error instead.
type Error struct {
	Kind Kind
	// RetryAfter is when a place is likely to be free, 1 to 30 s; 0 for Closed, which no waiting will mend.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	switch e.Kind {
	case Full:
		return "too many reads of the store are waiting"
	case TimedOut:
		return "no read of the store became free in time"
	case Closed:
		return "reads of the store are shut down"
	}
	return e.Kind.String()
}

// Retriable says whether the same read may succeed later.
func (e *Error) Retriable() bool { return e.Kind != Closed }
