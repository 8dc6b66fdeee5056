package gateway

import (
	"bytes"
	"math"

	"coldtap/fetch"
	"coldtap/gateway/engine"

	"github.com/valyala/fasthttp"
)

// serveRecords answers records in one of the formats.
func serveRecords(x *exchange, ctx *fasthttp.RequestCtx) error {
	offer, bad := chooseFormat(x, ctx)
	if bad != nil {
		return bad
	}
	x.want.format = offer.format
	resume := int64(-1)
	if offer.format == formatEvents {
		if resume, bad = lastEventID(ctx); bad != nil {
			return bad
		}
	}
	if bad := x.parseRecords(ctx.URI().QueryString(), resume); bad != nil {
		return bad
	}
	if x.want.explain {
		return serveExplain(x, ctx)
	}
	x.BeginWait()
	st, err := x.srv.service.Open(x.Context(), &x.req)
	x.EndWait()
	if err != nil {
		return x.openProblem(err)
	}
	x.report.opened(st, &x.req)
	x.report.setAddress(ctx.URI().PathOriginal(), ctx.URI().QueryString(), &x.query, x.req.HasStartTimestamp)
	h := x.respond(offer.mediaType)
	bounds := st.Bounds()
	x.report.setOffset(h, "X-Kafka-Log-Start-Offset", bounds.Start)
	x.report.setOffset(h, "X-Kafka-Tiered-End-Offset", bounds.TieredEnd)
	if x.req.EndTimestamp >= 0 {
		h.Set("X-Kafka-Lateness", latenessText(x.req.Lateness))
	}
	tag := ""
	if offer.format != formatEvents {
		tag = x.setETag(st, offer.mediaType)
	}
	unchanged, err := x.unmodified(ctx, tag)
	if err != nil {
		st.Close()
		return err
	}
	if unchanged {
		x.setStatus(fasthttp.StatusNotModified)
	}
	if x.Head || unchanged {
		x.closeStream(st)
		return nil
	}
	switch offer.format {
	case formatBatches:
		return sendBatches(x, ctx, st)
	case formatLines, formatSequence, formatEvents:
		return sendLines(x, ctx, st)
	default:
		return sendJSON(x, ctx, st)
	}
}

// chooseFormat gives what the format parameter asks for, else what Accept does.
func chooseFormat(x *exchange, ctx *fasthttp.RequestCtx) (*offer, *problem) {
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
			return offerNamed(q.value, offers)
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

// lastEventID gives the offset at which an event source that lost its connection goes on, -1 when it begins. The ids
// that events carry are offsets.
func lastEventID(ctx *fasthttp.RequestCtx) (int64, *problem) {
	id := bytes.TrimSpace(ctx.Request.Header.Peek("Last-Event-ID"))
	if len(id) == 0 {
		return -1, nil
	}
	return number("Last-Event-ID", id, 0, math.MaxInt64)
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

// reportAll sets what an answer that ends at p says of itself, as headers or, when they were announced as such, as
// trailers.
func (x *exchange) reportAll(p progress, st stream) {
	h := &x.Response.Header
	x.report.setProgress(h, p)
	x.report.setCost(h, st.Stats(), x.Blocked)
}

// sendStream sends a body of records whose length is not known: what it says of itself are trailers.
func (x *exchange) sendStream(ctx *fasthttp.RequestCtx, coding engine.Coding) {
	if !x.HTTP10 {
		announceTrailers(&x.Response.Header)
	}
	x.Send(ctx, -1, coding)
}

// textCoding is how the client takes text.
func textCoding(ctx *fasthttp.RequestCtx) engine.Coding {
	return negotiateCoding(ctx.Request.Header.Peek("Accept-Encoding"))
}
