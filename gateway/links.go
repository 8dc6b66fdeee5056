package gateway

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"
)

// prepareLink notes the address of the next page but for its offset, which a stream knows only when fasthttp's context
// may no longer be looked at.
func (x *exchange) prepareLink(ctx *fasthttp.RequestCtx) {
	uri := ctx.URI()
	x.linkHead = append(appendURI(append(x.linkHead[:0], '<'), uri.PathOriginal()), "?offset="...)
	x.linkTail = append(x.query.appendRest(x.linkTail[:0], uri.QueryString(), x.req.HasStartTimestamp), `>; rel="next"`...)
}

// setNextLink links to the page that begins at an offset.
func (x *exchange) setNextLink(offset int64) {
	x.link = strconv.AppendInt(append(x.link[:0], x.linkHead...), offset, 10)
	x.link = append(x.link, x.linkTail...)
	x.resp.Header.SetBytesV("Link", x.link)
}

// appendNext appends the address of the same request from another offset on. What was timestamp in a range of time is
// start_timestamp there.
func (q *query) appendNext(dst, path, queryString []byte, offset int64, timeRange bool) []byte {
	dst = append(appendURI(dst, path), "?offset="...)
	dst = strconv.AppendInt(dst, offset, 10)
	return q.appendRest(dst, queryString, timeRange)
}

// appendRest appends the parameters that do not say where to start.
func (q *query) appendRest(dst, queryString []byte, timeRange bool) []byte {
	for len(queryString) > 0 {
		var pair []byte
		pair, queryString, _ = bytes.Cut(queryString, []byte{'&'})
		name, value, _ := bytes.Cut(pair, []byte{'='})
		q.scratch = q.scratch[:0]
		name, _ = q.decode(name)
		switch {
		case len(pair) == 0 || string(name) == "offset":
		case string(name) != "timestamp":
			dst = appendURI(append(dst, '&'), pair)
		case timeRange:
			dst = appendURI(append(dst, "&start_timestamp="...), value)
		}
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
