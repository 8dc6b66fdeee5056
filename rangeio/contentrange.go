package rangeio

import (
	"fmt"
	"strconv"
	"strings"
)

// contentRange is a parsed Content-Range header (RFC 9110, 14.4): bytes first to last, both inclusive, of total.
type contentRange struct{ first, last, total int64 }

// parseContentRange accepts "bytes 0-99/100" with a known total, and numbers only as the grammar has them: digits.
func parseContentRange(s string) (contentRange, error) {
	bad := fmt.Errorf("content-range %.80q", s)
	unit, rest, ok := strings.Cut(s, " ")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return contentRange{}, bad
	}
	span, total, ok := strings.Cut(rest, "/")
	if !ok {
		return contentRange{}, bad
	}
	first, last, ok := strings.Cut(span, "-")
	if !ok {
		return contentRange{}, bad
	}
	var r contentRange
	for _, f := range []struct {
		s string
		n *int64
	}{{first, &r.first}, {last, &r.last}, {total, &r.total}} {
		// 63 bits: one more would wrap to a negative length.
		n, err := strconv.ParseUint(f.s, 10, 63)
		if err != nil {
			return contentRange{}, bad
		}
		*f.n = int64(n)
	}
	if r.first > r.last || r.last >= r.total {
		return contentRange{}, bad
	}
	return r, nil
}
