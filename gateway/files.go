package gateway

import (
	"github.com/valyala/fasthttp"
)

// fileNames are the files of a segment as the address names them.
var fileNames = []string{"log", "index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint"}

// serveFile gives one file of a segment, whole or a range of its bytes.
func (x *exchange) serveFile(ctx *fasthttp.RequestCtx, seg, name string) error {
	x.req.Timeout = defaultTimeout
	if _, bad := x.parseOnly(ctx.URI().QueryString(), ""); bad != nil {
		return bad
	}
	x.enter(phaseWaiting)
	f, err := x.srv.service.OpenFile(x.ctx, x.req.Topic, x.req.TopicID, x.req.Partition, seg, name, x.req.Timeout)
	x.enter(phaseBusy)
	if err != nil {
		return err
	}
	size, tag := f.Size(), f.ETag()
	x.respond("application/octet-stream")
	h := &x.resp.Header
	h.Set("ETag", tag)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Cache-Control", "private, no-cache")
	request := &ctx.Request.Header
	switch unmodified, err := x.unmodified(ctx, tag); {
	case err != nil:
		return err
	case unmodified:
		x.notModified()
		return nil
	}
	from, to := int64(0), size
	if header := request.Peek("Range"); len(header) > 0 && rangeHolds(request, tag) {
		var result rangeResult
		switch from, to, result = parseRange(header, size); result {
		case rangeUnsatisfied:
			p := newProblem(codeNoSuchBytes, "the file has %d bytes, none of them in the asked range", size)
			p.size = size
			return p
		case rangePart:
			x.status = fasthttp.StatusPartialContent
			x.resp.SetStatusCode(x.status)
			h.SetContentRange(int(from), int(to-1), int(size))
		}
	}
	if x.head || from == to {
		h.SetContentLength(int(to - from))
		return nil
	}
	b := &x.body
	b.reset(x, f.open(from, to), nil)
	x.owned = b
	if err := b.first(x.ctx); err != nil {
		return err
	}
	b.left, b.to = to-from, to
	x.out.declare(b, to-from)
	return nil
}
