package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/valyala/fasthttp"
)

// setETag gives an answer that can never become another one a validator, and returns it, "" for others.
//
// The validator is weak: an answer may stop earlier than another of the same request does, for time or memory, and may
// be compressed or not, but either is right for as long as the segments are there. When retention has taken them, the
// read fails before anything is compared.
func (x *exchange) setETag(st stream, mediaType string) (tag string) {
	if x.req.EndOffset < 0 {
		return ""
	}
	x.BeginWait()
	ids, settled := st.Settled(x.Context(), x.segments[:0])
	x.EndWait()
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
	for _, n := range [...]int64{st.StartOffset(), r.EndOffset, since, r.EndTimestamp, r.Lateness, r.MaxBytes, r.MaxRecords,
		int64(r.Isolation), int64(x.want.encoding)} {
		numbers = binary.BigEndian.AppendUint64(numbers, uint64(n))
	}
	sum.Write(numbers)
	sum.Write([]byte(mediaType))
	tag = `W/"` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	h := &x.Response.Header
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	return tag
}

// unmodified evaluates a request's preconditions in the order of RFC 9110, 13.2.2: If-Match, then If-None-Match. tag is
// the answer's validator as its ETag field shows it, "" for an answer without one: it exists, which is what * asks, and
// no tag names it. A condition that is no list of entity tags never holds: If-Match then fails, If-None-Match gets the
// answer. true: the client has the answer (304). An error is 412.
//
// It is asked once everything else has succeeded, since a request that fails anyway ignores its conditions (13.2.1).
// If-Modified-Since and If-Unmodified-Since are ignored, as they must be where an answer has no modification date, and
// none has.
func (x *exchange) unmodified(ctx *fasthttp.RequestCtx, tag string) (bool, error) {
	request := &ctx.Request.Header
	if fields := request.PeekAll("If-Match"); len(fields) > 0 {
		matched, sound := matchesTag(fields, tag, false)
		switch {
		case !sound:
			return false, newProblem(codePrecondition, `If-Match is no list of entity tags such as "a", "b", and not *`)
		case !matched && tag == "":
			return false, newProblem(codePrecondition, "If-Match does not hold: this answer has no entity tag")
		case !matched:
			return false, newProblem(codePrecondition, "If-Match does not hold: the entity tag is %s now", tag)
		}
	}
	if fields := request.PeekAll("If-None-Match"); len(fields) > 0 {
		matched, sound := matchesTag(fields, tag, true)
		return matched && sound, nil
	}
	return false, nil
}

// rangeApplies says whether a Range field counts (RFC 9110, 13.1.5): without If-Range, or when If-Range names the
// file, compared strongly. A date never does, since no answer has one.
func rangeApplies(request *fasthttp.RequestHeader, tag string) bool {
	fields := request.PeekAll("If-Range")
	return len(fields) == 0 || len(fields) == 1 && tag[0] == '"' && string(bytes.Trim(fields[0], " \t")) == tag
}

// matchesTag says whether the lines of a condition (* or a list of entity tags, which several lines continue) name tag.
// Weakly compared, a weak tag names what the strong one of the same text does; strongly compared, weak tags name
// nothing. sound false: it is not such a list.
func matchesTag(fields [][]byte, tag string, weakly bool) (matched, sound bool) {
	if len(fields) == 1 && string(bytes.Trim(fields[0], " \t")) == "*" {
		return true, true
	}
	named, strong := tag, true
	if len(tag) > 2 && tag[:2] == "W/" {
		named, strong = tag[2:], false
	}
	some := false
	for _, field := range fields {
		for {
			field = bytes.TrimLeft(field, " \t,")
			if len(field) == 0 {
				break
			}
			weak := bytes.HasPrefix(field, []byte("W/"))
			if weak {
				field = field[2:]
			}
			n := quotedLength(field)
			if n == 0 {
				return false, false
			}
			some = true
			if string(field[:n]) == named && (weakly || strong && !weak) {
				matched = true
			}
			field = bytes.TrimLeft(field[n:], " \t")
			if len(field) > 0 && field[0] != ',' {
				return false, false
			}
		}
	}
	return matched && some, some
}

// quotedLength gives the length of the quoted text that b begins with, 0 when it begins with none. A comma may stand in
// it.
func quotedLength(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i, c := range b[1:] {
		switch {
		case c == '"':
			return i + 2
		case c <= ' ' || c == 0x7f:
			return 0
		}
	}
	return 0
}
