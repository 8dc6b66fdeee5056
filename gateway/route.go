package gateway

import (
	"bytes"
	"math"
	"slices"

	"coldtap/segment"

	"github.com/valyala/fasthttp"
)

// route is a kind of resource; metrics count by it.
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
	routeClusters
	routeCluster
	routeClusterTopics
	routeClusterTopic
	routePartitions
	routePartition
	routeCount
)

func (r route) String() string {
	return [routeCount]string{"other", "topics", "topic", "offsets", "records", "messages", "segments", "file", "openapi",
		"clusters", "cluster", "cluster_topics", "cluster_topic", "partitions", "partition"}[r]
}

// vary names the header fields that decide an answer besides its address.
func (r route) vary() string {
	switch r {
	case routeRecords, routeMessages:
		return "Accept, Accept-Encoding, Authorization"
	case routeFile:
		return "Authorization"
	}
	return "Accept-Encoding, Authorization"
}

// maxParts is how many segments the longest path has, and one more.
const maxParts = 11

// dispatch finds the route and serves it. Paths are taken as sent: each segment is decoded once and not cleaned, so
// that a topic has one name only.
func (x *exchange) dispatch(ctx *fasthttp.RequestCtx) error {
	path := ctx.URI().PathOriginal()
	var all [maxParts][]byte
	n := 0
	for rest, more := bytes.TrimPrefix(path, []byte{'/'}), true; more; n++ {
		if n == len(all) {
			return noRoute()
		}
		all[n], rest, more = bytes.Cut(rest, []byte{'/'})
	}
	var parts [][]byte
	if x.route, parts = routeOf(all[:n]); x.route == routeOther {
		return noRoute()
	}
	if !ctx.IsGet() && !x.Head {
		return newProblem(codeMethod, "only GET and HEAD are served, not %s", printable(ctx.Method()))
	}
	if string(all[0]) == "v3" && x.route != routeClusters {
		// A tier without a cluster id belongs to no cluster.
		id, sound := decodeSegment(all[2])
		if own := x.srv.service.ClusterID(); !sound || id == "" || id != own {
			return newProblem(codeNoCluster, "this is not cluster %q; the same paths from /topics on need no cluster id", printable(all[2]))
		}
	}
	if n = len(parts); n > 1 {
		name, sound := decodeSegment(parts[1])
		if !sound || !segment.LegalTopic(name) {
			return newProblem(codeNoTopic, "%q cannot be a topic's name", printable(parts[1]))
		}
		x.req.Topic = name
	}
	if n > 3 {
		partition, ok := digits(parts[3])
		if !ok || partition > math.MaxInt32 {
			return badParameter("partition", "must be a number from 0 to %d, not %q", math.MaxInt32, printable(parts[3]))
		}
		x.req.Partition = int32(partition)
	}
	var seg, name string
	switch x.route {
	case routeRecords, routeMessages:
		return serveRecords(x, ctx)
	case routeFile:
		var sound bool
		seg, sound = decodeSegment(parts[5])
		name = string(parts[6])
		if !sound || seg == "" || !slices.Contains(fileNames, name) {
			return newProblem(codeNoSegment, "no such file: segments/{id or base offset}/{log, index, timeindex, txnindex, snapshot or leader-epoch-checkpoint}")
		}
	}
	if bad := x.parse(ctx.URI().QueryString()); bad != nil {
		return bad
	}
	switch x.route {
	case routeContract:
		return serveContract(x, ctx)
	case routeTopics:
		return serveTopics(x, ctx)
	case routeTopic:
		return serveTopic(x, ctx)
	case routeOffsets:
		return serveOffsets(x, ctx)
	case routeSegments:
		return serveSegments(x, ctx)
	case routeFile:
		return serveFile(x, ctx, seg, name)
	default:
		return serveV3(x, ctx)
	}
}

// routeOf gives the route of a path's segments, routeOther when there is none, and those of them that begin with
// topics. Below /v3/clusters/{id} the routes of the REST proxy answer in its shapes, and the others answer as they do
// without the prefix.
func routeOf(parts [][]byte) (route, [][]byte) {
	n := len(parts)
	switch {
	case n == 1 && string(parts[0]) == "openapi.json":
		return routeContract, nil
	case string(parts[0]) == "topics":
		return topicRoute(parts), parts
	case string(parts[0]) != "v3" || n < 2 || string(parts[1]) != "clusters":
		return routeOther, nil
	case n == 2:
		return routeClusters, nil
	case n == 3:
		return routeCluster, nil
	case string(parts[3]) != "topics":
		return routeOther, nil
	}
	parts = parts[3:]
	switch r := topicRoute(parts); {
	case r == routeTopics:
		return routeClusterTopics, parts
	case r == routeTopic:
		return routeClusterTopic, parts
	case r != routeOther || len(parts) > 4 || string(parts[2]) != "partitions":
		return r, parts
	case len(parts) == 3:
		return routePartitions, parts
	}
	return routePartition, parts
}

// topicRoute is the route of a path that begins with topics.
func topicRoute(parts [][]byte) route {
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
	return newProblem(codeNoRoute, "no such resource; start at /topics, or at /openapi.json (brokers, configurations, ACLs and consumer groups are the cluster's own)")
}
