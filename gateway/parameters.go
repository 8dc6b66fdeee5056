package gateway

import (
	"math"
	"time"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"
	"coldtap/readerpool"
)

const (
	defaultMaxBytes = 1 << 20
	defaultTimeout  = 30 * time.Second
	maxTimeout      = 10 * time.Minute
	// bulkFrom is the max_bytes above which a read yields to smaller ones in the reader pool.
	bulkFrom = 16 << 20
)

// wanted is what a records request asks for beyond what fetch is asked.
type wanted struct {
	encoding jsonenc.Encoding
	explain  bool
	summary  bool // ndjson tells in a last line how it ended
	toEnd    bool // a stream that goes on to the end that the client gave

	from, since, to instant // timestamp, start_timestamp and end_timestamp, as they were written
}

// parseRecords fills x.req from the query of a records or messages request. resume is the start that a reconnecting
// event stream gives in place of the query's, -1 when it gives none.
func (x *exchange) parseRecords(raw []byte, format format, resume int64) (want wanted, err *problem) {
	messages := x.route == routeMessages
	r := &x.req
	r.EndOffset, r.EndTimestamp = -1, -1
	r.MaxBytes = min(defaultMaxBytes, x.srv.limits.Load().maxBytes)
	r.Timeout = defaultTimeout
	if messages {
		r.MaxRecords = 1
	}
	haveOffset, haveTime, haveBytes, haveLateness, haveLane := false, false, false, false, false
	mostBytes := x.srv.limits.Load().maxBytes
	if format.isStream() {
		r.Stream, r.MaxBytes, mostBytes = true, defaultMaxBytes, math.MaxInt64
	}
	q := &x.query
	q.reset(raw)
	for {
		ok, err := q.next()
		if err != nil {
			return want, err
		}
		if !ok {
			break
		}
		switch name := string(q.name); {
		case name == "offset":
			if err = q.once("offset"); err == nil {
				haveOffset = true
				r.Start, r.Offset, err = startOffset(q.value)
			}
		case name == "timestamp":
			if err = q.once("timestamp"); err == nil {
				haveTime = true
				want.from, err = timestamp("timestamp", q.value)
				r.Timestamp = want.from.ms
			}
		case name == "end_offset":
			if err = q.once("end_offset"); err == nil {
				r.EndOffset, err = number("end_offset", q.value, 0, math.MaxInt64)
			}
		case name == "end_timestamp":
			if err = q.once("end_timestamp"); err == nil {
				want.to, err = timestamp("end_timestamp", q.value)
				r.EndTimestamp = want.to.ms
			}
		case name == "start_timestamp":
			if err = q.once("start_timestamp"); err == nil {
				want.since, err = timestamp("start_timestamp", q.value)
				r.StartTimestamp, r.HasStartTimestamp = want.since.ms, true
			}
		case name == "lateness":
			if err = q.once("lateness"); err == nil {
				haveLateness = true
				r.Lateness, err = lateness(q.value)
			}
		case name == "max_bytes":
			if err = q.once("max_bytes"); err == nil {
				haveBytes = true
				r.MaxBytes, err = number("max_bytes", q.value, 1, mostBytes)
			}
		case name == "count" && messages:
			if err = q.once("count"); err == nil {
				r.MaxRecords, err = number("count", q.value, 1, math.MaxInt64)
			}
		case name == "max_records" && !messages:
			if err = q.once("max_records"); err == nil {
				r.MaxRecords, err = number("max_records", q.value, 1, math.MaxInt64)
			}
		case name == "isolation_level":
			if err = q.once("isolation_level"); err == nil {
				r.Isolation, err = isolation(q.value)
			}
		case name == "timeout":
			if err = q.once("timeout"); err == nil {
				r.Timeout, err = timeout(q.value)
			}
		case name == "lane":
			if err = q.once("lane"); err == nil {
				r.Lane, err = laneOf(q.value)
				haveLane = true
			}
		case name == "explain" && !messages:
			if err = q.once("explain"); err == nil {
				want.explain, err = boolean("explain", q.value)
			}
		case name == "format":
			err = q.once("format") // chooseFormat has read it
		case name == "summary" && !messages:
			if err = q.once("summary"); err == nil {
				want.summary, err = boolean("summary", q.value)
			}
		case name == "encoding" && !messages:
			if err = q.once("encoding"); err == nil {
				want.encoding, err = encodingOf(q.value, format)
			}
		case name == "topic_id":
			if err = q.once("topic_id"); err == nil {
				r.TopicID, err = topicID("topic_id", q.value)
			}
		default:
			err = q.unknown()
		}
		if err != nil {
			return want, err
		}
	}
	switch {
	case haveTime && r.HasStartTimestamp:
		return want, badParameter("start_timestamp", "it is a filter beside offset; a range of time is timestamp and end_timestamp")
	case haveLateness && r.EndTimestamp < 0:
		return want, badParameter("lateness", "it says how far to look beyond end_timestamp, which is not given")
	case haveTime && r.EndTimestamp >= 0:
		r.StartTimestamp, r.HasStartTimestamp = r.Timestamp, true
	}
	if r.HasStartTimestamp && r.EndTimestamp >= 0 && r.EndTimestamp < r.StartTimestamp {
		name := "start_timestamp"
		if haveTime {
			name = "timestamp"
		}
		return want, newProblem(codeContradiction, "end_timestamp %d is before %s %d", r.EndTimestamp, name, r.StartTimestamp)
	}
	switch {
	case resume >= 0:
		r.Start, r.Offset, haveOffset, haveTime = fetch.FromOffset, resume, true, false
	case haveOffset == haveTime:
		return want, newProblem(codeContradiction, "give either offset (a number, earliest, latest or earliest_local) or timestamp, exactly one of them")
	case haveTime:
		r.Start = fetch.FromTimestamp
	}
	if r.Start == fetch.FromOffset && r.EndOffset >= 0 && r.EndOffset < r.Offset {
		return want, newProblem(codeContradiction, "end_offset %d is before offset %d", r.EndOffset, r.Offset)
	}
	switch format {
	case formatBinaryV2:
		want.encoding = jsonenc.Base64
	case formatJSONV2:
		want.encoding = jsonenc.OnlyJSON
	case formatTextV2:
		want.encoding = jsonenc.PlainText
	}
	if r.Stream && !haveBytes && (r.EndOffset >= 0 || r.EndTimestamp >= 0) {
		want.toEnd, r.MaxBytes = true, math.MaxInt64
	}
	if !haveLane && r.MaxBytes > bulkFrom {
		r.Lane = readerpool.Bulk
	}
	return want, nil
}

