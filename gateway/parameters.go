package gateway

import (
	"math"
	"slices"
	"time"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"
	"coldtap/readerpool"
)

// parameterNames are the parameters of all routes.
var parameterNames = [...]string{"all", "count", "encoding", "end_offset", "end_timestamp", "explain", "format",
	"internal", "isolation_level", "lane", "lateness", "max_bytes", "max_records", "offset", "start_timestamp", "summary",
	"timeout", "timestamp", "topic_id"}

// parameterSet has a bit for each of parameterNames, by its index.
type parameterSet uint32

const _ = parameterSet(1) << (len(parameterNames) - 1) // does not compile where a parameter has no bit

func setOf(names ...string) (set parameterSet) {
	for _, name := range names {
		i := slices.Index(parameterNames[:], name)
		set |= 1 << i // panics for an unknown name
	}
	return set
}

// accepted are the parameters of each route.
var accepted = func() (by [routeCount]parameterSet) {
	for _, r := range []route{routeTopic, routeClusterTopic, routePartitions, routePartition} {
		by[r] = setOf("topic_id")
	}
	by[routeTopics] = setOf("internal")
	by[routeSegments] = setOf("topic_id", "all")
	by[routeFile] = setOf("topic_id", "timeout")
	by[routeOffsets] = setOf("topic_id", "timeout", "timestamp", "isolation_level")
	read := setOf("topic_id", "timeout", "timestamp", "isolation_level", "offset", "end_offset", "start_timestamp",
		"end_timestamp", "lateness", "max_bytes", "lane", "format")
	by[routeRecords] = read | setOf("max_records", "encoding", "explain", "summary")
	by[routeMessages] = read | setOf("count")
	return by
}()

const (
	defaultMaxBytes = 1 << 20
	defaultTimeout  = 30 * time.Second
	maxTimeout      = 10 * time.Minute
	// bulkFrom is the max_bytes above which a read yields to smaller ones in the reader pool.
	bulkFrom = 16 << 20
)

// wanted is what a request asks for beyond what fetch is asked.
type wanted struct {
	all      bool // segments that are not whole as well
	internal bool // internal topics as well

	format   format
	encoding jsonenc.Encoding
	explain  bool
	summary  bool // ndjson says in a last line how it ended
	toEnd    bool // a stream that goes on to the end that the client gave
	resumed  bool // an event source that comes back

	from, since, to instant // timestamp, start_timestamp and end_timestamp, as they were written
}

// parse fills x.req and x.want from the query. x.want.format must be set.
func (x *exchange) parse(raw []byte) *problem {
	r, want, q := &x.req, &x.want, &x.query
	r.EndOffset, r.EndTimestamp = -1, -1
	r.Timeout = defaultTimeout
	mostBytes := x.srv.maxBytes.Load()
	r.MaxBytes = min(defaultMaxBytes, mostBytes)
	if want.format.isStream() {
		r.Stream, r.MaxBytes, mostBytes = true, defaultMaxBytes, math.MaxInt64
	}
	if x.route == routeMessages {
		r.MaxRecords = 1
	}
	q.reset(raw)
	for {
		ok, err := q.next()
		if err != nil || !ok {
			return err
		}
		name, err := q.known(accepted[x.route])
		if err != nil {
			return err
		}
		value := q.value
		switch name {
		case "all":
			want.all, err = boolean(name, value)
		case "count", "max_records":
			r.MaxRecords, err = number(name, value, 1, math.MaxInt64)
		case "encoding":
			want.encoding, err = encodingOf(value, want.format)
		case "end_offset":
			r.EndOffset, err = number(name, value, 0, math.MaxInt64)
		case "end_timestamp":
			want.to, err = timestamp(name, value)
			r.EndTimestamp = want.to.ms
		case "explain":
			want.explain, err = boolean(name, value)
		case "format": // chooseFormat has read it
		case "internal":
			want.internal, err = boolean(name, value)
		case "isolation_level":
			r.Isolation, err = isolation(value)
		case "lane":
			r.Lane, err = laneOf(value)
		case "lateness":
			r.Lateness, err = lateness(value)
		case "max_bytes":
			r.MaxBytes, err = number(name, value, 1, mostBytes)
		case "offset":
			r.Start, r.Offset, err = startOffset(value)
		case "start_timestamp":
			want.since, err = timestamp(name, value)
			r.StartTimestamp, r.HasStartTimestamp = want.since.ms, true
		case "summary":
			want.summary, err = boolean(name, value)
		case "timeout":
			var ms int64
			ms, err = number(name, value, 1, maxTimeout.Milliseconds())
			r.Timeout = time.Duration(ms) * time.Millisecond
		case "timestamp":
			want.from, err = timestamp(name, value)
			r.Timestamp = want.from.ms
		case "topic_id":
			r.TopicID, err = topicID(name, value)
		}
		if err != nil {
			return err
		}
	}
}

// parseRecords is parse for records and messages: it refuses parameters that contradict each other, and adds what
// follows from them together. resume is the start that a reconnecting event source gives in place of the query's, -1
// when it gives none.
func (x *exchange) parseRecords(raw []byte, resume int64) *problem {
	if err := x.parse(raw); err != nil {
		return err
	}
	r, want := &x.req, &x.want
	given := x.query.given
	haveOffset, haveTime := given("offset"), given("timestamp")
	switch {
	case haveTime && r.HasStartTimestamp:
		return badParameter("start_timestamp", "it is a filter beside offset; a range of time is timestamp and end_timestamp")
	case given("lateness") && r.EndTimestamp < 0:
		return badParameter("lateness", "it says how far to look beyond end_timestamp, which is not given")
	case haveTime && r.EndTimestamp >= 0:
		r.StartTimestamp, r.HasStartTimestamp = r.Timestamp, true
	}
	if r.HasStartTimestamp && r.EndTimestamp >= 0 && r.EndTimestamp < r.StartTimestamp {
		name := "start_timestamp"
		if haveTime {
			name = "timestamp"
		}
		return newProblem(codeContradiction, "end_timestamp %d is before %s %d", r.EndTimestamp, name, r.StartTimestamp)
	}
	switch want.resumed = resume >= 0; {
	case want.resumed:
		r.Start, r.Offset = fetch.FromOffset, resume
	case haveOffset == haveTime:
		return newProblem(codeContradiction, "give either offset (a number, earliest, latest or earliest_local) or timestamp, exactly one of them")
	case haveTime:
		r.Start = fetch.FromTimestamp
	}
	if r.Start == fetch.FromOffset && r.EndOffset >= 0 && r.EndOffset < r.Offset {
		return newProblem(codeContradiction, "end_offset %d is before offset %d", r.EndOffset, r.Offset)
	}
	switch want.format {
	case formatBinaryV2:
		want.encoding = jsonenc.Base64
	case formatJSONV2:
		want.encoding = jsonenc.OnlyJSON
	case formatTextV2:
		want.encoding = jsonenc.PlainText
	}
	if r.Stream && !given("max_bytes") && (r.EndOffset >= 0 || r.EndTimestamp >= 0) {
		want.toEnd, r.MaxBytes = true, math.MaxInt64
	}
	if !given("lane") && r.MaxBytes > bulkFrom {
		r.Lane = readerpool.Bulk
	}
	for _, at := range [...]struct {
		name string
		instant
	}{{"timestamp", want.from}, {"start_timestamp", want.since}, {"end_timestamp", want.to}} {
		if err := x.refuseSeconds(at.name, at.instant); err != nil {
			return err
		}
	}
	return nil
}
