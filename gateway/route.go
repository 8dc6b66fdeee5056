package gateway

import (
	"bytes"
	"math"
	"slices"

	"github.com/valyala/fasthttp"
)

// route names what was asked for; metrics count by it.
type route uint8

const (
	routeOther route = iota
	routeTopics
	routeTopic
	routeOffsets
	routeRecords
	routeSegments
	routeFile
	routeCount
)

func (r route) String() string {
	return [routeCount]string{"other", "topics", "topic", "offsets", "records", "segments", "file"}[r]
}

// maxTopicName is Kafka's limit (org.apache.kafka.common.internals.Topic).
const maxTopicName = 249

// dispatch finds the route and serves it. Paths are taken as sent: each segment is decoded once and not cleaned, so
// that nothing but a topic's own name reaches it.
func (x *exchange) dispatch(ctx *fasthttp.RequestCtx) error {
	path := ctx.URI().PathOriginal()
	var parts [8][]byte
	n := 0
	for rest, more := bytes.TrimPrefix(path, []byte{'/'}), true; more; n++ {
		if n == len(parts) {
			return noRoute()
		}
		parts[n], rest, more = bytes.Cut(rest, []byte{'/'})
	}
	if string(parts[0]) != "topics" {
		return noRoute()
	}
	switch {
	case n == 1:
		x.route = routeTopics
	case n == 2:
		x.route = routeTopic
	case n == 5 && string(parts[2]) == "partitions":
		switch string(parts[4]) {
		case "offsets":
			x.route = routeOffsets
		case "records":
			x.route = routeRecords
		case "segments":
			x.route = routeSegments
		}
	case n == 7 && string(parts[2]) == "partitions" && string(parts[4]) == "segments":
		x.route = routeFile
	}
	if x.route == routeOther {
		return noRoute()
	}
	if !ctx.IsGet() && !x.head {
		return newProblem(codeMethod, "only GET and HEAD are served, not %s", printable(ctx.Method()))
	}
	if n > 1 {
		name, sound := decodeSegment(parts[1])
		if !sound || !validTopic(name) {
			return newProblem(codeNoTopic, "%q cannot be a topic's name", printable(parts[1]))
		}
		x.req.Topic = name
	}
	if n > 2 {
		partition, ok := digits(parts[3])
		if !ok || partition > math.MaxInt32 {
			return badParameter("partition", "must be a number from 0 to %d, not %q", math.MaxInt32, printable(parts[3]))
		}
		x.req.Partition = int32(partition)
	}
	switch x.route {
	case routeTopics:
		return x.serveTopics(ctx)
	case routeTopic:
		return x.serveTopic(ctx)
	case routeOffsets:
		return x.serveOffsets(ctx)
	case routeRecords:
		return x.serveRecords(ctx)
	case routeSegments:
		return x.serveSegments(ctx)
	default:
		seg, sound := decodeSegment(parts[5])
		name := string(parts[6])
		if !sound || seg == "" || !slices.Contains(fileNames, name) {
			return newProblem(codeNoSegment, "no such file: segments/{id or base offset}/{log, index, timeindex, txnindex, snapshot or leader-epoch-checkpoint}")
		}
		return x.serveFile(ctx, seg, name)
	}
}

func noRoute() *problem {
	return newProblem(codeNoRoute, "no such resource; start at /topics")
}

// validTopic is Kafka's rule for names (org.apache.kafka.common.internals.Topic).
func validTopic(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > maxTopicName {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
