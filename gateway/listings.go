package gateway

import (
	_ "embed"
	"strconv"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"
	"coldtap/tier"

	"github.com/valyala/fasthttp"
)

// contract is the data plane's description for programs (OpenAPI 3.1). A test holds it against routes, parameters and
// error codes.
//
//go:embed openapi.json
var contract []byte

func serveContract(x *exchange, ctx *fasthttp.RequestCtx) error {
	a := x.newAnswer()
	a.head = append(a.head, contract...)
	return sendListing(x, ctx, a, "")
}

// itemRoom bounds the length of a listing's item apart from its text: names, punctuation, numbers.
const itemRoom = 512

func serveTopics(x *exchange, ctx *fasthttp.RequestCtx) error {
	names, err := x.srv.service.Topics(x.want.internal)
	if err != nil {
		return err
	}
	a := x.newAnswer()
	a.head = append(a.head, '[')
	for i, name := range names {
		err := a.appendItem(i, len(name)*6+itemRoom, func(dst []byte) []byte { return jsonenc.AppendString(dst, name) })
		if err != nil {
			return err
		}
	}
	return sendListing(x, ctx, a, "]\n")
}

func serveTopic(x *exchange, ctx *fasthttp.RequestCtx) error {
	topic, err := x.srv.service.Topic(x.req.Topic, x.req.TopicID)
	if err != nil {
		return err
	}
	a := x.newAnswer()
	a.head = jsonenc.AppendString(append(a.head, `{"name":`...), topic.Name)
	a.head = jsonenc.AppendString(append(a.head, `,"topic_id":`...), topic.ID.String())
	a.head = append(a.head, `,"partitions":[`...)
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		err := a.appendItem(i, itemRoom, func(dst []byte) []byte {
			dst = strconv.AppendInt(append(dst, `{"partition":`...), int64(p.Partition), 10)
			dst = appendOffset(append(dst, `,"log_start_offset":`...), p.Start)
			dst = appendOffset(append(dst, `,"local_log_start_offset":`...), p.LocalStart)
			dst = appendOffset(append(dst, `,"tiered_end_offset":`...), p.TieredEnd)
			dst = strconv.AppendInt(append(dst, `,"tiered_bytes":`...), p.TieredBytes, 10)
			return strconv.AppendInt(append(dst, `,"segments":`...), int64(p.Segments), 10)
		})
		if err == nil && len(p.Holes) > 0 {
			err = a.appendHoles(p.Holes)
		}
		if err == nil {
			err = a.append(1, func(dst []byte) []byte { return append(dst, '}') })
		}
		if err != nil {
			return err
		}
	}
	return sendListing(x, ctx, a, "]}\n")
}

// appendHoles shows what the offloader gave up; a partition without holes has no such field.
func (a *answer) appendHoles(holes []tier.Hole) error {
	opening := `,"holes":[`
	for _, h := range holes {
		err := a.append(6*len(h.Reason)+itemRoom, func(dst []byte) []byte {
			dst = strconv.AppendInt(append(append(dst, opening...), `{"from_offset":`...), h.From, 10)
			dst = strconv.AppendInt(append(dst, `,"to_offset":`...), h.To, 10)
			dst = jsonenc.AppendString(append(dst, `,"reason":`...), h.Reason)
			return append(dst, '}')
		})
		if err != nil {
			return err
		}
		opening = ","
	}
	return a.append(1, func(dst []byte) []byte { return append(dst, ']') })
}

