package jsonenc

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects of an embedded document may lie in each other. Parsers stop somewhere between
// 512 and some thousands, and one document that they refuse costs a reader its whole answer.
const maxDepth = 512

// form is how bytes are shown.
type form uint8

const (
	stringForm form = iota
	markerForm
	base64Form
	verbatimForm // embedded
)

// forms are what stands around the bytes in each form.
var forms = [...]struct{ open, close string }{
	stringForm: {`"`, `"`}, markerForm: {rawOpen, rawClose}, base64Form: {`"`, `"`}, verbatimForm: {},
}

// textForm is how the Text encoding shows b.
func textForm(b []byte) form {
	if utf8.Valid(b) {
		return stringForm
	}
	return markerForm
}

// mixedForm is how the JSON encoding shows b.
func mixedForm(b []byte) form {
	if !utf8.Valid(b) {
		return markerForm
	}
	if !json.Valid(b) {
		return stringForm
	}
	if b[0] != '"' && string(b) != "null" && onOneLine(b) {
		if d := scan(b); d.strict && !d.marker {
			return verbatimForm
		}
	}
	return markerForm
}

// appendMixed appends b as the JSON encoding shows it: embedded, as the marker, or as text.
func appendMixed(dst, b []byte) []byte {
	switch mixedForm(b) {
	case stringForm:
		return appendText(dst, b)
	case verbatimForm:
		return append(dst, b...)
	default:
		return AppendMarker(dst, b)
	}
}

// onOneLine says that a document begins and ends with itself, and has no line break, Unicode's included.
func onOneLine(b []byte) bool {
	_, breaks, _ := nextSeparator(b)
	return breaks == 0 && bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 &&
		!isSpace(b[0]) && !isSpace(b[len(b)-1])
}

// appendCompacted appends a document without the white space between its tokens. ok false when b is no document, or one
// that strict parsers refuse; then dst is as it was.
func appendCompacted(dst, b []byte) (out []byte, ok bool) {
	if !utf8.Valid(b) || !json.Valid(b) || !scan(b).strict {
		return dst, false
	}
	from := 0
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			i = stringEnd(b, i)
		case isSpace(b[i]):
			dst = appendSeparated(dst, b[from:i])
			from = i + 1
		}
	}
	return appendSeparated(dst, b[from:]), true
}

// document is what scan finds out about valid JSON.
type document struct {
	strict bool // parsers that refuse lone surrogates, infinite numbers and deep nesting take it
	marker bool // an object with a member that the marker has
}

// scan looks at valid JSON.
func scan(b []byte) document {
	d := document{strict: true}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				d.strict = false
			}
		case c == '}' || c == ']':
			depth--
		case c == '"':
			end := stringEnd(b, i)
			text := b[i+1 : end]
			escaped := bytes.IndexByte(text, '\\') >= 0
			if escaped && loneSurrogate(text) {
				d.strict = false
			}
			if depth == 1 && b[indexToken(b, 0)] == '{' && b[indexToken(b, end+1)] == ':' && isMarkerName(b[i:end+1], escaped) {
				d.marker = true
			}
			i = end
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(b) && bytes.IndexByte([]byte("+-.eE0123456789"), b[end]) >= 0 {
				end++
			}
			if infinite(b[i:end]) {
				d.strict = false
			}
			i = end - 1
		}
	}
	return d
}

// stringEnd gives the index of the quotation mark that closes the string which opens at i.
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i
}

// indexToken gives the index of the first token from i on, which must exist or be the end: then it is the last byte.
func indexToken(b []byte, i int) int {
	for i < len(b)-1 && isSpace(b[i]) {
		i++
	}
	return min(i, len(b)-1)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isMarkerName says whether a string, its quotation marks included, reads as the marker's name.
func isMarkerName(quoted []byte, escaped bool) bool {
	const name = "__raw__"
	if !escaped {
		return string(quoted[1:len(quoted)-1]) == name
	}
	if len(quoted) > 2+len(name)*len(`\u005f`) {
		return false
	}
	var text string
	return json.Unmarshal(quoted, &text) == nil && text == name
}

// loneSurrogate says whether a string's \u escapes hold half of a pair.
func loneSurrogate(text []byte) bool {
	high := false // the escape just before was a first half
	for i := 0; i < len(text); i++ {
		unit := uint64(0)
		if text[i] == '\\' {
			if i++; text[i] == 'u' {
				unit, _ = strconv.ParseUint(string(text[i+1:i+5]), 16, 16)
				i += 4
			}
		}
		low := 0xdc00 <= unit && unit < 0xe000
		if low != high {
			return true
		}
		high = 0xd800 <= unit && unit < 0xdc00
	}
	return high
}

// infinite says whether a number lies beyond a float64. Short ones without an exponent never do.
func infinite(number []byte) bool {
	if len(number) < 300 && !bytes.ContainsAny(number, "eE") {
		return false
	}
	v, _ := strconv.ParseFloat(string(number), 64)
	return math.IsInf(v, 0)
}
