package rebuild

import (
	"fmt"

	"coldtap/internal/errkind"
)

// Kind classifies an Error.
type Kind uint8

const (
	Empty           Kind = iota + 1 // the bucket holds nothing of the native layout
	SeveralClusters                 // the bucket holds segments of several clusters, and none was chosen
	Occupied                        // the catalog holds something that the bucket does not
)

var kindNames = [...]string{Empty: "empty", SeveralClusters: "several clusters", Occupied: "occupied"}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error says why nothing was recorded. It is not retriable: an operator has to act. Errors of the store and of the
// catalog come back as they are.
type Error struct {
	Kind   Kind
	Detail string
}

func (e *Error) Error() string { return e.Detail }

func refuse(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}
