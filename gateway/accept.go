package gateway

import "bytes"

// format is a representation of records.
type format uint8

const (
	formatJSON format = iota
	formatLines
	formatBatches
	formatCount
)

// formats lists the representations in the order of preference when the client has none.
var formats = [formatCount]struct {
	mediaType string
	kind      string // before the slash
}{
	formatJSON:    {"application/json", "application"},
	formatLines:   {"application/x-ndjson", "application"},
	formatBatches: {"application/vnd.kafka.recordbatch", "application"},
}

// negotiate picks the format for an Accept header (RFC 9110, 12.5.1): the most specific range that names a format
// decides its quality, the highest quality wins, then the range that names it more exactly, then the one that the
// client wrote first. ok false: nothing acceptable.
func negotiate(accept []byte) (format, bool) {
	if len(bytes.TrimSpace(accept)) == 0 {
		return formatJSON, true
	}
	type choice struct {
		quality     int // thousandths
		specificity int // 0 unnamed, 1 */*, 2 application/*, 3 exact
		order       int
	}
	var choices [formatCount]choice
	for order := 1; len(accept) > 0; order++ {
		var item []byte
		item, accept, _ = bytes.Cut(accept, []byte{','})
		mediaRange, parameters, _ := bytes.Cut(item, []byte{';'})
		mediaRange = bytes.TrimSpace(mediaRange)
		quality := qualityOf(parameters)
		for f := range formats {
			specificity := 0
			switch {
			case equalFold(mediaRange, formats[f].mediaType):
				specificity = 3
			case len(mediaRange) == len(formats[f].kind)+2 && bytes.HasSuffix(mediaRange, []byte("/*")) &&
				equalFold(mediaRange[:len(mediaRange)-2], formats[f].kind):
				specificity = 2
			case string(mediaRange) == "*/*" || string(mediaRange) == "*":
				specificity = 1
			}
			if specificity > choices[f].specificity {
				choices[f] = choice{quality, specificity, order}
			}
		}
	}
	best := -1
	for f, c := range choices {
		if c.specificity == 0 || c.quality == 0 {
			continue
		}
		if best < 0 {
			best = f
			continue
		}
		b := choices[best]
		switch {
		case c.quality != b.quality:
			if c.quality > b.quality {
				best = f
			}
		case c.specificity != b.specificity:
			if c.specificity > b.specificity {
				best = f
			}
		case c.order < b.order:
			best = f
		}
	}
	if best < 0 {
		return 0, false
	}
	return format(best), true
}

// qualityOf gives the q parameter in thousandths: 1000 when there is none, 0 when it makes no sense.
func qualityOf(parameters []byte) int {
	for len(parameters) > 0 {
		var p []byte
		p, parameters, _ = bytes.Cut(parameters, []byte{';'})
		name, value, _ := bytes.Cut(p, []byte{'='})
		if name = bytes.TrimSpace(name); len(name) != 1 || name[0]|0x20 != 'q' {
			continue
		}
		value = bytes.TrimSpace(value)
		if len(value) == 0 || len(value) > 5 || value[0] > '1' || value[0] < '0' || len(value) > 1 && value[1] != '.' {
			return 0
		}
		quality := 1000 * int(value[0]-'0')
		scale := 100
		for _, c := range value[min(2, len(value)):] {
			if c < '0' || c > '9' {
				return 0
			}
			quality += scale * int(c-'0')
			scale /= 10
		}
		return min(quality, 1000)
	}
	return 1000
}

// equalFold compares with a lower-case ASCII name.
func equalFold(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != name[i] {
			return false
		}
	}
	return true
}
