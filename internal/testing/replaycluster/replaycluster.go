// Package replaycluster replays a recorded cluster (internal/testing/clusterfixture), without a JVM: Apply into a tier,
// Start as brokers. Their metadata topic lies in a fake cluster (kfake), and requests about the other topics (Metadata,
// ListOffsets, OffsetForLeaderEpoch) are answered from what the real brokers reported before they were stopped, or from
// what a test has set since.
package replaycluster

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"coldtap/catalog/kafka"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bounds are what a partition's leader reports.
type Bounds struct {
	Start, LocalStart, LastStable, HighWatermark int64
	LatestTiered                                 int64 // inclusive
	LeaderEpoch                                  int32
	Epochs                                       []segment.EpochStart
}

// Cluster is a recorded cluster whose brokers answer. All methods may be called concurrently.
type Cluster struct {
	kafka  *kfake.Cluster
	writer *kgo.Client

	mu       sync.Mutex
	topics   map[string]segment.UUID
	bounds   map[string]Bounds // by partition name, "plain-0"
	metadata kmsg.MetadataResponseTopic
	brokers  []kmsg.MetadataResponseBroker
	id       string
	requests map[int16]int
	down     bool
}

// Apply replays f's metadata topic into a tier, from its beginning, and gives what the tier refused.
func Apply(tb testing.TB, f *clusterfixture.Fixture, to *tier.Tier) (rejected []tier.Rejected) {
	tb.Helper()
	for _, m := range f.Metadata {
		r, err := kafka.Decode(m.Value)
		if err != nil {
			tb.Fatalf("record %d of partition %d: %v", m.Offset, m.Partition, err)
		}
		rejected = append(rejected, to.Apply(kafka.Changes(nil, r)...)...)
	}
	return rejected
}

// Start runs f's brokers with so many partitions of the metadata topic; they stop with the test.
func Start(tb testing.TB, f *clusterfixture.Fixture, partitions int32) *Cluster {
	tb.Helper()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID(f.Cluster.ClusterID), kfake.SeedTopics(partitions, kafka.Name))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(kafka.Close)
	c := &Cluster{
		kafka: kafka, topics: map[string]segment.UUID{}, bounds: map[string]Bounds{}, requests: map[int16]int{}, id: f.Cluster.ClusterID,
	}
	if c.writer, err = kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.writer.Close)
	for _, m := range f.Metadata {
		c.Produce(tb, m.Partition, m.Value)
	}
	for _, p := range f.Partitions() {
		epochs, err := segment.ParseEpochCheckpoint([]byte(p.LeaderEpochs))
		if err != nil {
			epochs = nil
		}
		b := Bounds{
			Start: p.Start, LocalStart: p.LocalStart, LastStable: p.LastStable, HighWatermark: p.HighWatermark, LatestTiered: p.LatestTiered, Epochs: epochs,
		}
		if len(epochs) > 0 {
			b.LeaderEpoch = epochs[len(epochs)-1].Epoch
		}
		c.topics[p.Topic.Name], c.bounds[p.Name()] = p.Topic.ID, b
	}
	c.readOwnMetadata(tb)
	kafka.Control(c.answer)
	return c
}

// readOwnMetadata reads how the fake cluster describes itself, which the answers about other topics need.
func (c *Cluster) readOwnMetadata(tb testing.TB) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(kafka.Name)}}
	resp, err := req.RequestWith(tb.Context(), c.writer)
	if err != nil {
		tb.Fatal(err)
	}
	c.metadata, c.brokers = resp.Topics[0], resp.Brokers
	for i, addr := range c.kafka.ListenAddrs() {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			tb.Fatal(err)
		}
		n, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			tb.Fatal(err)
		}
		c.brokers[i].Host, c.brokers[i].Port = host, int32(n)
	}
}

// Addrs are the brokers', for bootstrap.
func (c *Cluster) Addrs() []string { return c.kafka.ListenAddrs() }

// Produce writes a value to a partition of the metadata topic, as brokers do.
func (c *Cluster) Produce(tb testing.TB, partition int32, value []byte) {
	tb.Helper()
	r := &kgo.Record{Topic: kafka.Name, Partition: partition, Value: value}
	if err := c.writer.ProduceSync(tb.Context(), r).FirstErr(); err != nil {
		tb.Fatal(err)
	}
}

