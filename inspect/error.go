package inspect

import (
	"fmt"

	"coldtap/internal/errkind"
)

// Kind classifies an Error.
type Kind uint8

const (
	Unknown Kind = iota + 1 // no such topic, partition, segment, file or object
	Damaged                 // it is there, and its content is damaged
	Misused                 // the question makes no sense, such as an index of an unknown kind
)

var kindNames = [...]string{Unknown: "unknown", Damaged: "damaged", Misused: "misused"}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is the error of this package. It is never retriable; errors of the store come back as they are.
type Error struct {
	Kind Kind
	Op   string // what was looked at
	Err  error
}

func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func fail(kind Kind, op, format string, args ...any) *Error {
	return &Error{Kind: kind, Op: op, Err: fmt.Errorf(format, args...)}
}
