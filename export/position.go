package export

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
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

// rfc3339 is RFC 3339, and what people type: a date alone, or a space for the T, both UTC unless an offset is given.
// time.Parse alone takes more: hours of one digit, a comma, offsets of 24 hours.
var rfc3339 = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d:\d\d(?:\.\d+)?)([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?$`)

// ParsePosition reads earliest, latest, an offset, or a time: RFC 3339, a date, or epoch milliseconds with the unit,
// 1700000000000ms. Time below a millisecond is rounded up: "at or after" and "before" mean the same record either way.
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
	if m := rfc3339.FindStringSubmatch(s); m != nil && (m[3] != "" || !strings.ContainsAny(s, "Tt")) {
		clock, zone := m[2], m[3]
		if clock == "" {
			clock = "00:00:00"
		}
		if zone == "" {
			zone = "Z"
		}
		at, err := time.Parse(time.RFC3339Nano, m[1]+"T"+clock+strings.ToUpper(zone))
		if err == nil && at.UnixMilli() >= 0 {
			ms := at.UnixMilli()
			if at.Nanosecond()%int(time.Millisecond) != 0 {
				ms++
			}
			return Time(ms), nil
		}
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

// later adds to a time without going beyond the largest one.
func later(ms int64, d time.Duration) int64 {
	if n := d.Milliseconds(); ms <= math.MaxInt64-n {
		return ms + n
	}
	return math.MaxInt64
}
