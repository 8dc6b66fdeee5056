package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// answerBytes bounds one Fetch answer, portionBytes what it holds of one partition. Either may be passed by a single
	// batch, since brokers always answer with one; a broker's message.max.bytes is 1 MiB by default.
	answerBytes  = 8 << 20
	portionBytes = 1 << 20
	// mostBytes bounds an answer that does not keep to that.
	mostBytes = 32 << 20
	// leaderPatience is how long one leader may take to tell its offsets, so that one that hangs does not use up the time
	// that the others' answers have (askTimeout).
	leaderPatience = 2 * time.Second

	earliest = -2
	latest   = -1
)

var (
	errNoTopic  = errors.New("the cluster has no such topic")
	errNoLeader = errors.New("a partition has no leader")
	// errCut is a leader's word that its log is not the one from which was read (KIP-595's diverging epoch).
	errCut = errors.New("the log was cut below what was read, by an unclean election")
)

// brokers asks the cluster for what the topic holds: Metadata, ListOffsets and Fetch are all that it ever sends.
//
// Positions are kept here and not by a kgo consumer, which tells of records only: with a consumer nobody learns that a
// batch without records was passed, and a partition that ends in one would never be caught up with.
type brokers struct {
	client *kgo.Client
	topic  string
}

func dial(opt []kgo.Opt, topic string) (*brokers, error) {
	// Client metrics (KIP-714) would be the one thing that is sent to the cluster to keep.
	client, err := kgo.NewClient(append(slices.Clone(opt), kgo.DisableClientMetrics(), kgo.BrokerMaxReadBytes(mostBytes), kgo.FetchMaxBytes(answerBytes))...)
	if err != nil {
		return nil, err
	}
	return &brokers{client, topic}, nil
}

func (b *brokers) close() { b.client.Close() }

// placement is where the topic's partitions are led, as the cluster said at one moment. It is immutable.
type placement struct {
	clusterID string
	topicID   segment.UUID
	leaders   []leadership // by partition
}

// leadership is who leads a partition; broker -1 = nobody.
type leadership struct{ broker, epoch int32 }

// equal says whether requests go the same way.
func (p *placement) equal(o *placement) bool {
	return p.topicID == o.topicID && p.clusterID == o.clusterID && slices.Equal(p.leaders, o.leaders)
}

// byLeader groups partitions; those without a leader are under -1.
func (p *placement) byLeader() map[int32][]int32 {
	groups := map[int32][]int32{}
	for number, l := range p.leaders {
		groups[l.broker] = append(groups[l.broker], int32(number))
	}
	return groups
}

// locate asks where the topic is. It never lets a broker create it.
func (b *brokers) locate(ctx context.Context) (*placement, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(b.topic)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, b.client)
	if err != nil {
		return nil, err
	}
	at := &placement{}
	if resp.ClusterID != nil {
		at.clusterID = *resp.ClusterID
	}
	if len(resp.Topics) != 1 {
		return nil, fmt.Errorf("metadata of %d topics was answered instead of one", len(resp.Topics))
	}
	t := &resp.Topics[0]
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return nil, errNoTopic
	case err != nil:
		return nil, err
	}
	at.topicID = t.TopicID
	at.leaders = make([]leadership, len(t.Partitions))
	for i := range at.leaders {
		at.leaders[i].broker = -2
	}
	for _, p := range t.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(at.leaders) || at.leaders[p.Partition].broker != -2 {
			return nil, fmt.Errorf("partition %d of %d was answered out of place", p.Partition, len(at.leaders))
		}
		l := leadership{p.Leader, p.LeaderEpoch}
		if l.broker < 0 {
			l = leadership{-1, -1}
		}
		at.leaders[p.Partition] = l
	}
	if len(at.leaders) == 0 {
		return nil, errNoTopic
	}
	return at, nil
}

// offsets asks every leader for the earliest or latest offset of its partitions; all must answer.
func (b *brokers) offsets(ctx context.Context, at *placement, which int64) ([]int64, error) {
	offsets, failed := b.offsetsOfMost(ctx, at, which, nil)
	var causes []error
	for _, partition := range slices.Sorted(maps.Keys(failed)) {
		if err := failed[partition]; !slices.Contains(causes, err) {
			causes = append(causes, err)
		}
	}
	return offsets, errors.Join(causes...)
}

