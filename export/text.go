package export

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"coldtap/internal/jsonenc"
	"coldtap/segment"
)

// encodings are the gateway's.
var encodings = map[string]jsonenc.Encoding{"text": jsonenc.Text, "base64": jsonenc.Base64, "json": jsonenc.JSON}

// encoder gives what appends one record of a partition, with its line's end; nil for formats that are no text.
func (e *export) encoder(partition int32) func(dst []byte, r *segment.Record) []byte {
	encoding := encodings[e.options.Encoding]
	j := new(jsonenc.Encoder)
	j.Reset(e.options.Topic, partition, encoding)
	switch e.options.Format {
	case NDJSON:
		return func(dst []byte, r *segment.Record) []byte { return append(j.AppendRecord(dst, r), '\n') }
	case CSV:
		c := &csvEncoder{json: j, base64: encoding == jsonenc.Base64}
		c.prefix = strconv.AppendInt(append(c.prefix, e.options.Topic+","...), int64(partition), 10)
		return c.appendRecord
	}
	return nil
}

// csvHead is a CSV file's first line.
const csvHead = "topic,partition,offset,timestamp,timestamp_type,key,value,headers,leader_epoch\r\n"

// csvNull stands for null, so that it differs from empty for every reader; many know it under the name nullstr or
// na_values.
const csvNull = `\N`

// csvEncoder writes records by RFC 4180. Keys and values are base64, which never equals csvNull, so that a reader gets
// the exact bytes back; or text, where bytes that are not UTF-8 are shown as the marker of package jsonenc. headers is
// a JSON array as in ndjson.
type csvEncoder struct {
	json    *jsonenc.Encoder
	prefix  []byte // topic,partition
	base64  bool
	scratch []byte
}

func (c *csvEncoder) appendRecord(dst []byte, r *segment.Record) []byte {
	dst = append(append(dst, c.prefix...), ',')
	dst = strconv.AppendInt(dst, r.Offset, 10)
	dst = strconv.AppendInt(append(dst, ','), r.Timestamp, 10)
	if r.TimestampType == segment.LogAppendTime {
		dst = append(dst, ",LOG_APPEND_TIME,"...)
	} else {
		dst = append(dst, ",CREATE_TIME,"...)
	}
	dst = c.appendBytes(dst, r.Key)
	dst = c.appendBytes(append(dst, ','), r.Value)
	c.scratch = c.json.AppendHeaders(reuse(c.scratch), r)
	dst = appendField(append(dst, ','), c.scratch)
	dst = strconv.AppendInt(append(dst, ','), int64(r.LeaderEpoch), 10)
	return append(dst, '\r', '\n')
}

func (c *csvEncoder) appendBytes(dst, b []byte) []byte {
	switch {
	case b == nil:
		return append(dst, csvNull...)
	case c.base64:
		return base64.StdEncoding.AppendEncode(dst, b)
	case utf8.Valid(b):
		return appendField(dst, b)
	}
	c.scratch = jsonenc.AppendMarker(reuse(c.scratch), b)
	return appendField(dst, c.scratch)
}

// appendField quotes what needs it, and what a reader could take for null or trim.
func appendField(dst, b []byte) []byte {
	if !bytes.ContainsAny(b, "\",\r\n\\ \t") {
		return append(dst, b...)
	}
	dst = append(dst, '"')
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			break
		}
		dst = append(append(dst, b[:i]...), '"', '"')
		b = b[i+1:]
	}
	return append(append(dst, b...), '"')
}
