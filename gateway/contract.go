package gateway

import (
	_ "embed"

	"github.com/valyala/fasthttp"
)

// contract is the data plane's description for programs (OpenAPI 3.1). A test holds it against routes, parameters and
// error codes.
//
//go:embed openapi.json
var contract []byte

func (x *exchange) serveContract(ctx *fasthttp.RequestCtx) error {
	if _, bad := x.parseOnly(ctx.URI().QueryString(), ""); bad != nil {
		return bad
	}
	a := x.newAnswer()
	a.head = append(a.head, contract...)
	return x.sendListing(ctx, a, "")
}
