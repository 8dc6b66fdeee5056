// Package jsonenc writes Kafka records as JSON by appending to a caller's buffer, without reflection and without
// allocation.
//
// Record keys, values and header values are arbitrary bytes and JSON strings are Unicode. The marker, an object with
// the one member __raw__, holds bytes as base64 where no other form gives them back:
//
//	encoding  null    shown as null   valid UTF-8            JSON on one line, for strict parsers   other bytes
//	Text      null    null            a string               a string                               the marker
//	JSON      null    null            a string               the document, verbatim                 the marker
//	Base64    null    null            base64, and so is everything that is not null
//
// With JSON, the marker also holds what embedding would make ambiguous or a reader may refuse: the document null, a
// document that is a string, an object with a member __raw__, and JSON with line breaks, white space around it, lone
// surrogates, numbers beyond a float64 or nesting beyond 512. So a string is always the text of bytes that are no JSON,
// an object with __raw__ always the marker, null always null, and anything else the bytes themselves.
//
// Text is scanned eight bytes at a time, because nearly all of it needs no escape at all: that is what makes it several
// times faster than encoding/json, which also has to copy a []byte into a string first.
//
// Non-goals: decoding, HTML escaping.
package jsonenc

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"coldtap/segment"
)

// Encoding says how keys, values and header values are shown.
type Encoding uint8

const (
	// Text shows valid UTF-8 as a string, anything else as {"__raw__":"<base64>"}.
	Text Encoding = iota
	// Base64 shows every key, value and header value as a base64 string. Header keys stay text.
	Base64
	// JSON embeds what is a JSON document on one line, verbatim, and shows the rest as Text does; the package's doc names
	// the documents that it shows as the marker, so that a reader can always recover the bytes.
	JSON
	// PlainText shows keys and values as strings, and does not fit a record that has one which is no valid UTF-8.
	PlainText
	// OnlyJSON embeds every JSON document, compacted onto one line, keys likewise where they are JSON, and does not fit a
	// record whose value is neither null nor a document that strict parsers take.
	OnlyJSON
)

// Encoder writes the records of one partition. The zero value must be Reset first; it keeps its buffer over Resets.
// Not for concurrent use.
type Encoder struct {
	prefix   []byte // {"topic":"t","partition":0,"offset":
	encoding Encoding
}

// Reset makes the encoder write records of a partition.
func (e *Encoder) Reset(topic string, partition int32, encoding Encoding) {
	e.encoding = encoding
	e.prefix = append(e.prefix[:0], `{"topic":`...)
	e.prefix = AppendString(e.prefix, topic)
	e.prefix = append(e.prefix, `,"partition":`...)
	e.prefix = strconv.AppendInt(e.prefix, int64(partition), 10)
	e.prefix = append(e.prefix, `,"offset":`...)
}

// AppendRecord appends r as one JSON object, without a line break in it or after it. What does not fit the encoding is
// shown as Text shows it.
func (e *Encoder) AppendRecord(dst []byte, r *segment.Record) []byte {
	dst, _ = e.TryAppendRecord(dst, r)
	return dst
}

// TryAppendRecord is AppendRecord, and says whether the record fits the encoding.
func (e *Encoder) TryAppendRecord(dst []byte, r *segment.Record) (out []byte, fits bool) {
	dst = e.appendHead(dst, r)
	dst, keyFits := e.appendKey(dst, r.Key)
	dst = append(dst, `,"value":`...)
	dst, valueFits := e.appendValue(dst, r.Value)
	dst = append(dst, `,"headers":`...)
	dst = e.AppendHeaders(dst, r)
	return e.appendTail(dst, r), keyFits && valueFits
}

// appendHead appends what stands before r's key.
func (e *Encoder) appendHead(dst []byte, r *segment.Record) []byte {
	dst = append(dst, e.prefix...)
	dst = strconv.AppendInt(dst, r.Offset, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, r.Timestamp, 10)
	if r.TimestampType == segment.LogAppendTime {
		return append(dst, `,"timestamp_type":"LOG_APPEND_TIME","key":`...)
	}
	return append(dst, `,"timestamp_type":"CREATE_TIME","key":`...)
}

