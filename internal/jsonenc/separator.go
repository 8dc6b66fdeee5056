package jsonenc

import "bytes"

// Unicode's line breaks beyond ASCII are escaped although JSON takes them as they are: readers that split ndjson or an
// event stream with a Unicode-aware "lines" function would cut a record in two.
var separators = [...]struct {
	text   []byte
	escape string
}{
	{[]byte("\u0085"), `\u0085`},
	{[]byte("\u2028"), `\u2028`},
	{[]byte("\u2029"), `\u2029`},
}

// nextSeparator gives the place, length and escape of the first separator in b; length 0 when there is none.
func nextSeparator(b []byte) (at, length int, escape string) {
	at = len(b)
	for i := range separators {
		s := &separators[i]
		if j := bytes.Index(b[:min(at+len(s.text)-1, len(b))], s.text); j >= 0 && j < at {
			at, length, escape = j, len(s.text), s.escape
		}
	}
	return at, length, escape
}

// extraForSeparators counts by how many bytes escaping separators makes b longer.
func extraForSeparators(b []byte) (n int) {
	for i := range separators {
		s := &separators[i]
		n += bytes.Count(b, s.text) * (len(s.escape) - len(s.text))
	}
	return n
}

// appendSeparated appends b, which lies within JSON strings, with its separators escaped.
func appendSeparated(dst, b []byte) []byte {
	for {
		at, length, escape := nextSeparator(b)
		dst = append(dst, b[:at]...)
		if length == 0 {
			return dst
		}
		dst = append(dst, escape...)
		b = b[at+length:]
	}
}
