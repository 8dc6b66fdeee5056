package cluster

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokers starts a cluster of two brokers with the topic orders of two partitions, and nothing else.
func brokers(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	k, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.SeedTopics(2, "orders")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// quiet asks only when told to.
func quiet(addrs ...string) Config {
	return Config{Bootstrap: addrs, Interval: time.Hour, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()}
}

func open(t *testing.T, cfg Config, notify func(*View)) *Client {
	t.Helper()
	c, err := Open(cfg, notify)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// refreshed gives the View of a round that starts now.
func refreshed(t *testing.T, c *Client) *View {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	return c.View()
}

func named(t *testing.T, v *View, name string) *Topic {
	t.Helper()
	for i := range v.Topics {
		if v.Topics[i].Name == name {
			return &v.Topics[i]
		}
	}
	t.Fatalf("no topic %s in %+v", name, v.Topics)
	return nil
}

// watch makes c keep a topic by its name, and gives its id.
func watch(t *testing.T, c *Client, name string) segment.UUID {
	t.Helper()
	id := named(t, refreshed(t, c), name).ID
	c.Watch(nameless(id))
	return id
}

// part is a partition of the topic orders after a fresh round.
func part(t *testing.T, c *Client, number int) Partition {
	t.Helper()
	return named(t, refreshed(t, c), "orders").Partitions[number]
}

func produce(t *testing.T, k *kfake.Cluster, partition int32, n int, opts ...kgo.Opt) {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(k.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range n {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: partition, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// listOffsets makes the cluster answer ListOffsets as change has it; change is called for each partition with what the
// cluster would have said if it were empty.
func listOffsets(k *kfake.Cluster, change func(req *kmsg.ListOffsetsRequest, timestamp int64, p *kmsg.ListOffsetsResponseTopicPartition)) {
	k.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, rt := range req.Topics {
			t := kmsg.NewListOffsetsResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition = rp.Partition
				change(req, rp.Timestamp, &p)
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
}

// lines counts log lines by message.
type lines struct {
	slog.Handler
	mu    sync.Mutex
	count map[string]int
}

func newLines() *lines { return &lines{count: map[string]int{}} }

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[r.Message]++
	return nil
}

func (l *lines) of(msg string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[msg]
}

// nameless are topics whose names nobody has heard.
func nameless(ids ...segment.UUID) map[segment.UUID]string {
	set := make(map[segment.UUID]string, len(ids))
	for _, id := range ids {
		set[id] = ""
	}
	return set
}
