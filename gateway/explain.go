package gateway

import (
	"strconv"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"

	"github.com/valyala/fasthttp"
)

// prices are what the store's owner charges, in whatever currency; both zero: not known.
type prices struct {
	thousandGets float64
	gib          float64
}

// cost of a number of GETs and bytes.
func (p prices) cost(gets int, bytes int64) (amount float64, known bool) {
	return float64(gets)/1000*p.thousandGets + float64(bytes)/(1<<30)*p.gib, p != prices{}
}

// serveExplain answers what the read would take, instead of the records.
func serveExplain(x *exchange, ctx *fasthttp.RequestCtx) error {
	x.BeginWait()
	plan, err := x.srv.service.Plan(x.Context(), &x.req)
	x.EndWait()
	if err != nil {
		return x.openProblem(err)
	}
	a := x.newAnswer()
	dst := jsonenc.AppendString(append(a.head, `{"kind":"ReadPlan","topic":`...), plan.Topic)
	dst = jsonenc.AppendString(append(dst, `,"topic_id":`...), plan.TopicID.String())
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(x.req.Partition), 10)
	dst = strconv.AppendInt(append(dst, `,"start_offset":`...), plan.Start, 10)
	dst = appendOffset(append(dst, `,"log_start_offset":`...), plan.Bounds.Start)
	dst = appendOffset(append(dst, `,"tiered_end_offset":`...), plan.Bounds.TieredEnd)
	dst = append(append(append(dst, `,"lane":"`...), x.req.Lane.String()...), '"')
	a.head = append(appendTimeRange(dst, &x.req), `,"segments":[`...)
	inMemory, missing, gets, bytes := 0, 0, 0, int64(0)
	for i := range plan.Segments {
		part := &plan.Segments[i]
		inMemory, missing, bytes = inMemory+part.InMemory, missing+part.Missing, bytes+part.Bytes
		gets += part.Requests
		if err := a.appendItem(i, itemRoom, func(dst []byte) []byte { return appendPlanned(dst, part) }); err != nil {
			return err
		}
	}
	tail := strconv.AppendBool([]byte(`],"more_segments":`), plan.Cut)
	tail = appendChunks(append(tail, ','), inMemory, missing)
	tail = strconv.AppendInt(append(tail, `,"store_requests":`...), int64(gets), 10)
	tail = strconv.AppendInt(append(tail, `,"store_bytes":`...), bytes, 10)
	tail = append(tail, `,"estimated_cost":`...)
	if amount, known := x.srv.prices.cost(gets, bytes); known {
		tail = strconv.AppendFloat(tail, amount, 'f', -1, 64)
	} else {
		tail = append(tail, "null"...)
	}
	x.requests = plan.Stats.StoreRequests
	x.report.setStore(&x.Response.Header, &plan.Stats)
	return sendListing(x, ctx, a, string(append(tail, "}\n"...)))
}

// timeRangePromise says what a range of time holds.
const timeRangePromise = "text formats hold exactly the records with start_timestamp <= timestamp < end_timestamp, among the offsets from the start up to the first record " +
	"at or after end_timestamp + lateness, where the answer ends with range; raw batches are those whose header's timestamps overlap the range. " +
	"What comes behind that record is not looked at: where timestamps are out of order, give a lateness as long as records are late"

func appendTimeRange(dst []byte, r *fetch.Request) []byte {
	if !r.HasStartTimestamp && r.EndTimestamp < 0 {
		return dst
	}
	start := int64(-1)
	if r.HasStartTimestamp {
		start = r.StartTimestamp
	}
	dst = appendOffset(append(dst, `,"time_range":{"start_timestamp":`...), start)
	dst = appendOffset(append(dst, `,"end_timestamp":`...), r.EndTimestamp)
	dst = append(append(dst, `,"lateness":"`...), latenessText(r.Lateness)...)
	return append(append(append(dst, `","promise":"`...), timeRangePromise...), `"}`...)
}

func appendPlanned(dst []byte, part *fetch.PlanSegment) []byte {
	seg := part.Segment
	dst = jsonenc.AppendString(append(dst, `{"id":`...), seg.ID.String())
	dst = strconv.AppendInt(append(dst, `,"base_offset":`...), seg.BaseOffset, 10)
	dst = strconv.AppendInt(append(dst, `,"last_offset":`...), seg.EndOffset, 10)
	dst = strconv.AppendInt(append(dst, `,"first_byte":`...), part.From, 10)
	dst = strconv.AppendInt(append(dst, `,"last_byte":`...), part.To-1, 10)
	dst = strconv.AppendInt(append(dst, `,"chunk_bytes":`...), part.Chunk, 10)
	dst = appendChunks(append(dst, ','), part.InMemory, part.Missing)
	dst = strconv.AppendInt(append(dst, `,"store_requests":`...), int64(part.Requests), 10)
	dst = strconv.AppendInt(append(dst, `,"store_bytes":`...), part.Bytes, 10)
	return append(dst, '}')
}

// appendChunks appends how many chunks are at which level, by the words of X-Cache.
func appendChunks(dst []byte, inMemory, missing int) []byte {
	dst = strconv.AppendInt(append(dst, `"chunks":{"MEM":`...), int64(inMemory), 10)
	dst = strconv.AppendInt(append(dst, `,"MISS":`...), int64(missing), 10)
	return append(dst, '}')
}