func serveOffsets(x *exchange, ctx *fasthttp.RequestCtx) error {
	if x.query.given("timestamp") {
		if bad := x.refuseSeconds("timestamp", x.want.from); bad != nil {
			return bad
		}
		return serveOffsetForTime(x, ctx)
	}
	p, err := x.srv.service.Partition(x.req.Topic, x.req.TopicID, x.req.Partition)
	if err != nil {
		return err
	}
	a := x.newAnswer()
	a.head = appendOffset(append(a.head, `{"beginning_offset":`...), p.Start)
	// Where offset=latest starts with read_uncommitted: without a cluster, the tiered end.
	a.head = appendOffset(append(a.head, `,"end_offset":`...), max(p.HighWatermark, p.TieredEnd))
	a.head = appendOffset(append(a.head, `,"local_log_start_offset":`...), p.LocalStart)
	a.head = appendOffset(append(a.head, `,"tiered_end_offset":`...), p.TieredEnd)
	a.head = appendOffset(append(a.head, `,"last_stable_offset":`...), p.LastStable)
	return sendListing(x, ctx, a, "}\n")
}

func serveOffsetForTime(x *exchange, ctx *fasthttp.RequestCtx) error {
	r := &x.req
	x.BeginWait()
	found, err := x.srv.service.OffsetForTime(x.Context(), r.Topic, r.TopicID, r.Partition, r.Timestamp, r.Isolation,
		r.Timeout)
	x.EndWait()
	if err != nil {
		return err
	}
	a := x.newAnswer()
	a.head = strconv.AppendInt(append(a.head, `{"offset":`...), found.Offset, 10)
	a.head = strconv.AppendInt(append(a.head, `,"timestamp":`...), found.Timestamp, 10)
	a.head = strconv.AppendInt(append(a.head, `,"leader_epoch":`...), int64(found.LeaderEpoch), 10)
	return sendListing(x, ctx, a, "}\n")
}

func serveSegments(x *exchange, ctx *fasthttp.RequestCtx) error {
	segments, err := x.srv.service.Segments(x.req.Topic, x.req.TopicID, x.req.Partition, x.want.all)
	if err != nil {
		return err
	}
	a := x.newAnswer()
	a.head = append(a.head, '[')
	for i := range segments {
		info := &segments[i]
		room := itemRoom + 64*len(info.Segment.Epochs) + 128*len(info.Files)
		if err := a.appendItem(i, room, func(dst []byte) []byte { return appendSegment(dst, info) }); err != nil {
			return err
		}
	}
	return sendListing(x, ctx, a, "]\n")
}

func appendSegment(dst []byte, info *fetch.SegmentInfo) []byte {
	s := info.Segment
	dst = jsonenc.AppendString(append(dst, `{"id":`...), s.ID.String())
	dst = strconv.AppendInt(append(dst, `,"base_offset":`...), s.BaseOffset, 10)
	dst = strconv.AppendInt(append(dst, `,"last_offset":`...), s.EndOffset, 10)
	dst = strconv.AppendInt(append(dst, `,"bytes":`...), s.Size, 10)
	dst = strconv.AppendInt(append(dst, `,"max_timestamp":`...), s.MaxTimestamp, 10)
	dst = append(dst, `,"leader_epochs":[`...)
	for i, e := range s.Epochs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"epoch":`...), int64(e.Epoch), 10)
		dst = strconv.AppendInt(append(dst, `,"start_offset":`...), e.StartOffset, 10)
		dst = append(dst, '}')
	}
	dst = jsonenc.AppendString(append(dst, `],"state":`...), s.State.String())
	dst = append(dst, `,"files":[`...)
	for i, f := range info.Files {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonenc.AppendString(append(dst, `{"name":`...), f.Name)
		dst = appendOffset(append(dst, `,"bytes":`...), f.Size)
		dst = append(dst, '}')
	}
	return append(dst, ']', '}')
}

// sendListing ends the JSON and makes it the answer.
func sendListing(x *exchange, ctx *fasthttp.RequestCtx, a *answer, tail string) error {
	if len(a.blocks) == 0 {
		a.head = append(a.head, tail...)
	} else {
		err := a.append(len(tail), func(dst []byte) []byte { return append(dst, tail...) })
		if err != nil {
			return err
		}
	}
	x.respond(formats[formatJSON].mediaType)
	a.send(ctx)
	return nil
}
