package kafka

import (
	"fmt"
	"strconv"

	"coldtap/internal/errkind"
)

// Kind classifies an Error. A Follower counts records by it and goes on with the next one.
type Kind uint8

const (
	NullValue      Kind = iota + 1 // a tombstone (KIP-1266), or nothing at all: there is nothing to apply
	UnknownFrame                   // an envelope of another version
	UnknownRecord                  // an api key that is none of the four
	UnknownVersion                 // a message version whose fields are not known
	Malformed                      // bytes that are missing, left over, or impossible
	TooLarge                       // more array elements or tagged fields than Kafka's own decoder takes
	BadBatch                       // a whole batch of records that cannot be read: checksum, compression, form
)

var kindNames = [...]string{
	NullValue:      "null value",
	UnknownFrame:   "unknown frame",
	UnknownRecord:  "unknown record",
	UnknownVersion: "unknown version",
	Malformed:      "malformed",
	TooLarge:       "too large",
	BadBatch:       "bad batch",
}

// Kinds lists every kind, for creating a metric's label values beforehand.
func Kinds() []Kind {
	return []Kind{NullValue, UnknownFrame, UnknownRecord, UnknownVersion, Malformed, TooLarge, BadBatch}
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is the error of this package: a value that cannot be read. The same bytes give the same error again.
type Error struct {
	Kind     Kind
	Position int // byte position in the value, -1 when it concerns none
	Detail   string
}

func (e *Error) Error() string {
	s := "remote log metadata: " + e.Detail
	if e.Position >= 0 {
		s += " at byte " + strconv.Itoa(e.Position)
	}
	return s
}

func fail(kind Kind, position int, format string, args ...any) *Error {
	return &Error{Kind: kind, Position: position, Detail: fmt.Sprintf(format, args...)}
}
