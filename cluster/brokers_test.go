package cluster

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func dial(t *testing.T, addrs ...string) *Brokers {
	t.Helper()
	b, err := Dial(Config{Bootstrap: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestDialRefusesWhatCannotWork(t *testing.T) {
	for _, cfg := range []Config{{}, {Bootstrap: []string{"no port: at all"}}} {
		_, err := Dial(cfg)
		wantKind(t, err, Option)
	}
}

// TestLeadersOfATopic: where it is led, that it does not exist (and is not created), and that the answer is nonsense.
func TestLeadersOfATopic(t *testing.T) {
	k := brokers(t, kfake.AllowAutoTopicCreation(), kfake.ClusterID("here"))
	b := dial(t, k.ListenAddrs()...)
	at, err := b.Leaders(t.Context(), "orders", nil)
	if err != nil || at.ClusterID != "here" || at.TopicID != segment.UUID(k.TopicInfo("orders").TopicID) || len(at.Partitions) != 2 {
		t.Fatalf("%+v, %v", at, err)
	}
	for number, l := range at.Partitions {
		if l.Broker != k.LeaderFor("orders", int32(number)) || l.Epoch != k.PartitionInfo("orders", int32(number)).Epoch {
			t.Errorf("partition %d: %+v", number, l)
		}
	}
	if _, err := b.Leaders(t.Context(), "payments", nil); err != ErrNoTopic || k.TopicInfo("payments") != nil {
		t.Errorf("a topic that is not there: %v", err)
	}
	answer := answerTopic("orders", segment.UUID{1}, 0, 0, 1)
	metadataWith(k, func(_ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
		resp.Topics = []kmsg.MetadataResponseTopic{answer}
	})
	for _, spoil := range []func(){
		func() { answer.Partitions[1].Partition = 0 },
		func() { answer.Partitions[1].Partition = -1 },
		func() { answer.Partitions[1].Partition = 2 },
	} {
		spoil()
		_, err := b.Leaders(t.Context(), "orders", nil)
		wantKind(t, err, Answer)
	}
	answer.ErrorCode = kerr.TopicAuthorizationFailed.Code
	_, err = b.Leaders(t.Context(), "orders", nil)
	wantKind(t, err, Denied)
	answer.ErrorCode, answer.Partitions = 0, nil
	if _, err = b.Leaders(t.Context(), "orders", nil); err != ErrNoTopic {
		t.Errorf("a topic without partitions: %v", err)
	}
}

// TestLeadersOfABrokerThatLags: an older leader epoch of the same topic is ignored five times in a row.
func TestLeadersOfABrokerThatLags(t *testing.T) {
	k := brokers(t)
	var epoch atomic.Int32
	id := segment.UUID{1}
	metadataWith(k, func(_ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
		resp.Topics = []kmsg.MetadataResponseTopic{answerTopic("orders", id, epoch.Load(), epoch.Load()%2)}
	})
	b := dial(t, k.ListenAddrs()...)
	var last *Leaders
	ask := func(answered, want int32) {
		t.Helper()
		epoch.Store(answered)
		now, err := b.Leaders(t.Context(), "orders", last)
		if err != nil {
			t.Fatal(err)
		}
		if l := now.Partitions[0]; l.Epoch != want || l.Broker != want%2 || last != nil && now.Equal(last) != (l.Epoch == last.Partitions[0].Epoch) {
			t.Fatalf("epoch %d was answered: %+v", answered, now)
		}
		last = now
	}
	ask(5, 5)
	for range staleAnswers {
		ask(4, 5)
	}
	ask(4, 4)
	ask(6, 6)
	id = segment.UUID{2} // another topic
	ask(1, 1)
}

// TestOffsetsOfSomePartitions: who has no leader, or one that does not answer, has no offset, and the others have.
func TestOffsetsOfSomePartitions(t *testing.T) {
	k := brokers(t, kfake.SeedTopics(4, "payments"))
	for p := range int32(4) {
		if err := k.MoveTopicPartition("payments", p, p%2); err != nil {
			t.Fatal(err)
		}
	}
	b := dial(t, k.ListenAddrs()...)
	at, err := b.Leaders(t.Context(), "payments", nil)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	var closes atomic.Bool
	closes.Store(true)
	refused := kerr.NotLeaderForPartition
	k.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		requests.Add(1)
		if closes.Load() && k.CurrentNode() == 1 {
			return nil, errors.New("closed"), true
		}
		return nil, nil, false
	})
	offsets, failed := b.ListOffsets(t.Context(), at, Latest, map[int32]bool{0: true})
	if !slices.Equal(offsets, []int64{0, -1, -1, -1}) || failed.Err() != nil || requests.Load() != 1 {
		t.Errorf("one partition: %v, %v, %d requests", offsets, failed, requests.Load())
	}
	gone := *at
	gone.Partitions = slices.Clone(at.Partitions)
	gone.Partitions[2].Broker = -1
	offsets, failed = b.ListOffsets(t.Context(), &gone, Earliest, nil)
	if !slices.Equal(offsets, []int64{0, -1, -1, -1}) || len(failed) != 3 || !errors.Is(failed[2], ErrNoLeader) || failed[1] != failed[3] {
		t.Errorf("all: %v, %v", offsets, failed)
	}
	wantKind(t, failed[1], Unreachable)
	if causes, ok := failed.Err().(interface{ Unwrap() []error }); !ok || len(causes.Unwrap()) != 2 {
		t.Errorf("the causes are %v", failed.Err())
	}
	// An error of one partition is its own.
	closes.Store(false)
	listOffsets(k, func(_ *kmsg.ListOffsetsRequest, _ int64, p *kmsg.ListOffsetsResponseTopicPartition) {
		if p.Offset = 7; p.Partition == 1 {
			p.ErrorCode = refused.Code
		}
	})
	offsets, failed = b.ListOffsets(t.Context(), at, Latest, nil)
	if len(failed) != 1 || !errors.Is(failed[1], refused) || offsets[1] != -1 || offsets[3] != 7 {
		t.Errorf("one is refused: %v, %v", offsets, failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, failed := b.ListOffsets(ctx, at, Latest, nil); len(failed) != 4 {
		t.Errorf("canceled: %v", failed)
	}
}
