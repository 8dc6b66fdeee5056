package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"coldtap/internal/jsonenc"

	"github.com/valyala/fasthttp"
)

// setETag gives an answer that can never become another one a validator, and returns it, "" for others.
//
// The validator is weak: an answer may stop earlier than another of the same request does, for time or memory, and may
// be compressed or not, but either is right for as long as the segments are there. When retention has taken them, the
// read fails before anything is compared.
func (x *exchange) setETag(st stream, mediaType string, encoding jsonenc.Encoding) (tag string) {
	if x.req.EndOffset < 0 {
		return ""
	}
	x.enter(phaseWaiting)
	ids, settled := st.Settled(x.ctx, x.segments[:0])
	x.enter(phaseBusy)
	x.segments = ids
	if !settled {
		return ""
	}
	r := &x.req
	sum := sha256.New()
	for _, id := range ids {
		sum.Write(id[:])
	}
	var numbers []byte
	since := int64(-1)
	if r.HasStartTimestamp {
		since = r.StartTimestamp
	}
	for _, n := range [...]int64{st.StartOffset(), r.EndOffset, since, r.EndTimestamp, r.Lateness, r.MaxBytes, r.MaxRecords, int64(r.Isolation), int64(encoding)} {
		numbers = binary.BigEndian.AppendUint64(numbers, uint64(n))
	}
	sum.Write(numbers)
	sum.Write([]byte(mediaType))
	tag = `W/"` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	h := &x.resp.Header
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	return tag
}

// notModified makes the answer 304.
func (x *exchange) notModified() {
	x.status = fasthttp.StatusNotModified
	x.resp.SetStatusCode(x.status)
}
