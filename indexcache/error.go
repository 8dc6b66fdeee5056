package indexcache

import "coldtap/internal/errkind"

// Kind classifies an Error.
type Kind uint8

const (
	Closed   Kind = iota + 1 // the cache is shutting down
	TimedOut                 // the load took longer than Config.LoadTimeout
	Panicked                 // the load panicked: a bug of ours
	Damaged                  // transaction information is there but cannot be believed
	Missing                  // the object with the transaction index is not there
)

var kindNames = [...]string{
	Closed: "closed", TimedOut: "timed out", Panicked: "panicked",
	Damaged: "damaged transaction index", Missing: "missing transaction index",
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is the cache's own error. Errors of the Load come through as they are.
type Error struct {
	Kind    Kind
	Segment string // the segment's id
	Err     error  // what was behind it, may be nil
	Stack   []byte // of a panic
}

func (e *Error) Error() string {
	s := "indexes of segment " + e.Segment + ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Retriable says whether asking again may help.
func (e *Error) Retriable() bool { return e.Kind == TimedOut }
