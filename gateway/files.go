package gateway

import (
	"bytes"

	"coldtap/gateway/engine"

	"github.com/valyala/fasthttp"
)

// fileNames are the files of a segment as the address names them.
var fileNames = []string{"log", "index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint"}

// serveFile gives one file of a segment, whole or a range of its bytes.
func serveFile(x *exchange, ctx *fasthttp.RequestCtx, seg, name string) error {
	x.BeginWait()
	f, err := x.srv.service.OpenFile(x.Context(), x.req.Topic, x.req.TopicID, x.req.Partition, seg, name, x.req.Timeout)
	x.EndWait()
	if err != nil {
		return err
	}
	size, tag := f.Size(), f.ETag()
	h := x.respond("application/octet-stream")
	h.Set("ETag", tag)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Cache-Control", "private, no-cache")
	request := &ctx.Request.Header
	switch unmodified, err := x.unmodified(ctx, tag); {
	case err != nil:
		return err
	case unmodified:
		x.setStatus(fasthttp.StatusNotModified)
		return nil
	}
	from, to := int64(0), size
	if header := request.Peek("Range"); len(header) > 0 && rangeApplies(request, tag) {
		var result rangeResult
		switch from, to, result = parseRange(header, size); result {
		case rangeUnsatisfied:
			p := newProblem(codeNoSuchBytes, "the file has %d bytes, none of them in the asked range", size)
			p.size = size
			return p
		case rangePart:
			x.setStatus(fasthttp.StatusPartialContent)
			h.SetContentRange(int(from), int(to-1), int(size))
		}
	}
	if x.Head || from == to {
		h.SetContentLength(int(to - from))
		return nil
	}
	return sendFile(x, ctx, f, from, to)
}

// sendFile sends the bytes of a file from from to to.
func sendFile(x *exchange, ctx *fasthttp.RequestCtx, f file, from, to int64) error {
	b := &x.pinned
	b.reset(x, f.open(from, to), nil)
	// The first piece is there before the status line, so that what fails before it is an error with a proper status.
	x.BeginWait()
	p, err := b.src.next(x.Context(), 0)
	x.EndWait()
	if err != nil {
		return err
	}
	b.hold(p)
	b.left, b.to = to-from, to
	x.Send(ctx, to-from, engine.Identity)
	return nil
}

// rangeResult says what a Range header asks for.
type rangeResult uint8

const (
	rangeWhole       rangeResult = iota // none, malformed, another unit, or several ranges: the whole file (200)
	rangePart                           // 206
	rangeUnsatisfied                    // 416
)

// parseRange reads a Range header for a file of size bytes (RFC 9110, 14.2). [from, to) is meaningful for rangePart.
//
// Several ranges get the whole file: a server may ignore them, and multipart answers would cost each client a parser.
func parseRange(header []byte, size int64) (from, to int64, result rangeResult) {
	unit, set, ok := bytes.Cut(header, []byte{'='})
	if !ok || !equalFold(bytes.TrimSpace(unit), "bytes") {
		return 0, size, rangeWhole
	}
	first, last, ok := bytes.Cut(bytes.TrimSpace(set), []byte{'-'})
	if !ok {
		return 0, size, rangeWhole
	}
	first, last = bytes.TrimSpace(first), bytes.TrimSpace(last)
	if len(first) == 0 {
		n, ok := clampedDigits(last)
		switch {
		case !ok:
			return 0, size, rangeWhole
		case n == 0 || size == 0:
			return 0, 0, rangeUnsatisfied
		}
		return max(0, size-n), size, rangePart
	}
	from, ok = clampedDigits(first)
	if !ok {
		return 0, size, rangeWhole
	}
	to = size
	if len(last) > 0 {
		n, ok := clampedDigits(last)
		if !ok || compareDigits(last, first) < 0 {
			return 0, size, rangeWhole
		}
		if n < size {
			to = n + 1
		}
	}
	if from >= size {
		return 0, 0, rangeUnsatisfied
	}
	return from, to, rangePart
}

// maxPosition stands for every number too large for a file.
const maxPosition = 1<<63 - 1

// clampedDigits parses decimal digits of any length; what does not fit is maxPosition.
func clampedDigits(b []byte) (int64, bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	significant := bytes.TrimLeft(b, "0")
	if len(significant) == 0 {
		return 0, len(b) > 0
	}
	if n, ok := digits(significant); ok {
		return n, true
	}
	return maxPosition, true
}

// compareDigits compares two decimals of any length.
func compareDigits(a, b []byte) int {
	a, b = bytes.TrimLeft(a, "0"), bytes.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}
