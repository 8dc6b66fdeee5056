package gateway

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coldtap/fetch"
)

// restProxy is what the REST proxy's published openapi.yaml (v3) demands of each kind: the names of the required
// fields, and of those that are links to another resource.
var restProxy = map[string]struct{ required, related []string }{
	"KafkaCluster": {[]string{"cluster_id"},
		[]string{"acls", "brokers", "broker_configs", "consumer_groups", "topics", "partition_reassignments"}},
	"KafkaTopic": {[]string{"cluster_id", "topic_name", "is_internal", "replication_factor", "partitions_count"},
		[]string{"partitions", "configs", "partition_reassignments"}},
	"KafkaPartition": {[]string{"cluster_id", "topic_name", "partition_id"}, []string{"replicas", "reassignment"}},
}

type v3Resource struct {
	Kind     string
	Metadata struct {
		Self         string
		Next         *string
		ResourceName string `json:"resource_name"`
	}
	Data []json.RawMessage
}

// checkV3 holds one resource against the published schema.
func checkV3(t *testing.T, raw json.RawMessage, kind string) (r v3Resource) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.Kind != kind || r.Metadata.Self == "" || r.Metadata.ResourceName == "" {
		t.Fatalf("%v: %s is no %s", err, raw, kind)
	}
	want := restProxy[kind]
	for _, name := range want.required {
		if fields[name] == nil {
			t.Errorf("%s without %s", kind, name)
		}
	}
	for _, name := range want.related {
		var link struct{ Related string }
		if err := json.Unmarshal(fields[name], &link); err != nil || !strings.HasPrefix(link.Related, r.Metadata.Self+"/") && kind != "KafkaTopic" {
			t.Errorf("%s: %s is %s", kind, name, fields[name])
		}
	}
	if len(fields) != len(want.required)+len(want.related)+2 {
		t.Errorf("%s has fields that its schema has not: %s", kind, raw)
	}
	return r
}

// TestV3AnswersAsTheRESTProxy: what its clients parse is there, every self can be asked for, and gives the same again.
func TestV3AnswersAsTheRESTProxy(t *testing.T) {
	r := newHarness(t)
	r.fake.topics = []string{"orders", "__offsets"}
	r.fake.topic = fetch.TopicInfo{Name: "orders", Partitions: []fetch.PartitionInfo{{Partition: 0}, {Partition: 3}}}
	r.fake.partition = fetch.PartitionInfo{Partition: 3}
	root := "http://" + r.addr
	for _, c := range []struct {
		path, list, kind string
		names            []string
	}{
		{"/v3/clusters", "KafkaClusterList", "KafkaCluster", []string{"crn:///kafka=kraft-1"}},
		{"/v3/clusters/kraft-1/topics", "KafkaTopicList", "KafkaTopic", []string{"crn:///kafka=kraft-1/topic=orders", "crn:///kafka=kraft-1/topic=orders"}},
		{"/v3/clusters/kraft-1/topics/orders/partitions", "KafkaPartitionList", "KafkaPartition",
			[]string{"crn:///kafka=kraft-1/topic=orders/partition=0", "crn:///kafka=kraft-1/topic=orders/partition=3"}},
	} {
		got := r.get(t, c.path)
		var list v3Resource
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || list.Kind != c.list || list.Metadata.Self != root+c.path || list.Metadata.Next != nil ||
			!strings.Contains(got.body, `"next":null`) {
			t.Fatalf("%s: %v %s", c.path, err, got.body)
		}
		var names []string
		for _, raw := range list.Data {
			item := checkV3(t, raw, c.kind)
			names = append(names, item.Metadata.ResourceName)
			again := r.get(t, strings.TrimPrefix(item.Metadata.Self, root))
			if one := checkV3(t, json.RawMessage(again.body), c.kind); again.StatusCode != 200 || c.kind != "KafkaPartition" && one.Metadata.Self != item.Metadata.Self {
				t.Errorf("%s: %d %s", item.Metadata.Self, again.StatusCode, again.body)
			}
		}
		if !slices.Equal(names, c.names) {
			t.Errorf("%s: %q", c.path, names)
		}
	}
	if !r.fake.internal {
		t.Error("the list leaves internal topics out, the REST proxy's does not")
	}
}
