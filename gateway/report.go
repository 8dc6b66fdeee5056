package gateway

import (
	"strconv"
	"time"

	"coldtap/fetch"

	"github.com/valyala/fasthttp"
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

// report is what an answer with records says of itself, in header fields, trailers and members of JSON: where it
// stopped and why, the address of the next page, and what it took.
type report struct {
	// The parts of the next page's address around its offset, which a stream knows only when fasthttp's context may no
	// longer be looked at.
	pageHead, pageTail []byte
	link, timing       []byte // values of header fields
	number             [20]byte

	clustered bool  // brokers are known to hold what follows
	lateness  int64 // of a range of time, else -1

	// When the stream was opened, and what it had waited for until then.
	openedAt                 time.Time
	openedStore, openedIndex time.Duration
}

// opened notes that the stream has reached its start: what the exchange computes from now on is filtering.
func (r *report) opened(st stream, req *fetch.Request) {
	bounds := st.Bounds()
	r.clustered, r.lateness = bounds.Clustered(), -1
	if req.EndTimestamp >= 0 {
		r.lateness = req.Lateness
	}
	r.openedAt = time.Now()
	r.openedStore, r.openedIndex = st.Stats().Store, st.Stats().Index
}

// setAddress notes the address of the request, for that of the next page. timeRange: what was timestamp is
// start_timestamp there.
func (r *report) setAddress(path, queryString []byte, q *query, timeRange bool) {
	r.pageHead = append(appendURI(r.pageHead[:0], path), "?offset="...)
	r.pageTail = q.appendRest(r.pageTail[:0], queryString, timeRange)
}

// appendPage appends the address of the page that begins at an offset.
func (r *report) appendPage(dst []byte, offset int64) []byte {
	return append(strconv.AppendInt(append(dst, r.pageHead...), offset, 10), r.pageTail...)
}

// atBroker says that the brokers have what follows.
func (r *report) atBroker(p progress) bool {
	return r.clustered && (p.end == fetch.EndTier || p.end == fetch.EndUndecided)
}

// setProgress sets the fields for where the answer stopped, as headers or, when they were announced as such, as
// trailers. setAddress must have been called.
func (r *report) setProgress(h *fasthttp.ResponseHeader, p progress) {
	h.SetBytesV("X-Kafka-Next-Offset", r.decimal(p.next))
	h.Set("X-Kafka-End", p.end.String())
	if p.end == fetch.EndUndecided && p.decided >= 0 {
		h.SetBytesV("X-Kafka-Decided-End-Offset", r.decimal(p.decided))
	}
	if r.atBroker(p) {
		h.Set("X-Kafka-Continue-At", "broker")
	}
	if p.end == fetch.EndLimit {
		r.link = append(r.appendPage(append(r.link[:0], '<'), p.next), `>; rel="next"`...)
		h.SetBytesV("Link", r.link)
	}
}

// appendEnd appends why an answer stopped as members of a JSON object, without braces.
func (r *report) appendEnd(dst []byte, p progress) []byte {
	dst = append(append(append(dst, `"end":"`...), p.end.String()...), '"')
	if r.lateness >= 0 {
		dst = append(append(append(dst, `,"lateness":"`...), latenessText(r.lateness)...), '"')
	}
	if p.decided >= 0 {
		dst = strconv.AppendInt(append(dst, `,"decided_end_offset":`...), p.decided, 10)
	}
	if r.atBroker(p) {
		dst = append(dst, `,"continue_at":"broker"`...)
	}
	return dst
}

// announceTrailers makes what is known only at a stream's end trailers.
func announceTrailers(h *fasthttp.ResponseHeader) {
	for _, name := range [...]string{"X-Kafka-Next-Offset", "X-Kafka-End", "X-Kafka-Decided-End-Offset",
		"X-Kafka-Continue-At", "Link", "Server-Timing", "X-Cache", "X-Store-Requests", "X-Store-Bytes"} {
		if err := h.AddTrailer(name); err != nil {
			panic(err) // the names are constant
		}
	}
}

// setCost sets what the answer took so far: the time of each step (Server-Timing), where the chunks came from, and the
// requests to the store that it waited for, read-ahead not counted. filter is what remains of the time since the stream
// was opened without waiting for store, indexes or client (blocked): cutting, checking, decoding and encoding.
func (r *report) setCost(h *fasthttp.ResponseHeader, s *fetch.Stats, blocked time.Duration) {
	filter := time.Since(r.openedAt) - blocked - (s.Store - r.openedStore) - (s.Index - r.openedIndex)
	v := appendMillis(append(r.timing[:0], "resolve;dur="...), s.Resolve)
	v = appendMillis(append(v, ", index;dur="...), s.Index)
	v = appendMillis(append(v, ", store;dur="...), s.Store)
	v = appendMillis(append(v, ", filter;dur="...), filter)
	r.timing = v
	h.SetBytesV("Server-Timing", v)
	if level := cacheLevels(s); level != "" {
		h.Set("X-Cache", level)
	}
	r.setStore(h, s)
}

// setStore sets the requests to the store and their bytes.
func (r *report) setStore(h *fasthttp.ResponseHeader, s *fetch.Stats) {
	h.SetBytesV("X-Store-Requests", r.decimal(int64(s.StoreRequests)))
	h.SetBytesV("X-Store-Bytes", r.decimal(s.StoreBytes))
}

// setOffset sets a header to an offset, unless it is not known.
func (r *report) setOffset(h *fasthttp.ResponseHeader, name string, offset int64) {
	if offset >= 0 {
		h.SetBytesV(name, r.decimal(offset))
	}
}

// decimal formats a number for a header, valid until the next call.
func (r *report) decimal(n int64) []byte { return strconv.AppendInt(r.number[:0], n, 10) }

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