// appendTail appends what stands behind r's headers.
func (e *Encoder) appendTail(dst []byte, r *segment.Record) []byte {
	dst = append(dst, `,"leader_epoch":`...)
	dst = strconv.AppendInt(dst, int64(r.LeaderEpoch), 10)
	return append(dst, '}')
}

// AppendHeaders appends r's headers as AppendRecord shows them, a JSON array.
func (e *Encoder) AppendHeaders(dst []byte, r *segment.Record) []byte {
	dst = append(dst, '[')
	for i := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = appendText(dst, r.Headers[i].Key)
		dst = append(dst, `,"value":`...)
		dst = e.appendBytes(dst, r.Headers[i].Value)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// fixedSize covers everything of a record but the prefix and its bytes: names, punctuation and four numbers of at
// most 20 digits.
const fixedSize = 256

// countFrom is the length from which a piece's exact size is counted instead of assumed to be the worst, six bytes
// for one ("\u0001"). Counting costs a scan; below this, assuming costs at most 12 KiB of room for a moment.
const countFrom = 2 << 10

// SizeBound gives a number of bytes that AppendRecord will not exceed for r, so that room can be made before.
func (e *Encoder) SizeBound(r *segment.Record) int {
	n := fixedSize + len(e.prefix) + e.bound(r.Key) + e.bound(r.Value)
	for i := range r.Headers {
		n += len(`{"key":"","value":""},`) + textBound(r.Headers[i].Key) + e.bound(r.Headers[i].Value)
	}
	return n
}

func (e *Encoder) bound(b []byte) int {
	if e.encoding == Base64 {
		return base64.StdEncoding.EncodedLen(len(b)) + 2
	}
	return textBound(b)
}

func textBound(b []byte) int {
	if len(b) < countFrom {
		return 6*len(b) + 8 + len(rawOpen) + len(rawClose)
	}
	return max(len(b)+extraBytes(b)+2+slack, base64.StdEncoding.EncodedLen(len(b))+len(rawOpen)+len(rawClose))
}

func (e *Encoder) appendKey(dst, b []byte) (out []byte, fits bool) {
	switch {
	case e.encoding == OnlyJSON && b != nil:
		if out, ok := appendCompacted(dst, b); ok {
			return out, true
		}
	case e.encoding == PlainText:
		return e.appendBytes(dst, b), utf8.Valid(b)
	}
	return e.appendBytes(dst, b), true
}

func (e *Encoder) appendValue(dst, b []byte) (out []byte, fits bool) {
	switch {
	case b == nil:
		fits = true
	case e.encoding == OnlyJSON:
		if out, ok := appendCompacted(dst, b); ok {
			return out, true
		}
	case e.encoding == PlainText:
		fits = utf8.Valid(b)
	default:
		fits = true
	}
	return e.appendBytes(dst, b), fits
}

// appendBytes appends bytes in a form that gives them back: header values, and keys and values that need not fit.
func (e *Encoder) appendBytes(dst, b []byte) []byte {
	switch {
	case b == nil:
		return append(dst, "null"...)
	case e.encoding == Base64:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, b)
		return append(dst, '"')
	case e.encoding == JSON:
		return appendMixed(dst, b)
	default:
		return appendText(dst, b)
	}
}

const (
	rawOpen  = `{"__raw__":"`
	rawClose = `"}`
)

// appendText appends b as a JSON string, or as the raw object when b is not valid UTF-8. A nil b is an empty string.
func appendText(dst, b []byte) []byte {
	start := len(dst)
	if out, ok := appendString(dst, b); ok {
		return out
	}
	return AppendMarker(dst[:start], b)
}

// AppendMarker appends the marker that holds b.
func AppendMarker(dst, b []byte) []byte {
	dst = append(dst, rawOpen...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, rawClose...)
}
