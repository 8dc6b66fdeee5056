package export

import (
	"math"
	"strconv"
	"strings"
	"time"

	"coldtap/internal/rfc3339"
)

// positionKind says how a position is given.
type positionKind uint8

const (
	atEarliest positionKind = iota // where the tier's log starts when the export begins
	atLatest                       // where the tier ends then
	atOffset
	atTime
)

// Position is a place in a partition. The zero value is the earliest.
type Position struct {
	kind  positionKind
	value int64 // an offset, or epoch milliseconds
}

// Earliest and Latest are the ends of what the tier has when an export begins.
var Earliest, Latest = Position{kind: atEarliest}, Position{kind: atLatest}

// Offset is the position at an offset.
func Offset(n int64) Position { return Position{atOffset, n} }

// Time is the position of the first record at or after a time in epoch milliseconds.
func Time(ms int64) Position { return Position{atTime, ms} }

// ParsePosition reads earliest, latest, an offset, or a time: RFC 3339, a date, or epoch milliseconds with the unit,
// 1700000000000ms.
func ParsePosition(s string) (Position, error) {
	switch s {
	case "earliest":
		return Earliest, nil
	case "latest":
		return Latest, nil
	}
	if n, err := strconv.ParseUint(s, 10, 63); err == nil {
		return Offset(int64(n)), nil
	}
	if digits, ok := strings.CutSuffix(s, "ms"); ok {
		if n, err := strconv.ParseUint(digits, 10, 63); err == nil {
			return Time(int64(n)), nil
		}
	}
	if ms, ok := rfc3339.Parse([]byte(s)); ok && ms >= 0 {
		return Time(ms), nil
	}
	return Position{}, badOption("a position must be earliest, latest, an offset, or a time from 1970 on (RFC 3339, a date, or 1700000000000ms), not %q", s)
}

// String gives the position in the form that ParsePosition reads.
func (p Position) String() string {
	switch p.kind {
	case atEarliest:
		return "earliest"
	case atLatest:
		return "latest"
	case atOffset:
		return strconv.FormatInt(p.value, 10)
	}
	if p.value > maxYear {
		return strconv.FormatInt(p.value, 10) + "ms"
	}
	return time.UnixMilli(p.value).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// maxYear is the end of the year 9999, beyond which RFC 3339 has no form.
const maxYear = 253402300799999

// later adds to a time, rounded up to milliseconds, without going beyond the largest one.
func later(ms int64, d time.Duration) int64 {
	n := d.Milliseconds()
	if d%time.Millisecond != 0 {
		n++
	}
	if ms > math.MaxInt64-n {
		return math.MaxInt64
	}
	return ms + n
}
