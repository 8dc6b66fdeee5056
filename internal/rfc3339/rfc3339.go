// Package rfc3339 reads points in time as RFC 3339 writes them, and as people type them. The standard library takes
// more than the RFC allows: hours of one digit, a comma, offsets of 24 hours.
package rfc3339

import "time"

// Parse reads a time as RFC 3339 (5.6) writes it, to the letter: lower-case t and z, any number of digits behind the
// point, offsets up to 23:59. Beside it: a date alone, which is midnight UTC, and a space for the T, where an offset
// that is left out is UTC. A space is also the sign of an offset east of Greenwich, since that is what a plus in a
// query decodes to. Second 60 is the second after 59, and only where UTC may have a leap second: at the end of a June
// or December.
//
// The result is in milliseconds since 1970. Time below a millisecond is rounded up: "at or after" and "before" mean the
// same record either way.
func Parse(b []byte) (ms int64, ok bool) {
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
func field(b []byte, least, most int) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, least <= n && n <= most
}
