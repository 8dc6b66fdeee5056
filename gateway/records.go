package gateway

import (
	"bytes"
	"io"
	"math"
	"strconv"
	"time"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"

	"github.com/valyala/fasthttp"
)

const (
	defaultMaxBytes = 1 << 20
	defaultTimeout  = 30 * time.Second
	maxTimeout      = 10 * time.Minute
	// bulkFrom is the max_bytes above which a read yields to smaller ones in the reader pool.
	bulkFrom = 16 << 20
)

// parseRecords fills x.req from the query of a records request.
func (x *exchange) parseRecords(raw []byte) (encoding jsonenc.Encoding, err *problem) {
	r := &x.req
	r.EndOffset, r.EndTimestamp = -1, -1
	r.MaxBytes = min(defaultMaxBytes, x.srv.maxBytes)
	r.Timeout = defaultTimeout
	haveOffset, haveTime := false, false
	q := &x.query
	q.reset(raw)
	for {
		ok, err := q.next()
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		switch string(q.name) {
		case "offset":
			if err = q.once("offset"); err == nil {
				haveOffset = true
				r.Start, r.Offset, err = startOffset(q.value)
			}
		case "timestamp":
			if err = q.once("timestamp"); err == nil {
				haveTime = true
				r.Timestamp, err = timestamp("timestamp", q.value)
			}
		case "end_offset":
			if err = q.once("end_offset"); err == nil {
				r.EndOffset, err = number("end_offset", q.value, 0, math.MaxInt64)
			}
		case "end_timestamp":
			if err = q.once("end_timestamp"); err == nil {
				r.EndTimestamp, err = timestamp("end_timestamp", q.value)
			}
		case "max_bytes":
			if err = q.once("max_bytes"); err == nil {
				r.MaxBytes, err = number("max_bytes", q.value, 1, x.srv.maxBytes)
			}
		case "max_records":
			if err = q.once("max_records"); err == nil {
				r.MaxRecords, err = number("max_records", q.value, 1, math.MaxInt64)
			}
		case "isolation_level":
			if err = q.once("isolation_level"); err == nil {
				r.Isolation, err = isolation(q.value)
			}
		case "timeout":
			if err = q.once("timeout"); err == nil {
				var ms int64
				ms, err = number("timeout", q.value, 1, maxTimeout.Milliseconds())
				r.Timeout = time.Duration(ms) * time.Millisecond
			}
		case "encoding":
			if err = q.once("encoding"); err == nil {
				encoding, err = encodingOf(q.value)
			}
		case "topic_id":
			if err = q.once("topic_id"); err == nil {
				r.TopicID, err = topicID("topic_id", q.value)
			}
		default:
			err = q.unknown()
		}
		if err != nil {
			return 0, err
		}
	}
	switch {
	case haveOffset == haveTime:
		return 0, newProblem(codeContradiction, "give either offset (a number, earliest, latest or earliest_local) or timestamp, exactly one of them")
	case haveTime:
		r.Start = fetch.FromTimestamp
		if r.EndTimestamp >= 0 && r.EndTimestamp < r.Timestamp {
			return 0, newProblem(codeContradiction, "end_timestamp %d is before timestamp %d", r.EndTimestamp, r.Timestamp)
		}
	case r.Start == fetch.FromOffset && r.EndOffset >= 0 && r.EndOffset < r.Offset:
		return 0, newProblem(codeContradiction, "end_offset %d is before offset %d", r.EndOffset, r.Offset)
	}
	r.Bulk = r.MaxBytes > bulkFrom
	return encoding, nil
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

func encodingOf(value []byte) (jsonenc.Encoding, *problem) {
	switch string(value) {
	case "base64":
		return jsonenc.Base64, nil
	case "json":
		return jsonenc.JSON, nil
	}
	return 0, badParameter("encoding", "must be base64 or json, not %q", printable(value))
}

// serveRecords answers records in one of the formats.
func (x *exchange) serveRecords(ctx *fasthttp.RequestCtx) error {
	format, ok := negotiate(ctx.Request.Header.Peek("Accept"))
	if !ok {
		p := newProblem(codeNotAcceptable, "none of the accepted media types can be given")
		p.supported = true
		return p
	}
	encoding, bad := x.parseRecords(ctx.URI().QueryString())
	if bad != nil {
		return bad
	}
	x.enter(phaseWaiting)
	st, err := x.srv.service.Open(x.ctx, &x.req)
	x.enter(phaseBusy)
	if err != nil {
		return x.openProblem(err)
	}
	x.respond(formats[format].mediaType)
	bounds := st.Bounds()
	x.setOffset("X-Kafka-Log-Start-Offset", bounds.Start)
	x.setOffset("X-Kafka-Tiered-End-Offset", bounds.TieredEnd)
	if x.head {
		st.Close()
		return nil
	}
	switch format {
	case formatBatches:
		return x.sendBatches(ctx, st)
	case formatLines:
		return x.sendLines(ctx, st, encoding)
	default:
		return x.sendJSON(ctx, st, encoding)
	}
}

// openProblem makes the one refusal that is about a parameter sound like it: earliest_local has no meaning without a
// cluster, which only fetch knows.
func (x *exchange) openProblem(err error) error {
	p := problemOf(err)
	if p.code == codeContradiction && x.req.Start == fetch.FromEarliestLocal {
		return badParameter("offset", "%s", p.message)
	}
	return err
}

// setOffset sets a header to an offset, unless it is not known.
func (x *exchange) setOffset(name string, offset int64) {
	if offset >= 0 {
		x.resp.Header.SetBytesV(name, x.decimal(offset))
	}
}

// sendBatches streams stored batches. When all of the answer was seen before the status line, its length and progress
// are headers; otherwise it is chunked, and the progress follows in trailers.
func (x *exchange) sendBatches(ctx *fasthttp.RequestCtx, st stream) error {
	b := &x.body
	b.reset(x, st, st)
	x.owned = b
	// An answer that may be longer than may be pinned ahead starts as soon as there is something worth a write.
	enough := x.srv.lookAhead
	if x.req.MaxBytes > enough {
		enough = min(enough, writeSlice)
	}
	size, cutShort, err := b.collect(x.ctx, enough)
	if err != nil {
		return err
	}
	if b.all {
		p := limitAt(st.NextOffset())
		if !cutShort {
			p = progressOf(st)
		}
		x.setProgress(p)
		x.setNextLink(ctx, p)
		b.left = size
		x.out.declare(b, size)
		return nil
	}
	return x.sendStream(ctx, b)
}

// sendStream sends a body of records whose length is not known.
func (x *exchange) sendStream(ctx *fasthttp.RequestCtx, stream bodyStream) error {
	if x.http10 {
		x.closeDelimited(ctx, stream)
		return nil
	}
	x.announceProgress()
	x.out.declare(stream, -1)
	return nil
}

func (x *exchange) sendLines(ctx *fasthttp.RequestCtx, st stream, encoding jsonenc.Encoding) error {
	l := &x.lines
	x.owned = l
	if err := l.reset(x, st, encoding); err != nil {
		return err
	}
	if err := l.start(x.ctx); err != nil {
		return err
	}
	if l.finished {
		x.out.declare(l, int64(len(l.buf)))
		return nil
	}
	return x.sendStream(ctx, l)
}

// sendJSON builds the whole answer, bounded, before the status line.
func (x *exchange) sendJSON(ctx *fasthttp.RequestCtx, st stream, encoding jsonenc.Encoding) error {
	a := x.newAnswer()
	a.st = st
	progress, err := x.buildJSON(ctx, a, st, encoding)
	if err != nil {
		return err
	}
	a.closeStream()
	x.setProgress(progress)
	x.setNextLink(ctx, progress)
	a.send()
	return nil
}

// buildJSON encodes records until the stream or the answer's share of the decode budget ends. The first batch's
// records come whole as long as the budget has room; as far as can be told from outside, a batch ends where the stream
// has nothing more at hand.
func (x *exchange) buildJSON(ctx *fasthttp.RequestCtx, a *answer, st stream, encoding jsonenc.Encoding) (progress, error) {
	uri := ctx.URI()
	path, queryString := uri.PathOriginal(), uri.QueryString()
	headRoom := int64(1024 + 6*(len(path)+len(queryString)))
	if err := x.reserve(headRoom); err != nil {
		return progress{}, err
	}
	a.holds += headRoom

	const tail = "]}\n" // every record is added with room for it behind
	name, _ := st.Topic()
	encoder := &x.lines.encoder
	record := &x.lines.record
	encoder.Reset(name, x.req.Partition, encoding)
	p := limitAt(st.StartOffset())
	records, length, firstBatch := 0, 0, true
	for {
		if records > 0 && !st.Buffered() {
			firstBatch = false
			if a.pressed() {
				p = limitAt(st.NextOffset())
				break
			}
		}
		if !firstBatch && length >= x.srv.jsonShare {
			p = limitAt(st.NextOffset())
			break
		}
		if records == 0 || !st.Buffered() {
			x.enter(phaseWaiting)
		}
		err := st.NextRecord(x.ctx, record)
		x.enter(phaseBusy)
		if err != nil {
			if p, err = x.endJSON(st, records > 0, err); err != nil {
				return progress{}, err
			}
			break
		}
		b, ok, err := a.last(encoder.SizeBound(record) + len(",") + len(tail))
		if err != nil {
			return progress{}, err
		}
		if !ok {
			p = limitAt(record.Offset)
			break
		}
		before := len(b.b)
		if records > 0 {
			b.b = append(b.b, ',')
		}
		b.b = encoder.AppendRecord(b.b, record)
		length += len(b.b) - before
		records++
	}

	a.head = append(a.head[:0], `{"kind":"KafkaRecordList","metadata":{"self":"`...)
	a.head = appendURI(a.head, path)
	if len(queryString) > 0 {
		a.head = appendURI(append(a.head, '?'), queryString)
	}
	a.head = append(a.head, `","next":`...)
	if p.end == fetch.EndLimit {
		a.head = x.query.appendNext(append(a.head, '"'), path, queryString, p.next)
		a.head = append(a.head, '"')
	} else {
		a.head = append(a.head, "null"...)
	}
	a.head = strconv.AppendInt(append(a.head, `,"next_offset":`...), p.next, 10)
	a.head = append(append(append(a.head, `,"end":"`...), p.end.String()...), '"')
	if p.decided >= 0 {
		a.head = strconv.AppendInt(append(a.head, `,"decided_end_offset":`...), p.decided, 10)
	}
	a.head = append(a.head, `},"data":[`...)
	if records == 0 {
		a.head = append(a.head, tail...)
	} else {
		last := a.blocks[len(a.blocks)-1]
		last.b = append(last.b, tail...)
	}
	return p, nil
}

// endJSON judges why the stream gave no record: its end, or an error, which behind the first record only ends this
// answer.
func (x *exchange) endJSON(st stream, some bool, err error) (progress, error) {
	if err == io.EOF {
		return progressOf(st), nil
	}
	if !some || problemOf(err).gone {
		return progress{}, err
	}
	return limitAt(st.NextOffset()), nil
}

// setNextLink links to the next page while there is more.
func (x *exchange) setNextLink(ctx *fasthttp.RequestCtx, p progress) {
	if p.end != fetch.EndLimit {
		return
	}
	uri := ctx.URI()
	x.link = append(x.link[:0], '<')
	x.link = x.query.appendNext(x.link, uri.PathOriginal(), uri.QueryString(), p.next)
	x.link = append(x.link, `>; rel="next"`...)
	x.resp.Header.SetBytesV("Link", x.link)
}

// appendNext appends the address of the same request from another offset on.
func (q *query) appendNext(dst, path, queryString []byte, offset int64) []byte {
	dst = appendURI(dst, path)
	dst = append(dst, "?offset="...)
	dst = strconv.AppendInt(dst, offset, 10)
	for len(queryString) > 0 {
		var pair []byte
		pair, queryString, _ = bytes.Cut(queryString, []byte{'&'})
		name, _, _ := bytes.Cut(pair, []byte{'='})
		q.scratch = q.scratch[:0]
		name, _ = q.decode(name)
		if len(pair) == 0 || string(name) == "offset" || string(name) == "timestamp" {
			continue
		}
		dst = append(dst, '&')
		dst = appendURI(dst, pair)
	}
	return dst
}

// appendURI appends part of an address as it was sent, with everything that could end a JSON string, a header field or
// an angle bracket percent-encoded.
func appendURI(dst, part []byte) []byte {
	const hexDigits = "0123456789ABCDEF"
	for _, c := range part {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
