package jsonenc

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// escapeMask has the high bit set in each byte of w (little-endian) that a JSON string must escape: below 0x20, the
// quotation mark and the backslash. Borrows can mark a byte above a marked one wrongly, never the lowest marked one,
// hence "no bit at all" and "the lowest bit" are exact. Bytes from 0x80 on are never marked.
func escapeMask(w uint64) uint64 {
	control := w - 0x20*lows
	quote := (w ^ '"'*lows) - lows
	backslash := (w ^ '\\'*lows) - lows
	return (control | quote | backslash) &^ w & highs
}

// nextEscape gives the index of the first byte from i on that must be escaped, or len(b).
func nextEscape(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if m := escapeMask(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// stretch is how many bytes of text are escaped at a time into room made for their worst case, six bytes for one.
// The room is what a buffer needs beyond the text's exact size (slack), so the stretch is short.
const (
	stretch = 512
	slack   = 6*stretch + 16
)

// appendString appends b as a JSON string; ok false, and dst unusable beyond its old length, when b is not UTF-8.
func appendString(dst, b []byte) (out []byte, ok bool) {
	if !utf8.Valid(b) {
		return dst, false
	}
	dst = append(dst, '"')
	return append(appendUnquoted(dst, b), '"'), true
}

// appendUnquoted appends valid UTF-8 as what stands between a JSON string's quotation marks.
func appendUnquoted(dst, b []byte) []byte {
	for {
		at, length, escape := nextSeparator(b)
		dst = appendStretches(dst, b[:at])
		if length == 0 {
			return dst
		}
		dst = append(dst, escape...)
		b = b[at+length:]
	}
}

func appendStretches(dst, b []byte) []byte {
	for len(b) > stretch {
		dst = appendEscaped(dst, b[:stretch])
		b = b[stretch:]
	}
	return appendEscaped(dst, b)
}

// appendEscaped copies eight bytes at a time, and where one of them needs an escape goes on behind it: text with a
// quotation mark every few bytes, as JSON in JSON has it, costs a few instructions a mark instead of a copy call.
func appendEscaped(dst, b []byte) []byte {
	dst = slices.Grow(dst, 6*len(b)+8)
	n := len(dst)
	out := dst[:cap(dst)]
	i := 0
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		binary.LittleEndian.PutUint64(out[n:], w)
		m := escapeMask(w)
		if m == 0 {
			i += 8
			n += 8
			continue
		}
		clean := bits.TrailingZeros64(m) >> 3
		i += clean
		n += clean
		n += putEscape(out[n:], b[i])
		i++
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' {
			n += putEscape(out[n:], c)
		} else {
			out[n] = c
			n++
		}
	}
	return dst[:n]
}

// short gives a two-byte escape as it is stored (little-endian: the backslash in the low byte), or 0.
var short = [256]uint16{
	'"': '"'<<8 | '\\', '\\': '\\'<<8 | '\\', '\b': 'b'<<8 | '\\', '\f': 'f'<<8 | '\\',
	'\n': 'n'<<8 | '\\', '\r': 'r'<<8 | '\\', '\t': 't'<<8 | '\\',
}

const hexDigits = "0123456789abcdef"

func putEscape(out []byte, c byte) int {
	if s := short[c]; s != 0 {
		binary.LittleEndian.PutUint16(out, s)
		return 2
	}
	return copy(out, []byte{'\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15]})
}

// extraBytes counts by how many bytes escaping makes b longer.
func extraBytes(b []byte) int {
	n := extraForSeparators(b)
	for i := nextEscape(b, 0); i < len(b); i = nextEscape(b, i+1) {
		if short[b[i]] != 0 {
			n++
		} else {
			n += 5
		}
	}
	return n
}

// AppendString appends s as a JSON string; bytes that are not UTF-8 become U+FFFD. It is for names and messages, which
// are text by nature.
func AppendString(dst []byte, s string) []byte {
	start := len(dst)
	out, ok := appendString(dst, []byte(s))
	if !ok {
		out, _ = appendString(dst[:start], []byte(strings.ToValidUTF8(s, "\uFFFD")))
	}
	return out
}
