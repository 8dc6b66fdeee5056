package jsonenc

import (
	"encoding/json"
	"unicode/utf8"
)

// appendEmbedded appends the JSON document b without the white space between its tokens, so that it cannot break a
// line of ndjson. ok false when b is no JSON document; then dst is as it was.
func appendEmbedded(dst, b []byte) (out []byte, ok bool) {
	if len(b) == 0 || !utf8.Valid(b) || !json.Valid(b) {
		return dst, false
	}
	from, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == ' ' || c == '\n' || c == '\r' || c == '\t':
			dst = appendSeparated(dst, b[from:i])
			from = i + 1
		}
	}
	return appendSeparated(dst, b[from:]), true
}
