package gateway

import (
	"bytes"
	"strconv"
	"time"
)

// instant is a time that a parameter names.
type instant struct {
	ms   int64 // since 1970
	bare bool  // written as a number without a unit, which may have been meant as seconds
}

// timestamp parses a point in time: epoch milliseconds, with or without ms behind them, or what parseTime takes.
func timestamp(name string, value []byte) (instant, *problem) {
	if n, ok := digits(value); ok {
		return instant{n, true}, nil
	}
	if number, ok := bytes.CutSuffix(value, []byte("ms")); ok {
		if n, ok := digits(number); ok {
			return instant{n, false}, nil
		}
	}
	ms, ok := parseTime(value)
	if !ok {
		return instant{}, badParameter(name, "must be epoch milliseconds (1700000000000), an RFC 3339 time (2023-11-14T22:13:20Z or 2023-11-14T23:13:20.5+01:00), "+
			"the same with a space for the T (UTC unless an offset is given), or a date alone, not %q", printable(value))
	}
	if ms < 0 {
		return instant{}, badParameter(name, "must not be before 1970, not %q", printable(value))
	}
	return instant{ms, false}, nil
}

// parseTime reads a time as RFC 3339 (5.6) writes it, to the letter: lower-case t and z, any number of digits behind the
// point, offsets up to 23:59. Beside it: a date alone, which is midnight UTC, and a space for the T, where an offset that
// is left out is UTC. A space is also the sign of an offset east of Greenwich, since that is what a plus in a query
// decodes to. Second 60 is the second after 59, and only where UTC may have a leap second: at the end of a June or December.
//
// The result is in milliseconds since 1970. Time below a millisecond is rounded up: "at or after" and "before" mean the
// same record either way.
func parseTime(b []byte) (ms int64, ok bool) {
	if len(b) < 10 || b[4] != '-' || b[7] != '-' {
		return 0, false
	}
	year, ok1 := field(b[:4], 0, 9999)
	month, ok2 := field(b[5:7], 1, 12)
	day, ok3 := field(b[8:10], 1, 31)
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if !ok1 || !ok2 || !ok3 || date.Day() != day {
		return 0, false
	}
	if len(b) == 10 {
		return date.UnixMilli(), true
	}
	separator, b := b[10], b[11:]
	if separator != 'T' && separator != 't' && separator != ' ' || len(b) < 8 || b[2] != ':' || b[5] != ':' {
		return 0, false
	}
	hour, ok1 := field(b[:2], 0, 23)
	minute, ok2 := field(b[3:5], 0, 59)
	second, ok3 := field(b[6:8], 0, 60)
	if !ok1 || !ok2 || !ok3 {
		return 0, false
	}
	fraction, b, ok := fractionOfSecond(b[8:])
	if !ok {
		return 0, false
	}
	east := 0 // minutes
	switch {
	case len(b) == 0 && separator == ' ', len(b) == 1 && (b[0] == 'Z' || b[0] == 'z'):
	case len(b) == 6 && (b[0] == '+' || b[0] == '-' || b[0] == ' ') && b[3] == ':':
		hours, ok1 := field(b[1:3], 0, 23)
		minutes, ok2 := field(b[4:6], 0, 59)
		if !ok1 || !ok2 {
			return 0, false
		}
		if east = 60*hours + minutes; b[0] == '-' {
			east = -east
		}
	default:
		return 0, false
	}
	at := date.Add(time.Duration(hour)*time.Hour + time.Duration(minute-east)*time.Minute + time.Duration(second)*time.Second)
	if second == 60 && !(at.Equal(at.Truncate(24*time.Hour)) && at.Day() == 1 && (at.Month() == time.January || at.Month() == time.July)) {
		return 0, false
	}
	return at.UnixMilli() + fraction, true
}

// fractionOfSecond reads a point and the digits behind it, as milliseconds, rounded up; nothing is 0.
func fractionOfSecond(b []byte) (ms int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '.' {
		return 0, b, true
	}
	b = b[1:]
	n, more := 0, false
	for ; n < len(b) && '0' <= b[n] && b[n] <= '9'; n++ {
		if n < 3 {
			ms = ms*10 + int64(b[n]-'0')
		} else {
			more = more || b[n] != '0'
		}
	}
	for i := n; i < 3; i++ {
		ms *= 10
	}
	if more {
		ms++
	}
	return ms, b[n:], n > 0
}

// field reads digits only.
func field(b []byte, least, most int) (int, bool) {
	n, ok := digits(b)
	return int(n), ok && int64(least) <= n && n <= int64(most)
}

// lateness parses how far out of order timestamps may be, in milliseconds, rounded up.
func lateness(value []byte) (ms int64, err *problem) {
	d, bad := time.ParseDuration(string(value))
	if bad != nil || d < 0 {
		return 0, badParameter("lateness", "must be a duration of h, m, s and ms, such as 0s, 10m or 24h, not %q", printable(value))
	}
	if ms = d.Milliseconds(); d%time.Millisecond != 0 {
		ms++
	}
	return ms, nil
}

// latenessText writes a lateness in the largest unit that needs no fraction.
func latenessText(ms int64) string {
	switch {
	case ms == 0:
		return "0s"
	case ms%3_600_000 == 0:
		return strconv.FormatInt(ms/3_600_000, 10) + "h"
	case ms%60_000 == 0:
		return strconv.FormatInt(ms/60_000, 10) + "m"
	case ms%1000 == 0:
		return strconv.FormatInt(ms/1000, 10) + "s"
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// secondsBelow is where nobody means seconds any more: as such it is the year 5138, as milliseconds 1973.
const secondsBelow = 100_000_000_000

// refuseSeconds asks what was meant where a bare number lies outside the partition's time span and its thousandfold
// inside: taken for milliseconds, epoch seconds are a day in January 1970.
func (x *exchange) refuseSeconds(name string, at instant) *problem {
	if !at.bare || at.ms == 0 || at.ms >= secondsBelow {
		return nil
	}
	from, to, known := x.srv.service.TimeSpan(x.req.Topic, x.req.TopicID, x.req.Partition)
	if !known || from <= at.ms && at.ms <= to || at.ms*1000 < from || at.ms*1000 > to {
		return nil
	}
	return badParameter(name, "%d was read as milliseconds, which is %s, long before the partition's records; were seconds meant (%s)? Write %d000, or %dms for what was read",
		at.ms, time.UnixMilli(at.ms).UTC().Format(time.RFC3339), time.Unix(at.ms, 0).UTC().Format(time.RFC3339), at.ms, at.ms)
}
