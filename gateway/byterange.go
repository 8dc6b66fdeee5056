package gateway

import "bytes"

// rangeResult says what a Range header asks for.
type rangeResult uint8

const (
	rangeWhole       rangeResult = iota // none, malformed, another unit, or several ranges: the whole file (200)
	rangePart                           // 206
	rangeUnsatisfied                    // 416
)

// parseRange reads a Range header for a file of size bytes (RFC 9110, 14.2). [from, to) is meaningful for rangePart.
//
// Several ranges get the whole file: a server may ignore them, and multipart answers would cost each client a parser.
func parseRange(header []byte, size int64) (from, to int64, result rangeResult) {
	unit, set, ok := bytes.Cut(header, []byte{'='})
	if !ok || !equalFold(bytes.TrimSpace(unit), "bytes") {
		return 0, size, rangeWhole
	}
	first, last, ok := bytes.Cut(bytes.TrimSpace(set), []byte{'-'})
	if !ok {
		return 0, size, rangeWhole
	}
	first, last = bytes.TrimSpace(first), bytes.TrimSpace(last)
	if len(first) == 0 {
		n, ok := clampedDigits(last)
		switch {
		case !ok:
			return 0, size, rangeWhole
		case n == 0 || size == 0:
			return 0, 0, rangeUnsatisfied
		}
		return max(0, size-n), size, rangePart
	}
	from, ok = clampedDigits(first)
	if !ok {
		return 0, size, rangeWhole
	}
	to = size
	if len(last) > 0 {
		n, ok := clampedDigits(last)
		if !ok || compareDigits(last, first) < 0 {
			return 0, size, rangeWhole
		}
		if n < size {
			to = n + 1
		}
	}
	if from >= size {
		return 0, 0, rangeUnsatisfied
	}
	return from, to, rangePart
}

// maxPosition stands for every number too large for a file.
const maxPosition = 1<<63 - 1

// clampedDigits parses decimal digits of any length; what does not fit is maxPosition.
func clampedDigits(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, ok := digits(bytes.TrimLeft(b[:len(b)-1], "0"))
	last := int64(b[len(b)-1] - '0')
	if len(bytes.TrimLeft(b[:len(b)-1], "0")) == 0 {
		return last, true
	}
	if !ok || n > (maxPosition-last)/10 {
		return maxPosition, true
	}
	return n*10 + last, true
}

// compareDigits compares two decimals of any length.
func compareDigits(a, b []byte) int {
	a, b = bytes.TrimLeft(a, "0"), bytes.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}
