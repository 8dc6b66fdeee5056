package gateway

import (
	"errors"
	"io"
	"strconv"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"

	"github.com/valyala/fasthttp"
)

// serveRecords answers records in one of the formats.
func (x *exchange) serveRecords(ctx *fasthttp.RequestCtx) error {
	offer, bad := x.chooseFormat(ctx)
	if bad != nil {
		return bad
	}
	format, resume := offer.format, int64(-1)
	if format == formatEvents {
		if resume, bad = lastEventID(ctx); bad != nil {
			return bad
		}
	}
	want, bad := x.parseRecords(ctx.URI().QueryString(), format, resume)
	if bad != nil {
		return bad
	}
	if bad := x.refuseSeconds("timestamp", want.from); bad != nil {
		return bad
	}
	if bad := x.refuseSeconds("start_timestamp", want.since); bad != nil {
		return bad
	}
	if bad := x.refuseSeconds("end_timestamp", want.to); bad != nil {
		return bad
	}
	if want.explain {
		return x.serveExplain(ctx)
	}
	x.enter(phaseWaiting)
	st, err := x.srv.service.Open(x.ctx, &x.req)
	x.enter(phaseBusy)
	if err != nil {
		return x.openProblem(err)
	}
	x.opened(st)
	x.respond(offer.mediaType)
	bounds := st.Bounds()
	x.setOffset("X-Kafka-Log-Start-Offset", bounds.Start)
	x.setOffset("X-Kafka-Tiered-End-Offset", bounds.TieredEnd)
	if x.req.EndTimestamp >= 0 {
		x.resp.Header.Set("X-Kafka-Lateness", latenessText(x.req.Lateness))
	}
	tag := ""
	if format != formatEvents {
		tag = x.setETag(st, offer.mediaType, want.encoding)
	}
	unchanged, err := x.unmodified(ctx, tag)
	if err != nil {
		st.Close()
		return err
	}
	if unchanged {
		x.notModified()
	}
	if x.head || unchanged {
		x.requests = st.Stats().StoreRequests
		st.Close()
		return nil
	}
	switch format {
	case formatBatches:
		return x.sendBatches(ctx, st, want.toEnd)
	case formatLines, formatSequence, formatEvents:
		return x.sendLines(ctx, st, &want, format, resume >= 0)
	default:
		return x.sendJSON(ctx, st, want.encoding, format)
	}
}

