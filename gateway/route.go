package gateway

import (
	"bytes"
	"math"
	"slices"

	"coldtap/segment"

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
	routeMessages
	routeSegments
	routeFile
	routeContract
	routeCount
)

func (r route) String() string {
	return [routeCount]string{"other", "topics", "topic", "offsets", "records", "messages", "segments", "file", "openapi"}[r]
}

// vary names what else than the address decides an answer.
func (r route) vary() string {
	switch r {
	case routeRecords, routeMessages:
		return "Accept, Accept-Encoding, Authorization"
	case routeFile:
		return "Authorization"
	}
	return "Accept-Encoding, Authorization"
}

// clusterPrefix is what the paths of the REST proxy's v3 begin with; a cluster's id and one of our paths follow.
const clusterPrefix = "/v3/clusters/"

// dispatch finds the route and serves it. Paths are taken as sent: each segment is decoded once and not cleaned, so
// that nothing but a topic's own name reaches it.
func (x *exchange) dispatch(ctx *fasthttp.RequestCtx) error {
	path := ctx.URI().PathOriginal()
	var cluster []byte
	inCluster := bytes.HasPrefix(path, []byte(clusterPrefix))
	if inCluster {
		cluster, path, _ = bytes.Cut(path[len(clusterPrefix):], []byte{'/'})
	}
	var parts [8][]byte
	n := 0
	for rest, more := bytes.TrimPrefix(path, []byte{'/'}), true; more; n++ {
		if n == len(parts) {
			return noRoute()
		}
		parts[n], rest, more = bytes.Cut(rest, []byte{'/'})
	}
	if x.route = routeOf(parts[:n]); x.route == routeOther {
		return noRoute()
	}
	if !ctx.IsGet() && !x.head {
		return newProblem(codeMethod, "only GET and HEAD are served, not %s", printable(ctx.Method()))
	}
	if inCluster {
		// Without a cluster id of its own, a tier is nobody's cluster.
		id, sound := decodeSegment(cluster)
		if own := x.srv.service.ClusterID(); !sound || id == "" || id != own {
			return newProblem(codeNoCluster, "this is not cluster %q; the same paths from /topics on need no cluster id", printable(cluster))
		}
	}
	if x.route == routeContract {
		return x.serveContract(ctx)
	}
	if n > 1 {
		name, sound := decodeSegment(parts[1])
		if !sound || !segment.LegalTopic(name) {
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
	case routeRecords, routeMessages:
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

// routeOf gives the route of a path's segments, routeOther when there is none.
func routeOf(parts [][]byte) route {
	if string(parts[0]) == "openapi.json" && len(parts) == 1 {
		return routeContract
	}
	if string(parts[0]) != "topics" {
		return routeOther
	}
	switch n := len(parts); {
	case n == 1:
		return routeTopics
	case n == 2:
		return routeTopic
	case n == 5 && string(parts[2]) == "partitions":
		switch string(parts[4]) {
		case "offsets":
			return routeOffsets
		case "records":
			return routeRecords
		case "messages":
			return routeMessages
		case "segments":
			return routeSegments
		}
	case n == 7 && string(parts[2]) == "partitions" && string(parts[4]) == "segments":
		return routeFile
	}
	return routeOther
}

func noRoute() *problem {
	return newProblem(codeNoRoute, "no such resource; start at /topics, or at /openapi.json")
}
