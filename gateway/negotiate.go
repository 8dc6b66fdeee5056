package gateway

import (
	"bytes"
	"cmp"
	"strings"

	"coldtap/gateway/engine"
)

// format is a representation of records.
type format uint8

const (
	formatJSON format = iota
	formatLines
	formatBatches
	formatBinaryV2
	formatJSONV2
	formatTextV2
	formatEvents
	formatSequence
	formatCount
)

// offer is a media type that a resource can be given as.
type offer struct {
	mediaType string
	kind      string // before the slash
	format    format
	name      string // of the format parameter; "": it has none
}

// formats lists the representations of records in the order of preference when the client has none.
var formats = [formatCount]offer{
	formatJSON:     {"application/json", "application", formatJSON, "json"},
	formatLines:    {"application/x-ndjson", "application", formatLines, "ndjson"},
	formatBatches:  {"application/vnd.kafka.recordbatch", "application", formatBatches, "raw"},
	formatBinaryV2: {"application/vnd.kafka.binary.v2+json", "application", formatBinaryV2, "v2.binary"},
	formatJSONV2:   {"application/vnd.kafka.json.v2+json", "application", formatJSONV2, "v2.json"},
	formatTextV2:   {"application/vnd.kafka.text.v2+json", "application", formatTextV2, "v2.text"},
	formatEvents:   {"text/event-stream", "text", formatEvents, "sse"},
	formatSequence: {"application/json-seq", "application", formatSequence, ""}, // RFC 7464
}

// recordFormats are the representations of records: ndjson has three names.
var recordFormats = append(formats[:],
	offer{"application/ndjson", "application", formatLines, ""},
	offer{"application/jsonl", "application", formatLines, ""},
)

// messageFormats are what messages, the call of the REST proxy's API v1 and v2, gives: arrays only, binary by default.
// Records of v1 have no member that those of v2 lack.
var messageFormats = [...]offer{
	formats[formatBinaryV2],
	{"application/json", "application", formatBinaryV2, ""},
	formats[formatJSONV2],
	formats[formatTextV2],
	{"application/vnd.kafka.binary.v1+json", "application", formatBinaryV2, ""},
	{"application/vnd.kafka.json.v1+json", "application", formatJSONV2, ""},
	{"application/vnd.kafka.v2+json", "application", formatBinaryV2, ""},
	{"application/vnd.kafka.v1+json", "application", formatBinaryV2, ""},
}

// isArray says that the format is a bare array of records, whose paging is in headers.
func (f format) isArray() bool { return formatBinaryV2 <= f && f <= formatTextV2 }

// isStream says that answers in this format are sent while they are read: only their client bounds their length.
func (f format) isStream() bool {
	return f == formatLines || f == formatSequence || f == formatEvents || f == formatBatches
}

// maxOffers is the most representations that a resource has.
const maxOffers = 16

// offerNamed gives the offer that the format parameter asks for.
func offerNamed(value []byte, offers []offer) (*offer, *problem) {
	var names []string
	for i := range offers {
		if name := offers[i].name; name != "" {
			if name == string(value) {
				return &offers[i], nil
			}
			names = append(names, name)
		}
	}
	return nil, badParameter("format", "must be one of %s, not %q", strings.Join(names, ", "), printable(value))
}

// negotiate picks one of the offers for an Accept header (RFC 9110, 12.5.1): the most specific range that names an
// offer decides its quality, the highest quality wins, then the range that names it more exactly, then the one that
// the client wrote first. nil: nothing acceptable.
func negotiate(accept []byte, offers []offer) *offer {
	if len(bytes.TrimSpace(accept)) == 0 {
		return &offers[0]
	}
	type choice struct {
		quality     int // thousandths
		specificity int // 0 unnamed, 1 */*, 2 application/*, 3 exact
		order       int
	}
	var choices [maxOffers]choice
	for order := 1; len(accept) > 0; order++ {
		var item []byte
		item, accept, _ = bytes.Cut(accept, []byte{','})
		mediaRange, parameters, _ := bytes.Cut(item, []byte{';'})
		mediaRange = bytes.TrimSpace(mediaRange)
		quality := qualityOf(parameters)
		for i := range offers {
			specificity := 0
			switch {
			case equalFold(mediaRange, offers[i].mediaType):
				specificity = 3
			case len(mediaRange) == len(offers[i].kind)+2 && bytes.HasSuffix(mediaRange, []byte("/*")) &&
				equalFold(mediaRange[:len(mediaRange)-2], offers[i].kind):
				specificity = 2
			case string(mediaRange) == "*/*" || string(mediaRange) == "*":
				specificity = 1
			}
			if specificity > choices[i].specificity {
				choices[i] = choice{quality, specificity, order}
			}
		}
	}
	best := -1
	for i, c := range choices[:len(offers)] {
		if c.specificity == 0 || c.quality == 0 {
			continue
		}
		b := choices[max(best, 0)]
		if best < 0 || cmp.Or(c.quality-b.quality, c.specificity-b.specificity, b.order-c.order) > 0 {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &offers[best]
}

// negotiateCoding picks the coding for an Accept-Encoding header. zstd is taken only where it is named, and preferred
// there: it is faster and smaller than gzip at the levels used.
func negotiateCoding(accept []byte) engine.Coding {
	if len(accept) == 0 {
		return engine.Identity
	}
	const unnamed = -1
	quality, anything := [...]int{engine.Identity: unnamed, engine.Gzip: unnamed, engine.Zstd: unnamed}, 0
	for len(accept) > 0 {
		var item []byte
		item, accept, _ = bytes.Cut(accept, []byte{','})
		name, parameters, _ := bytes.Cut(item, []byte{';'})
		name = bytes.TrimSpace(name)
		q := qualityOf(parameters)
		switch {
		case equalFold(name, "gzip"), equalFold(name, "x-gzip"):
			quality[engine.Gzip] = q
		case equalFold(name, "zstd"):
			quality[engine.Zstd] = q
		case equalFold(name, "identity"):
			quality[engine.Identity] = q
		case string(name) == "*":
			anything = q
		}
	}
	if quality[engine.Gzip] == unnamed {
		quality[engine.Gzip] = anything
	}
	best := engine.Gzip
	if quality[engine.Zstd] >= quality[engine.Gzip] {
		best = engine.Zstd
	}
	if quality[best] <= 0 || quality[best] < quality[engine.Identity] {
		return engine.Identity
	}
	return best
}

// qualityOf gives the q parameter in thousandths: 1000 when there is none, 0 when it is malformed.
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
