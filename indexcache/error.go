package indexcache

import "fmt"

// Kind classifies an Error.
type Kind uint8

const (
	Closed   Kind = iota + 1 // the cache is shutting down
	TimedOut                 // the load took longer than Config.LoadTimeout
	Panicked                 // the load panicked: a bug of ours
	Damaged                  // transaction information is there but cannot be believed
	Missing                  // the object with the transaction index is not there
)

// String gives the kind in words.
func (k Kind) String() string {
	switch k {
	case Closed:
		return "index cache is shut down"
	case TimedOut:
		return "loading indexes took too long"
	case Panicked:
		return "loading indexes panicked"
	case Damaged:
		return "transaction index is damaged"
	case Missing:
		return "transaction index is missing"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Error is the cache's own error. Errors of the Load come through as they are.
type Error struct {
	Kind    Kind
	Segment string // the segment's id
	Err     error  // what was behind it, may be nil
	Stack   []byte // of a panic
}

func (e *Error) Error() string {
	s := "segment " + e.Segment + ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Retriable says whether asking again may help.
func (e *Error) Retriable() bool { return e.Kind == TimedOut }