// offsetsOfMost asks for some partitions, nil: all, and also gives why they have no offset, -1; partitions of one
// leader may share an error. Partitions that were not asked for have none either, and no error.
func (b *brokers) offsetsOfMost(ctx context.Context, at *placement, which int64, only map[int32]bool) (offsets []int64, failed map[int32]error) {
	ctx, cancel := context.WithTimeout(ctx, leaderPatience)
	defer cancel()
	offsets = slices.Repeat([]int64{-1}, len(at.leaders))
	failed = map[int32]error{}
	groups := at.byLeader()
	if only != nil {
		for broker, partitions := range groups {
			groups[broker] = slices.DeleteFunc(partitions, func(p int32) bool { return !only[p] })
			if len(groups[broker]) == 0 {
				delete(groups, broker)
			}
		}
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
	)
	fail := func(partitions []int32, err error) {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range partitions {
			failed[p], offsets[p] = err, -1
		}
	}
	for broker, partitions := range groups {
		if broker < 0 {
			fail(partitions, fmt.Errorf("%w: %v", errNoLeader, partitions))
			continue
		}
		wait.Go(func() {
			if err := b.offsetsOf(ctx, at, broker, partitions, which, offsets); err != nil {
				fail(partitions, err)
			}
		})
	}
	wait.Wait()
	return offsets, failed
}

// offsetsOf writes what one leader answers into offsets, of which others write the other elements.
func (b *brokers) offsetsOf(ctx context.Context, at *placement, broker int32, partitions []int32, which int64, offsets []int64) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = b.topic
	for _, p := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition = p
		part.CurrentLeaderEpoch = at.leaders[p].epoch
		part.Timestamp = which
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	answer, err := b.client.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return fmt.Errorf("broker %d: %w", broker, err)
	}
	resp, ok := answer.(*kmsg.ListOffsetsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != len(partitions) {
		return fmt.Errorf("broker %d did not answer what it was asked", broker)
	}
	asked := slices.Clone(partitions)
	for _, p := range resp.Topics[0].Partitions {
		i := slices.Index(asked, p.Partition)
		if i < 0 {
			return fmt.Errorf("broker %d answered for partition %d", broker, p.Partition)
		}
		asked = slices.Delete(asked, i, i+1)
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return fmt.Errorf("partition %d on broker %d: %w", p.Partition, broker, err)
		}
		if p.Offset < 0 {
			return fmt.Errorf("partition %d on broker %d: no offset", p.Partition, broker)
		}
		offsets[p.Partition] = p.Offset
	}
	return nil
}

// wanted is a partition to fetch, and from where.
type wanted struct {
	partition int32
	position
}

// position is how far a partition was read.
type position struct {
	offset int64 // to read next
	epoch  int32 // leader epoch of the last batch below, -1 = unknown: the leader is asked whether its log has that too
	doubt  bool  // the batch at offset could not be read once
}

// portion is what an answer holds of one partition.
type portion struct {
	partition int32
	end       int64  // high watermark
	bytes     []byte // whole batches and perhaps a cut one; the first may begin below what was wanted
	err       error  // errCut: what was read is not in the leader's log
}

// fetch asks one broker for what comes after the wanted positions; it waits up to wait ms when there is nothing.
func (b *brokers) fetch(ctx context.Context, at *placement, broker int32, from []wanted, wait int32) ([]portion, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = wait, 1, answerBytes
	req.SessionEpoch = -1 // no session: 50 positions are cheap to tell each time
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = b.topic, at.topicID
	for _, w := range from {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition = w.partition
		part.CurrentLeaderEpoch = at.leaders[w.partition].epoch
		part.FetchOffset = w.offset
		part.LastFetchedEpoch = w.epoch
		part.PartitionMaxBytes = portionBytes
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	answer, err := b.client.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("broker %d: %w", broker, err)
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if !ok {
		return nil, fmt.Errorf("broker %d did not answer what it was asked", broker)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("broker %d: %w", broker, err)
	}
	var portions []portion
	for _, t := range resp.Topics {
		if t.TopicID != at.topicID && t.Topic != b.topic {
			return nil, fmt.Errorf("broker %d answered for another topic", broker)
		}
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			if err == nil && p.DivergingEpoch.EndOffset >= 0 {
				err = errCut
			}
			portions = append(portions, portion{p.Partition, p.HighWatermark, p.RecordBatches, err})
		}
	}
	return portions, nil
}
