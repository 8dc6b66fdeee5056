package segment

import (
	"fmt"
	"strings"

	"coldtap/internal/errkind"
)

// Kind classifies an Error.
type Kind uint8

const (
	Corrupt     Kind = iota + 1 // bytes contradict the format or their checksum
	Truncated                   // more bytes are needed than were given
	Unsupported                 // a magic, codec or version this package does not know
	TooLarge                    // a length or a decompressed size above the caller's limit
	OverBudget                  // Budget.Reserve refused (the wrapped error says why); the bytes may be fine
)

var kindNames = [...]string{
	Corrupt: "corrupt", Truncated: "truncated", Unsupported: "unsupported", TooLarge: "too large",
	OverBudget: "over budget",
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is the error of every function of this package. It is never retriable with the same bytes, except for
// OverBudget.
type Error struct {
	Kind     Kind
	Op       string // what was being read, e.g. "batch header", "snappy"
	Position int64  // byte position in the input, -1 when unknown
	Detail   string
	Err      error
}

func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString(e.Op)
	s.WriteString(": ")
	s.WriteString(e.Kind.String())
	if e.Position >= 0 {
		fmt.Fprintf(&s, " at byte %d", e.Position)
	}
	if e.Detail != "" {
		s.WriteString(": ")
		s.WriteString(e.Detail)
	}
	if e.Err != nil {
		s.WriteString(": ")
		s.WriteString(e.Err.Error())
	}
	return s.String()
}

// Unwrap gives the codec's or the budget's own error.
func (e *Error) Unwrap() error { return e.Err }

func fail(kind Kind, op string, position int64, format string, args ...any) *Error {
	return &Error{Kind: kind, Op: op, Position: position, Detail: fmt.Sprintf(format, args...)}
}

func corrupt(op string, position int64, format string, args ...any) *Error {
	return fail(Corrupt, op, position, format, args...)
}