// chooseFormat gives what the format parameter asks for, else what Accept does.
func (x *exchange) chooseFormat(ctx *fasthttp.RequestCtx) (*offer, *problem) {
	offers := recordFormats
	if x.route == routeMessages {
		offers = messageFormats[:]
	}
	q := &x.query
	q.reset(ctx.URI().QueryString())
	for {
		ok, bad := q.next()
		if bad != nil {
			return nil, bad
		}
		if !ok {
			break
		}
		if string(q.name) == "format" {
			return named(q.value, offers)
		}
	}
	offer := negotiate(ctx.Request.Header.Peek("Accept"), offers)
	if offer == nil {
		p := newProblem(codeNotAcceptable, "none of the accepted media types can be given")
		p.supported = offers
		return nil, p
	}
	return offer, nil
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
func (x *exchange) sendBatches(ctx *fasthttp.RequestCtx, st stream, toEnd bool) error {
	b := &x.body
	b.reset(x, st, st)
	b.toEnd = toEnd
	x.owned = b
	b.bounded = x.req.MaxBytes <= boundedBelow
	// An answer that may be longer than may be pinned ahead starts as soon as there is something worth a write.
	enough := x.srv.lookAhead
	if x.req.MaxBytes > enough {
		enough = min(enough, writeSlice)
	}
	size, cut, err := b.collect(x.ctx, enough)
	if err != nil {
		return err
	}
	if b.all {
		if cut.end == 0 {
			cut = progressOf(st)
		}
		x.prepareLink(ctx)
		x.setProgress(cut)
		x.setCost(st.Stats())
		b.left = size
		x.out.declare(b, size)
		return nil
	}
	return x.sendStream(ctx, b)
}

// sendStream sends a body of records whose length is not known.
func (x *exchange) sendStream(ctx *fasthttp.RequestCtx, stream bodyStream) error {
	x.prepareLink(ctx)
	if x.http10 {
		x.closeDelimited(ctx, stream)
		return nil
	}
	x.announceTrailers()
	if stream == bodyStream(&x.body) {
		x.out.declare(stream, -1)
	} else {
		x.out.declareText(ctx, stream, -1)
	}
	return nil
}

// sendLines streams records as ndjson, as a JSON text sequence or as events.
func (x *exchange) sendLines(ctx *fasthttp.RequestCtx, st stream, want *wanted, format format, resumed bool) error {
	l := &x.lines
	x.owned = l
	if err := l.reset(x, st, want, format); err != nil {
		return err
	}
	if format == formatEvents {
		x.resp.Header.Set("Cache-Control", "no-cache")
	}
	if err := l.start(x.ctx); err != nil {
		return err
	}
	if !l.finished {
		return x.sendStream(ctx, l)
	}
	x.prepareLink(ctx)
	x.setProgress(l.progress)
	x.setCost(st.Stats())
	if resumed && l.records == 0 && l.progress.end != fetch.EndLimit {
		// An event source comes back by itself whenever an answer ends; this is how it is told that there is no more.
		x.drop()
		x.status = fasthttp.StatusNoContent
		x.resp.SetStatusCode(x.status)
		return nil
	}
	x.out.declareText(ctx, l, int64(len(l.buf)))
	return nil
}

// sendJSON builds the whole answer, bounded, before the status line.
func (x *exchange) sendJSON(ctx *fasthttp.RequestCtx, st stream, encoding jsonenc.Encoding, format format) error {
	a := x.newAnswer()
	a.st = st
	progress, err := x.buildJSON(ctx, a, st, encoding, format)
	if err != nil {
		return err
	}
	x.prepareLink(ctx)
	x.setProgress(progress)
	x.setCost(st.Stats())
	a.closeStream()
	a.send(ctx)
	return nil
}

// buildJSON encodes records until the stream or the answer's share of the decode budget ends. The first batch's
// records come whole as long as the budget has room; as far as can be told from outside, a batch ends where the stream
// has nothing more at hand.
func (x *exchange) buildJSON(ctx *fasthttp.RequestCtx, a *answer, st stream, encoding jsonenc.Encoding, format format) (progress, error) {
	uri := ctx.URI()
	path, queryString := uri.PathOriginal(), uri.QueryString()
	headRoom := int64(1024 + 6*(len(path)+len(queryString)))
	if err := a.reserveHead(headRoom); err != nil {
		return progress{}, err
	}

	tail := "]}\n" // every record is added with room for it behind
	if format.isArray() {
		tail = "]\n"
	}
	name, _ := st.Topic()
	encoder := &x.lines.encoder
	record := &x.lines.record
	encoder.Reset(name, x.req.Partition, encoding)
	var p progress
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
			return progress{}, past(err, record.Offset)
		}
		if !ok {
			p = limitAt(record.Offset)
			break
		}
		before := len(b.b)
		if records > 0 {
			b.b = append(b.b, ',')
		}
		var fits bool
		if b.b, fits = encoder.TryAppendRecord(b.b, record); !fits {
			b.b = b.b[:before]
			if records == 0 {
				return progress{}, unfitting(record.Offset, format)
			}
			p = limitAt(record.Offset)
			break
		}
		length += len(b.b) - before
		records++
	}

	a.head = append(a.head[:0], '[')
	if !format.isArray() {
		a.head = x.appendMetadata(a.head[:0], path, queryString, p)
	}
	if records == 0 {
		a.head = append(a.head, tail...)
	} else {
		last := a.blocks[len(a.blocks)-1]
		last.b = append(last.b, tail...)
	}
	return p, nil
}

// past adds to what says that the record at an offset is too large where to go on.
func past(err error, offset int64) error {
	if p, ok := errors.AsType[*problem](err); ok && p.code == codeTooLarge {
		p.nextOffset = offset + 1
	}
	return err
}

// appendMetadata appends what stands before the records.
func (x *exchange) appendMetadata(dst, path, queryString []byte, p progress) []byte {
	dst = append(dst, `{"kind":"KafkaRecordList","metadata":{"self":"`...)
	dst = appendURI(dst, path)
	if len(queryString) > 0 {
		dst = appendURI(append(dst, '?'), queryString)
	}
	dst = append(dst, `","next":`...)
	if p.end == fetch.EndLimit {
		dst = x.query.appendNext(append(dst, '"'), path, queryString, p.next, x.req.HasStartTimestamp)
		dst = append(dst, '"')
	} else {
		dst = append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `,"next_offset":`...), p.next, 10)
	dst = x.appendEnd(append(dst, ','), p)
	return append(dst, `},"data":[`...)
}

// unfitting refuses a record that the client's parser could not take.
func unfitting(offset int64, format format) *problem {
	what := "its value is no JSON document"
	if format == formatTextV2 {
		what = "its key or value is no valid UTF-8"
	}
	p := newProblem(codeUnfitting, "the record at offset %d cannot be given as %s: %s; accept %s", offset, formats[format].mediaType, what, formats[formatBinaryV2].mediaType)
	p.offset = offset
	return p
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
