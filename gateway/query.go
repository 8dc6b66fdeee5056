package gateway

import (
	"bytes"
	"strconv"
)

// query walks over the parameters of a request, strictly: each at most once, percent-encoding sound. Names and values
// are views of the request or of the query's scratch space, valid until the next call of next.
type query struct {
	rest    []byte
	scratch []byte
	seen    parameterSet
	name    []byte
	value   []byte
}

func (q *query) reset(raw []byte) {
	q.rest, q.seen = raw, 0
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

// known gives the name of the current parameter, and refuses one that is not accepted or was given before.
func (q *query) known(accepted parameterSet) (string, *problem) {
	for i, name := range parameterNames {
		if bit := parameterSet(1) << i; name == string(q.name) && accepted&bit != 0 {
			if q.seen&bit != 0 {
				return "", badParameter(name, "given more than once")
			}
			q.seen |= bit
			return name, nil
		}
	}
	return "", badParameter(printable(q.name), "unknown here")
}

// given says whether a parameter was given.
func (q *query) given(name string) bool { return q.seen&setOf(name) != 0 }

// decode undoes form encoding once: %XX, and + for a space.
func (q *query) decode(b []byte) (decoded []byte, sound bool) {
	if bytes.IndexByte(b, '%') < 0 && bytes.IndexByte(b, '+') < 0 {
		return b, true
	}
	start := len(q.scratch)
	q.scratch, sound = appendDecoded(q.scratch, b, ' ')
	return q.scratch[start:], sound
}

// appendDecoded appends b with its percent-encoding undone, once, and each + as plus.
func appendDecoded(dst, b []byte, plus byte) (decoded []byte, sound bool) {
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch c {
		case '+':
			c = plus
		case '%':
			if i+2 >= len(b) {
				return dst, false
			}
			high, low := hexDigit(b[i+1]), hexDigit(b[i+2])
			if high < 0 || low < 0 {
				return dst, false
			}
			c = byte(high<<4 | low)
			i += 2
		}
		dst = append(dst, c)
	}
	return dst, true
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
	decoded, sound := appendDecoded(nil, b, '+')
	return string(decoded), sound
}

// printable makes hostile bytes fit for a message: at most 64 of them, quoted where they are not plain.
func printable(b []byte) string {
	if len(b) > 64 {
		b = b[:64]
	}
	quoted := strconv.QuoteToASCII(string(b))
	return quoted[1 : len(quoted)-1]
}

// appendRest appends the parameters of a query that do not say where to start. In a range of time, timestamp becomes
// start_timestamp.
func (q *query) appendRest(dst, queryString []byte, timeRange bool) []byte {
	for len(queryString) > 0 {
		var pair []byte
		pair, queryString, _ = bytes.Cut(queryString, []byte{'&'})
		name, value, _ := bytes.Cut(pair, []byte{'='})
		q.scratch = q.scratch[:0]
		name, _ = q.decode(name)
		switch {
		case len(pair) == 0 || string(name) == "offset":
		case string(name) != "timestamp":
			dst = appendURI(append(dst, '&'), pair)
		case timeRange:
			dst = appendURI(append(dst, "&start_timestamp="...), value)
		}
	}
	return dst
}

// appendURI appends part of an address as it was sent, with everything that could end a JSON string, a header field or
// an angle bracket percent-encoded.
func appendURI(dst, part []byte) []byte {
	const hexDigits = "0123456789ABCDEF"
	for _, c := range part {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
