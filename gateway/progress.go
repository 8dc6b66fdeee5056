package gateway

import (
	"strconv"
	"time"

	"coldtap/fetch"
)

// progress is where an answer stopped and why.
type progress struct {
	next    int64
	end     fetch.EndReason
	decided int64 // for undecided, else -1
}

// progressOf is valid after the stream has given io.EOF.
func progressOf(st stream) progress {
	end, decided := st.End()
	return progress{st.NextOffset(), end, decided}
}

// limitAt is the progress of an answer that is stopped here, not by the stream.
func limitAt(next int64) progress { return progress{next, fetch.EndLimit, -1} }

// atBroker says that the brokers have what follows.
func (x *exchange) atBroker(p progress) bool {
	return x.clustered && (p.end == fetch.EndTier || p.end == fetch.EndUndecided)
}

// setProgress sets the fields that tell it, as headers or, when they were announced as such, as trailers.
// prepareLink must have been called.
func (x *exchange) setProgress(p progress) {
	h := &x.resp.Header
	h.SetBytesV("X-Kafka-Next-Offset", x.decimal(p.next))
	h.Set("X-Kafka-End", p.end.String())
	if p.end == fetch.EndUndecided && p.decided >= 0 {
		h.SetBytesV("X-Kafka-Decided-End-Offset", x.decimal(p.decided))
	}
	if x.atBroker(p) {
		h.Set("X-Kafka-Continue-At", "broker")
	}
	if p.end == fetch.EndLimit {
		x.setNextLink(p.next)
	}
}

// appendEnd appends why an answer stopped as members of a JSON object, without braces.
func (x *exchange) appendEnd(dst []byte, p progress) []byte {
	dst = append(append(append(dst, `"end":"`...), p.end.String()...), '"')
	if x.req.EndTimestamp >= 0 {
		dst = append(append(append(dst, `,"lateness":"`...), latenessText(x.req.Lateness)...), '"')
	}
	if p.decided >= 0 {
		dst = strconv.AppendInt(append(dst, `,"decided_end_offset":`...), p.decided, 10)
	}
	if x.atBroker(p) {
		dst = append(dst, `,"continue_at":"broker"`...)
	}
	return dst
}

// announceTrailers makes what is known only at a stream's end trailers.
func (x *exchange) announceTrailers() {
	for _, name := range [...]string{"X-Kafka-Next-Offset", "X-Kafka-End", "X-Kafka-Decided-End-Offset", "X-Kafka-Continue-At",
		"Link", "Server-Timing", "X-Cache", "X-Store-Requests", "X-Store-Bytes"} {
		x.trailer(name)
	}
}

// opened notes that the stream stands at its start: what the exchange computes from now on is filtering.
func (x *exchange) opened(st stream) {
	x.openedAt = time.Now()
	x.openedStore, x.openedIndex = st.Stats().Store, st.Stats().Index
	bounds := st.Bounds()
	x.clustered = bounds.Clustered()
}

// setCost tells what the answer took so far: the time of each step (Server-Timing), where the chunks came from, and the
// requests to the store that it waited for, read-ahead not counted. filter is what remains of the time since the stream
// was opened without waiting for store, indexes or client: cutting, checking, decoding and encoding.
func (x *exchange) setCost(s *fetch.Stats) {
	h := &x.resp.Header
	filter := time.Since(x.openedAt) - x.out.blocked - (s.Store - x.openedStore) - (s.Index - x.openedIndex)
	v := appendMillis(append(x.timing[:0], "resolve;dur="...), s.Resolve)
	v = appendMillis(append(v, ", index;dur="...), s.Index)
	v = appendMillis(append(v, ", store;dur="...), s.Store)
	v = appendMillis(append(v, ", filter;dur="...), filter)
	x.timing = v
	h.SetBytesV("Server-Timing", v)
	if level := cacheLevels(s); level != "" {
		h.Set("X-Cache", level)
	}
	h.SetBytesV("X-Store-Requests", x.decimal(int64(s.StoreRequests)))
	h.SetBytesV("X-Store-Bytes", x.decimal(s.StoreBytes))
}

// cacheLevels says where the answer's chunks were found; empty when it took none.
func cacheLevels(s *fetch.Stats) string {
	missed := s.ChunksMissed+s.ChunksJoined > 0
	switch {
	case s.ChunksMem > 0 && missed:
		return "MEM,MISS"
	case missed:
		return "MISS"
	case s.ChunksMem > 0:
		return "MEM"
	}
	return ""
}

// appendMillis appends milliseconds with three digits behind the point.
func appendMillis(dst []byte, d time.Duration) []byte {
	us := max(d, 0).Microseconds()
	dst = append(strconv.AppendInt(dst, us/1000, 10), '.')
	us %= 1000
	return append(dst, byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
}
