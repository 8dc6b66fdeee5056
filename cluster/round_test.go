package cluster

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopicCreatedAgain(t *testing.T) {
	k := brokers(t)
	produce(t, k, 0, 5)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	id := watch(t, c, "orders")
	if p := part(t, c, 0); p.HighWatermark != 5 {
		t.Fatalf("got %+v", p)
	}
	if err := k.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	if v := refreshed(t, c); len(v.Topics) != 0 {
		t.Errorf("deleted, but %+v", v.Topics)
	}
	if err := k.CreateTopic("orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	v := refreshed(t, c)
	again := named(t, v, "orders")
	if _, ok := v.Topic(id); ok || again.ID == id || again.ID.IsZero() {
		t.Errorf("id before %v, now %v", id, again.ID)
	}
	if p := again.Partitions[0]; p.five() != nothing {
		t.Errorf("it has the bounds of another topic: %+v", p)
	}
	c.Watch(nameless(again.ID))
	if p := part(t, c, 0); p.five() != (five{0, 0, -1, 0, 0}) {
		t.Errorf("got %+v", p)
	}
}

// metadataWith changes each Metadata answer that req asks for.
func metadataWith(k *kfake.Cluster, change func(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse)) {
	addrs := k.ListenAddrs()
	k.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		if req.Topics != nil && len(req.Topics) == 0 { // kgo's own, for the brokers
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for i, addr := range addrs {
			host, port, _ := net.SplitHostPort(addr)
			n, _ := strconv.Atoi(port)
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Host, b.Port = int32(i), host, int32(n)
			resp.Brokers = append(resp.Brokers, b)
		}
		change(req, resp)
		return resp, nil, true
	})
}

// answerTopic is a topic as Metadata has it, of as many partitions as there are leaders, all of one leader epoch.
func answerTopic(name string, id segment.UUID, epoch int32, leaders ...int32) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID = kmsg.StringPtr(name), id
	for i, leader := range leaders {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), leader, epoch
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// TestTopicInTrouble keeps a topic that is not watched while it is listed with an error that does not say that it is
// gone.
func TestTopicInTrouble(t *testing.T) {
	k := brokers(t)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	before := named(t, refreshed(t, c), "orders")
	var code atomic.Int32
	metadataWith(k, func(_ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
		answer := answerTopic("orders", before.ID, 0)
		answer.ErrorCode = int16(code.Load())
		resp.Topics = []kmsg.MetadataResponseTopic{answer}
	})
	code.Store(int32(kerr.LeaderNotAvailable.Code))
	if now := named(t, refreshed(t, c), "orders"); now.ID != before.ID || len(now.Partitions) != 2 {
		t.Errorf("got %+v", now)
	}
	code.Store(int32(kerr.UnknownTopicOrPartition.Code))
	if v := refreshed(t, c); len(v.Topics) != 0 {
		t.Errorf("gone, but %+v", v.Topics)
	}
}

func TestMetadataThatIsHostile(t *testing.T) {
	k := brokers(t)
	id := segment.UUID{1}
	metadataWith(k, func(_ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
		twice := answerTopic("twice", segment.UUID{2}, -9, 0, -3)
		twice.Partitions = append(twice.Partitions, twice.Partitions...)
		twice.Partitions[3].Partition = math32
		below := kmsg.NewMetadataResponseTopicPartition()
		below.Partition = -1
		twice.Partitions = append(twice.Partitions, below)
		nameless := answerTopic("x", segment.UUID{3}, 0, 0)
		nameless.Topic = kmsg.StringPtr("")
		resp.Topics = []kmsg.MetadataResponseTopic{answerTopic("orders", id, 0, 0), answerTopic("orders", segment.UUID{9}, 0, 0),
			answerTopic("same-id", id, 0, 0), answerTopic("../etc", segment.UUID{4}, 0, 0), nameless, twice}
	})
	c := open(t, quiet(k.ListenAddrs()...), nil)
	v := refreshed(t, c)
	if len(v.Topics) != 2 || v.Topics[0].Name != "orders" || v.Topics[0].ID != id || v.Topics[1].Name != "twice" {
		t.Fatalf("got %+v", v.Topics)
	}
	var numbers []int32
	for _, p := range v.Topics[1].Partitions {
		numbers = append(numbers, p.Number)
		if p.LeaderEpoch != -1 || p.Leader < -1 || p.five() != nothing {
			t.Errorf("got %+v", p)
		}
	}
	if !slices.Equal(numbers, []int32{0, 1, math32}) {
		t.Errorf("partitions %v", numbers)
	}
	c.Watch(nameless(id, segment.UUID{2}))
	refreshed(t, c)
	for _, reason := range []string{rejectName, rejectRepeated} {
		if testutil.ToFloat64(c.metrics.rejected.WithLabelValues(reason)) == 0 {
			t.Errorf("not counted: %s", reason)
		}
	}
}

const math32 = 1<<31 - 1

func TestMetadataWithoutBrokers(t *testing.T) {
	k := brokers(t)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	v := refreshed(t, c)
	metadataWith(k, func(_ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) { resp.Brokers = nil })
	wantKind(t, c.Refresh(t.Context()), Answer)
	wantKind(t, c.LastError(), Answer)
	if c.View() != v {
		t.Error("the view before is gone")
	}
}

// TestMetadataThatLags ignores an older leader epoch five times.
func TestMetadataThatLags(t *testing.T) {
	k := brokers(t)
	id := segment.UUID{1}
	var epoch atomic.Int32
	epoch.Store(5)
	metadataWith(k, func(_ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
		e := epoch.Load()
		resp.Topics = []kmsg.MetadataResponseTopic{answerTopic("orders", id, e, e%2)}
	})
	listOffsets(k, func(_ *kmsg.ListOffsetsRequest, _ int64, p *kmsg.ListOffsetsResponseTopicPartition) { p.Offset = 3 })
	c := open(t, quiet(k.ListenAddrs()...), nil)
	c.Watch(nameless(id))
	if p := part(t, c, 0); p.LeaderEpoch != 5 || p.Leader != 1 || p.HighWatermark != 3 {
		t.Fatalf("got %+v", p)
	}
	epoch.Store(4)
	for round := range staleAnswers {
		if p := part(t, c, 0); p.LeaderEpoch != 5 || p.Leader != 1 {
			t.Fatalf("round %d: got %+v", round, p)
		}
	}
	if p := part(t, c, 0); p.LeaderEpoch != 4 || p.Leader != 0 {
		t.Errorf("got %+v", p)
	}
	if got := testutil.ToFloat64(c.metrics.rejected.WithLabelValues(rejectStale)); got != staleAnswers {
		t.Errorf("counted %v", got)
	}
}

// TestALeaderThatHangs costs its own partitions the round, and nobody else: who waits for it no longer than 5 s, as
// followers of the metadata topic did, has an answer.
func TestALeaderThatHangs(t *testing.T) {
	k := brokers(t)
	for p := range int32(2) {
		if err := k.MoveTopicPartition("orders", p, p); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, quiet(k.ListenAddrs()...), nil)
	watch(t, c, "orders")
	part(t, c, 0)
	release := make(chan struct{})
	defer close(release)
	k.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		if k.CurrentNode() == 1 {
			k.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := c.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	v := c.View()
	if list := named(t, v, "orders").Partitions; !list[0].BoundsAt.Equal(v.At) || list[1].BoundsAt.Equal(v.At) {
		t.Errorf("view of %v: %+v", v.At, list)
	}
}