func timeout(value []byte) (time.Duration, *problem) {
	ms, err := number("timeout", value, 1, maxTimeout.Milliseconds())
	return time.Duration(ms) * time.Millisecond, err
}

func laneOf(value []byte) (readerpool.Lane, *problem) {
	for _, lane := range []readerpool.Lane{readerpool.Interactive, readerpool.Bulk} {
		if string(value) == lane.String() {
			return lane, nil
		}
	}
	return 0, badParameter("lane", "must be interactive or bulk, not %q", printable(value))
}

func startOffset(value []byte) (fetch.StartKind, int64, *problem) {
	switch string(value) {
	case "earliest":
		return fetch.FromEarliest, 0, nil
	case "latest":
		return fetch.FromLatest, 0, nil
	case "earliest_local":
		return fetch.FromEarliestLocal, 0, nil
	}
	n, ok := digits(value)
	if !ok {
		return 0, 0, badParameter("offset", "must be an offset, earliest, latest or earliest_local, not %q", printable(value))
	}
	return fetch.FromOffset, n, nil
}

func isolation(value []byte) (fetch.Isolation, *problem) {
	switch string(value) {
	case "read_committed":
		return fetch.ReadCommitted, nil
	case "read_uncommitted":
		return fetch.ReadUncommitted, nil
	}
	return 0, badParameter("isolation_level", "must be read_committed or read_uncommitted, not %q", printable(value))
}

func encodingOf(value []byte, format format) (jsonenc.Encoding, *problem) {
	if format.isArray() {
		return 0, badParameter("encoding", "%s has one encoding; accept another media type", formats[format].mediaType)
	}
	switch string(value) {
	case "base64":
		return jsonenc.Base64, nil
	case "json":
		return jsonenc.JSON, nil
	}
	return 0, badParameter("encoding", "must be base64 or json, not %q", printable(value))
}