// Bounds gives what a partition's leader reports now.
func (c *Cluster) Bounds(partition string) Bounds {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bounds[partition]
}

// Set changes what a partition's leader reports.
func (c *Cluster) Set(partition string, b Bounds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bounds[partition] = b
}

// SetDown makes every request break its connection, or no longer.
func (c *Cluster) SetDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// Requests gives the API keys of the requests since Start, those of Produce included, ascending.
func (c *Cluster) Requests() []int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []int16
	for k := range c.requests {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (c *Cluster) answer(req kmsg.Request) (kmsg.Response, error, bool) {
	c.kafka.KeepControl()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[req.Key()]++
	if c.down {
		return nil, net.ErrClosed, true
	}
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return c.describe(req), nil, true
	case *kmsg.ListOffsetsRequest:
		if len(req.Topics) == 0 || req.Topics[0].Topic == kafka.Name {
			return nil, nil, false
		}
		return c.offsets(req), nil, true
	case *kmsg.OffsetForLeaderEpochRequest:
		return c.epochs(req), nil, true
	}
	return nil, nil, false
}

// describe answers Metadata: for all topics, or those asked for.
func (c *Cluster) describe(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.Brokers, resp.ControllerID, resp.ClusterID = c.brokers, c.brokers[0].NodeID, &c.id
	all := map[string]kmsg.MetadataResponseTopic{kafka.Name: c.metadata}
	for name, id := range c.topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = kmsg.StringPtr(name), id
		for n := int32(0); ; n++ {
			b, ok := c.bounds[name+"-"+strconv.Itoa(int(n))]
			if !ok {
				break
			}
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.LeaderEpoch = n, c.brokers[0].NodeID, b.LeaderEpoch
			p.Replicas, p.ISR = []int32{p.Leader}, []int32{p.Leader}
			t.Partitions = append(t.Partitions, p)
		}
		all[name] = t
	}
	if req.Topics == nil {
		for _, t := range all {
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	}
	for _, asked := range req.Topics {
		found := kmsg.NewMetadataResponseTopic()
		found.Topic, found.TopicID, found.ErrorCode = asked.Topic, asked.TopicID, kerr.UnknownTopicOrPartition.Code
		for _, t := range all {
			if asked.Topic != nil && *asked.Topic == *t.Topic || asked.Topic == nil && asked.TopicID == t.TopicID {
				found = t
			}
		}
		resp.Topics = append(resp.Topics, found)
	}
	return resp
}

func (c *Cluster) offsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			a := kmsg.NewListOffsetsResponseTopicPartition()
			a.Partition, a.Timestamp, a.Offset, a.LeaderEpoch = p.Partition, -1, -1, -1
			b, ok := c.bounds[t.Topic+"-"+strconv.Itoa(int(p.Partition))]
			switch {
			case !ok:
				a.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case p.Timestamp == -1 && req.IsolationLevel == 1:
				a.Offset = b.LastStable
			case p.Timestamp == -1:
				a.Offset = b.HighWatermark
			case p.Timestamp == -2:
				a.Offset = b.Start
			case p.Timestamp == -4:
				a.Offset = b.LocalStart
			case p.Timestamp == -5:
				a.Offset = b.LatestTiered
			}
			out.Partitions = append(out.Partitions, a)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// epochs answers as LeaderEpochFileCache.endOffsetFor.
func (c *Cluster) epochs(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			a := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			a.Partition, a.LeaderEpoch, a.EndOffset = p.Partition, -1, -1
			b, ok := c.bounds[t.Topic+"-"+strconv.Itoa(int(p.Partition))]
			if !ok {
				a.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else if n := len(b.Epochs); n > 0 && p.LeaderEpoch >= 0 && p.LeaderEpoch <= b.LeaderEpoch {
				i := n - 1
				for i >= 0 && b.Epochs[i].Epoch > p.LeaderEpoch {
					i--
				}
				switch {
				case i < 0:
					a.LeaderEpoch, a.EndOffset = p.LeaderEpoch, b.Epochs[0].StartOffset
				case i == n-1:
					a.LeaderEpoch, a.EndOffset = b.Epochs[i].Epoch, b.HighWatermark
				default:
					a.LeaderEpoch, a.EndOffset = b.Epochs[i].Epoch, b.Epochs[i+1].StartOffset
				}
			}
			out.Partitions = append(out.Partitions, a)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
