package gateway

import (
	"bytes"
	"strconv"
	"time"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"
	"coldtap/internal/rfc3339"
	"coldtap/readerpool"
	"coldtap/segment"
)

// number parses a decimal without sign, spaces or overflow, least ≤ n ≤ most.
func number(name string, value []byte, least, most int64) (int64, *problem) {
	n, ok := digits(value)
	if !ok || n < least || n > most {
		return 0, badParameter(name, "must be a number from %d to %d, not %q", least, most, printable(value))
	}
	return n, nil
}

func digits(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0') // at most 19 digits: wraps at most once, into the negative
	}
	return n, n >= 0
}

func boolean(name string, value []byte) (bool, *problem) {
	switch string(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, badParameter(name, "must be true or false, not %q", printable(value))
}

func topicID(name string, value []byte) (segment.UUID, *problem) {
	id, err := segment.ParseUUID(string(value))
	if err != nil || id.IsZero() {
		return segment.UUID{}, badParameter(name, "must be a topic id (22 characters of URL-safe base64), not %q", printable(value))
	}
	return id, nil
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

// instant is a time that a parameter names.
type instant struct {
	ms   int64 // since 1970
	bare bool  // written as a number without a unit, which may have been meant as seconds
}

// timestamp parses a point in time: epoch milliseconds, with or without ms behind them, or what rfc3339.Parse takes.
func timestamp(name string, value []byte) (instant, *problem) {
	if n, ok := digits(value); ok {
		return instant{n, true}, nil
	}
	if number, ok := bytes.CutSuffix(value, []byte("ms")); ok {
		if n, ok := digits(number); ok {
			return instant{n, false}, nil
		}
	}
	ms, ok := rfc3339.Parse(value)
	if !ok {
		return instant{}, badParameter(name, "must be epoch milliseconds (1700000000000), an RFC 3339 time (2023-11-14T22:13:20Z or 2023-11-14T23:13:20.5+01:00), "+
			"the same with a space for the T (UTC unless an offset is given), or a date alone, not %q", printable(value))
	}
	if ms < 0 {
		return instant{}, badParameter(name, "must not be before 1970, not %q", printable(value))
	}
	return instant{ms, false}, nil
}

// lateness parses how far out of order timestamps may be, in milliseconds, rounded up.
func lateness(value []byte) (ms int64, err *problem) {
	d, bad := time.ParseDuration(string(value))
	if bad != nil || d < 0 {
		return 0, badParameter("lateness", "must be a duration of h, m, s and ms, such as 0s, 10m or 24h, not %q", printable(value))
	}
	if ms = d.Milliseconds(); d%time.Millisecond != 0 {
		ms++
	}
	return ms, nil
}

// latenessText writes a lateness in the largest unit that needs no fraction.
func latenessText(ms int64) string {
	switch {
	case ms == 0:
		return "0s"
	case ms%3_600_000 == 0:
		return strconv.FormatInt(ms/3_600_000, 10) + "h"
	case ms%60_000 == 0:
		return strconv.FormatInt(ms/60_000, 10) + "m"
	case ms%1000 == 0:
		return strconv.FormatInt(ms/1000, 10) + "s"
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// secondsBelow bounds the numbers that may have been meant as seconds: as seconds it is the year 5138, as milliseconds
// 1973.
const secondsBelow = 100_000_000_000

// refuseSeconds refuses a bare number that was probably meant as seconds: it lies outside the partition's time span,
// and a thousand times it inside. Taken for milliseconds, epoch seconds are a day in January 1970.
func (x *exchange) refuseSeconds(name string, at instant) *problem {
	if !at.bare || at.ms == 0 || at.ms >= secondsBelow {
		return nil
	}
	from, to, known := x.srv.service.TimeSpan(x.req.Topic, x.req.TopicID, x.req.Partition)
	if !known || from <= at.ms && at.ms <= to || at.ms*1000 < from || at.ms*1000 > to {
		return nil
	}
	return badParameter(name, "%d was read as milliseconds, which is %s, long before the partition's records; were seconds meant (%s)? Write %d000, or %dms for what was read",
		at.ms, time.UnixMilli(at.ms).UTC().Format(time.RFC3339), time.Unix(at.ms, 0).UTC().Format(time.RFC3339), at.ms, at.ms)
}
