// Package errkind gives the kinds of errors their names, in one form for all rooms.
//
// A room's border has one exported Error: its Kind, what it is about (an operation, an object, a segment), the cause
// (Unwrap), and Retriable where the same call may succeed later without a change. A kind's name is lower-case words,
// "out of range"; as the value of a metric's label it is out_of_range.
package errkind

import (
	"fmt"
	"strings"
)

// Name is what a Kind's String gives: names[kind], or "kind 99" for a number that is no kind.
func Name[K ~uint8](names []string, kind K) string {
	if int(kind) < len(names) && names[kind] != "" {
		return names[kind]
	}
	return fmt.Sprintf("kind %d", uint8(kind))
}

// Label is the kind's name as the value of a metric's label.
func Label(kind fmt.Stringer) string { return strings.ReplaceAll(kind.String(), " ", "_") }
