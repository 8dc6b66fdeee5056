package gateway

import (
	"bytes"
	"strconv"

	"coldtap/segment"
)

// query walks over the parameters of a request, strictly: each at most once, percent-encoding sound. Names and values
// are views of the request or of the query's scratch space, valid until the next call of next.
type query struct {
	rest    []byte
	scratch []byte
	seen    [16]string // no route knows more than 16 parameters, so a seventeenth was refused before
	n       int
	name    []byte
	value   []byte
}

func (q *query) reset(raw []byte) {
	q.rest, q.n = raw, 0
}

// next gives the next parameter; ok false at the end.
func (q *query) next() (ok bool, err *problem) {
	for len(q.rest) > 0 {
		var pair []byte
		pair, q.rest, _ = bytes.Cut(q.rest, []byte{'&'})
		if len(pair) == 0 {
			continue
		}
		name, value, _ := bytes.Cut(pair, []byte{'='})
		q.scratch = q.scratch[:0]
		var sound bool
		if q.name, sound = q.decode(name); !sound {
			return false, badParameter(printable(name), "the percent-encoding of its name is broken")
		}
		if q.value, sound = q.decode(value); !sound {
			return false, badParameter(printable(q.name), "the percent-encoding of its value is broken")
		}
		return true, nil
	}
	return false, nil
}

// once notes that a known parameter was given and refuses it the second time.
func (q *query) once(name string) *problem {
	for _, s := range q.seen[:q.n] {
		if s == name {
			return badParameter(name, "given more than once")
		}
	}
	q.seen[q.n] = name
	q.n++
	return nil
}

func (q *query) unknown() *problem {
	return badParameter(printable(q.name), "unknown here")
}

// decode undoes form encoding once: %XX, and + for a space.
func (q *query) decode(b []byte) (decoded []byte, sound bool) {
	if bytes.IndexByte(b, '%') < 0 && bytes.IndexByte(b, '+') < 0 {
		return b, true
	}
	start := len(q.scratch)
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch c {
		case '+':
			c = ' '
		case '%':
			if i+2 >= len(b) {
				return nil, false
			}
			high, low := hexDigit(b[i+1]), hexDigit(b[i+2])
			if high < 0 || low < 0 {
				return nil, false
			}
			c = byte(high<<4 | low)
			i += 2
		}
		q.scratch = append(q.scratch, c)
	}
	return q.scratch[start:], true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// decodeSegment undoes the percent-encoding of one path segment, once. A plus stays a plus.
func decodeSegment(b []byte) (string, bool) {
	if bytes.IndexByte(b, '%') < 0 {
		return string(b), true
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '%' {
			if i+2 >= len(b) {
				return "", false
			}
			high, low := hexDigit(b[i+1]), hexDigit(b[i+2])
			if high < 0 || low < 0 {
				return "", false
			}
			c = byte(high<<4 | low)
			i += 2
		}
		out = append(out, c)
	}
	return string(out), true
}

// printable makes hostile bytes fit for a message: at most 64 of them, quoted where they are not plain.
func printable(b []byte) string {
	if len(b) > 64 {
		b = b[:64]
	}
	quoted := strconv.QuoteToASCII(string(b))
	return quoted[1 : len(quoted)-1]
}

// number parses a decimal without sign, spaces or overflow, least ≤ n ≤ most.
func number(name string, value []byte, least, most int64) (int64, *problem) {
	n, ok := digits(value)
	if !ok || n < least || n > most {
		return 0, badParameter(name, "must be a number from %d to %d, not %q", least, most, printable(value))
	}
	return n, nil
}

func digits(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0') // at most 19 digits: wraps at most once, into the negative
	}
	return n, n >= 0
}

func boolean(name string, value []byte) (bool, *problem) {
	switch string(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, badParameter(name, "must be true or false, not %q", printable(value))
}

func topicID(name string, value []byte) (segment.UUID, *problem) {
	id, err := segment.ParseUUID(string(value))
	if err != nil || id.IsZero() {
		return segment.UUID{}, badParameter(name, "must be a topic id (22 characters of URL-safe base64), not %q", printable(value))
	}
	return id, nil
}
