package observe

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"coldtap/cluster"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ordersID = segment.UUID{7}
	orders3  = tier.PartitionID{Topic: ordersID, Partition: 3}
)

// orders is the topic of most tests.
func orders(partitions ...cluster.Partition) cluster.Topic {
	return cluster.Topic{ID: ordersID, Name: "orders", Partitions: partitions}
}

// bounded is a partition that the cluster knows.
func bounded(number int32, start, end int64) cluster.Partition {
	return cluster.Partition{
		Number: number, LogStart: start, LocalStart: start + 1, LastStable: end - 1, HighWatermark: end,
		Lineage: []segment.EpochStart{{Epoch: 4, StartOffset: start}},
	}
}

func unbounded(number int32) cluster.Partition {
	return cluster.Partition{Number: number, Leader: -1, LogStart: -1, LocalStart: -1, LastStable: -1, HighWatermark: -1}
}

func segmentID(n int) (id segment.UUID) {
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// copied is a segment that was copied.
func copied(n int, topic string, of tier.PartitionID, base, end int64) []tier.Change {
	return []tier.Change{
		tier.SegmentAdded{Segment: tier.Segment{
			ID: segmentID(n), Partition: of, Topic: topic, BaseOffset: base, EndOffset: end, Size: 1000, EventTime: int64(n),
			Epochs: []segment.EpochStart{{Epoch: 4, StartOffset: base}},
		}},
		moved(n, of, tier.CopyFinished),
	}
}

func moved(n int, of tier.PartitionID, to tier.State) tier.Change {
	return tier.SegmentUpdated{Partition: of, ID: segmentID(n), State: to, At: int64(n)}
}

// harness is an Observer with its tier.
type harness struct {
	*Observer
	tier *tier.Tier

	mu        sync.Mutex
	withdrawn []segment.UUID
}

// prepare makes an Observer of a tier that is not published yet.
func prepare(c *scriptedcluster.Cluster, changes ...tier.Change) *harness {
	h := &harness{tier: tier.New()}
	h.Observer = New(Options{
		Cluster: c, Op: "test", Refresh: time.Second, Applied: func(int, []tier.Rejected) {},
		Withdrawn: func(list ...*tier.Segment) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, s := range list {
				h.withdrawn = append(h.withdrawn, s.ID)
			}
		},
	})
	h.apply(changes...)
	return h
}

// start is prepare, published, when the cluster has answered.
func start(t testing.TB, c *scriptedcluster.Cluster, changes ...tier.Change) *harness {
	t.Helper()
	h := prepare(c, changes...)
	h.Publish(h.tier, func() {})
	h.refreshed(t)
	return h
}

// apply applies changes as records that name "orders", or the topic of a segment.
func (h *harness) apply(changes ...tier.Change) {
	topics := []Topic{}
	for _, c := range changes {
		switch c := c.(type) {
		case tier.SegmentAdded:
			topics = append(topics, Topic{ID: c.Segment.Partition.Topic, Name: c.Segment.Topic, At: c.Segment.EventTime})
		case tier.PartitionForgotten:
			topics = append(topics, Topic{ID: c.Partition.Topic, Name: "orders"})
		}
	}
	h.Apply(context.Background(), h.tier, changes, topics)
}

func (h *harness) refreshed(t testing.TB) *tier.Snapshot {
	t.Helper()
	if err := h.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h.tier.Snapshot()
}

func (h *harness) doubt(of tier.PartitionID) error { return h.tier.Snapshot().Certainty(of).Reason }

func (h *harness) readable(of tier.PartitionID, n int) bool {
	p, ok := h.tier.Snapshot().Partition(of)
	return ok && p.Readable(segmentID(n))
}
