package cluster

import (
	"sync"
	"testing"
	"time"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asked counts the requests that reach a cluster, and the partitions and topics that they name.
type asked struct {
	mu       sync.Mutex
	requests map[int16]int
	named    map[int16]int // -1: all topics
}

func counted(k *kfake.Cluster) *asked {
	a := &asked{requests: map[int16]int{}, named: map[int16]int{}}
	k.ControlKey(-1, func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.requests[req.Key()]++
		switch req := req.(type) {
		case *kmsg.MetadataRequest:
			if req.Topics == nil {
				a.named[req.Key()] = -1
			} else {
				a.named[req.Key()] += len(req.Topics)
			}
		case *kmsg.ListOffsetsRequest:
			for _, t := range req.Topics {
				a.named[req.Key()] += len(t.Partitions)
			}
		}
		return nil, nil, false
	})
	return a
}

func (a *asked) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.requests)
	clear(a.named)
}

// TestRefreshOnly asks for one topic and one partition, and gives what its leader says now; everything else stays as it
// was.
func TestRefreshOnly(t *testing.T) {
	k := brokers(t, kfake.SeedTopics(5, "payments"))
	a := counted(k)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	id := watch(t, c, "orders")
	c.Watch(nameless(id, named(t, c.View(), "payments").ID))
	before := refreshed(t, c)
	produce(t, k, 1, 3)
	a.reset()
	called := time.Now()
	if err := c.RefreshOnly(t.Context(), PartitionID{id, 1}); err != nil {
		t.Fatal(err)
	}
	v := c.View()
	orders := named(t, v, "orders").Partitions
	if orders[1].HighWatermark != 3 || orders[1].BoundsAt.Before(called) || orders[1].LineagePending {
		t.Errorf("got %+v", orders[1])
	}
	if !v.At.Equal(before.At) || v.Newest.Before(called) || orders[0].five() != named(t, before, "orders").Partitions[0].five() {
		t.Errorf("the rest is of %v and %v, before of %v", v.At, v.Newest, before.At)
	}
	a.mu.Lock()
	metadata, offsets := int16(kmsg.Metadata), int16(kmsg.ListOffsets)
	if a.requests[metadata] != 1 || a.named[metadata] != 1 || a.requests[offsets] != 5 || a.named[offsets] != 5 {
		t.Errorf("%v requests, that name %v", a.requests, a.named)
	}
	a.mu.Unlock()

	// Leaders move: the next round finds the new one, and the epochs that it tells.
	if err := k.MoveTopicPartition("orders", 1, 1-k.LeaderFor("orders", 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.RefreshOnly(t.Context(), PartitionID{id, 1}); err != nil {
		t.Fatal(err)
	}
	now := named(t, c.View(), "orders").Partitions[1]
	if now.LeaderEpoch != orders[1].LeaderEpoch+1 || now.LineagePending || now.BoundsAt.Equal(orders[1].BoundsAt) {
		t.Errorf("got %+v", now)
	}
}

// TestRefreshOnlyNeedsAllToTell: what is gone, or not watched yet, takes a round about everything.
func TestRefreshOnlyNeedsAllToTell(t *testing.T) {
	k := brokers(t)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	id := named(t, refreshed(t, c), "orders").ID
	only := func(of PartitionID) *View {
		t.Helper()
		rounds := testutil.ToFloat64(c.metrics.rounds.WithLabelValues(resultOK))
		if err := c.RefreshOnly(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		if now := testutil.ToFloat64(c.metrics.rounds.WithLabelValues(resultOK)); now == rounds {
			t.Errorf("%v was told by few", of)
		}
		return c.View()
	}
	only(PartitionID{id, 0}) // nobody watches it
	c.Watch(nameless(id))
	only(PartitionID{id, 0})
	only(PartitionID{id, 9})
	only(PartitionID{segment.UUID{9}, 0})
	if err := k.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	if v := only(PartitionID{id, 0}); v.Missing[id] != TopicGone {
		t.Errorf("missing %v", v.Missing)
	}
	k.Close()
	wantKind(t, c.RefreshOnly(t.Context(), PartitionID{id, 0}), Unreachable)
	c.Close()
	wantKind(t, c.RefreshOnly(t.Context(), PartitionID{id, 0}), Canceled)
}
