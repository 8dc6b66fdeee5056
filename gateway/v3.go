package gateway

import (
	"net/url"
	"strconv"
	"strings"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"

	"github.com/valyala/fasthttp"
)

// v3 writes clusters, topics and partitions in the shapes of the REST proxy's API v3 (its published openapi.yaml). The
// schema requires links to resources that only a cluster has (ACLs, brokers, configurations, reassignments): they are
// written, and answer 404. It requires replication_factor too, which is not known here: 0.
type v3 struct {
	id   string // the cluster's
	base string // address of this node, as the client wrote it
	crn  string // resource name of the cluster
}

func (x *exchange) v3(ctx *fasthttp.RequestCtx) v3 {
	v := v3{id: x.srv.service.ClusterID(), crn: "crn:///kafka="}
	v.crn += v.id
	if host := ctx.Host(); len(host) > 0 {
		v.base = string(ctx.URI().Scheme()) + "://" + string(host)
	}
	v.base += "/v3/clusters"
	return v
}

// path is the address of a resource of the cluster.
func (v *v3) path(of string) string { return v.base + "/" + url.PathEscape(v.id) + of }

// list begins a collection: everything is on one page.
func (v *v3) list(dst []byte, kind, self string) []byte {
	dst = jsonenc.AppendString(append(dst, `{"kind":`...), kind)
	dst = jsonenc.AppendString(append(dst, `,"metadata":{"self":`...), self)
	return append(dst, `,"next":null},"data":[`...)
}

// open begins a resource of the cluster.
func (v *v3) open(dst []byte, kind, of, name string) []byte {
	dst = jsonenc.AppendString(append(dst, `{"kind":`...), kind)
	dst = jsonenc.AppendString(append(dst, `,"metadata":{"self":`...), v.path(of))
	dst = jsonenc.AppendString(append(dst, `,"resource_name":`...), v.crn+name)
	return jsonenc.AppendString(append(dst, `},"cluster_id":`...), v.id)
}

func (v *v3) related(dst []byte, field, of string) []byte {
	dst = jsonenc.AppendString(append(dst, ','), field)
	dst = jsonenc.AppendString(append(dst, `:{"related":`...), v.path(of))
	return append(dst, '}')
}

func (v *v3) cluster(dst []byte) []byte {
	dst = v.open(dst, "KafkaCluster", "", "")
	for _, r := range [...][2]string{
		{"acls", "/acls"}, {"brokers", "/brokers"}, {"broker_configs", "/broker-configs"},
		{"consumer_groups", "/consumer-groups"}, {"topics", "/topics"},
		{"partition_reassignments", "/topics/-/partitions/-/reassignment"},
	} {
		dst = v.related(dst, r[0], r[1])
	}
	return append(dst, '}')
}

func (v *v3) topic(dst []byte, t *fetch.TopicInfo) []byte {
	of := "/topics/" + t.Name
	dst = v.open(dst, "KafkaTopic", of, "/topic="+t.Name)
	dst = jsonenc.AppendString(append(dst, `,"topic_name":`...), t.Name)
	dst = strconv.AppendBool(append(dst, `,"is_internal":`...), strings.HasPrefix(t.Name, "__"))
	dst = append(dst, `,"replication_factor":0,"partitions_count":`...)
	dst = strconv.AppendInt(dst, int64(len(t.Partitions)), 10)
	dst = v.related(dst, "partitions", of+"/partitions")
	dst = v.related(dst, "configs", of+"/configs")
	dst = v.related(dst, "partition_reassignments", of+"/partitions/-/reassignment")
	return append(dst, '}')
}

func (v *v3) partition(dst []byte, topic string, n int32) []byte {
	number := strconv.Itoa(int(n))
	of := "/topics/" + topic + "/partitions/" + number
	dst = v.open(dst, "KafkaPartition", of, "/topic="+topic+"/partition="+number)
	dst = jsonenc.AppendString(append(dst, `,"topic_name":`...), topic)
	dst = append(append(dst, `,"partition_id":`...), number...)
	dst = v.related(dst, "replicas", of+"/replicas")
	dst = v.related(dst, "reassignment", of+"/reassignment")
	return append(dst, '}')
}

// room bounds the length of a resource: each of its links repeats addresses and names, all escaped in the worst case.
func (v *v3) room(topic string) int {
	return 8 * (itemRoom + 6*(len(v.base)+3*len(v.id)+len(topic)))
}

// serveV3 answers the routes of clusters, and those of topics and partitions below one.
func serveV3(x *exchange, ctx *fasthttp.RequestCtx) error {
	v, service := x.v3(ctx), x.srv.service
	a := x.newAnswer()
	items := 0
	add := func(topic string, item func(dst []byte) []byte) error {
		items++
		return a.appendItem(items-1, v.room(topic), item)
	}
	switch x.route {
	case routeClusters:
		a.head = v.list(a.head, "KafkaClusterList", v.base)
		if v.id != "" {
			if err := add("", v.cluster); err != nil {
				return err
			}
		}
	case routeCluster:
		a.head = append(v.cluster(a.head), '\n')
		return sendListing(x, ctx, a, "")
	case routeClusterTopics:
		names, err := service.Topics(true)
		if err != nil {
			return err
		}
		a.head = v.list(a.head, "KafkaTopicList", v.path("/topics"))
		for _, name := range names {
			t, err := service.Topic(name, x.req.TopicID)
			if err != nil {
				continue // it has been deleted since
			}
			if err := add(name, func(dst []byte) []byte { return v.topic(dst, &t) }); err != nil {
				return err
			}
		}
	case routePartition:
		p, err := service.Partition(x.req.Topic, x.req.TopicID, x.req.Partition)
		if err != nil {
			return err
		}
		a.head = append(v.partition(a.head, x.req.Topic, p.Partition), '\n')
		return sendListing(x, ctx, a, "")
	default:
		t, err := service.Topic(x.req.Topic, x.req.TopicID)
		if err != nil {
			return err
		}
		if x.route == routeClusterTopic {
			a.head = append(v.topic(a.head, &t), '\n')
			return sendListing(x, ctx, a, "")
		}
		a.head = v.list(a.head, "KafkaPartitionList", v.path("/topics/"+t.Name+"/partitions"))
		for i := range t.Partitions {
			n := t.Partitions[i].Partition
			if err := add(t.Name, func(dst []byte) []byte { return v.partition(dst, t.Name, n) }); err != nil {
				return err
			}
		}
	}
	return sendListing(x, ctx, a, "]}\n")
}
