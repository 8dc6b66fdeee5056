package gateway

import (
	"bytes"
	"math"

	"github.com/valyala/fasthttp"
)

// lastEventID gives the offset at which an event source that lost its connection goes on, -1 when it begins. The ids
// that events carry are offsets.
func lastEventID(ctx *fasthttp.RequestCtx) (int64, *problem) {
	id := bytes.TrimSpace(ctx.Request.Header.Peek("Last-Event-ID"))
	if len(id) == 0 {
		return -1, nil
	}
	return number("Last-Event-ID", id, 0, math.MaxInt64)
}
