package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataTimeout bounds the question where one topic's partitions are led.
const metadataTimeout = 5 * time.Second

// staleAnswers is how often in a row Metadata with an older leader epoch is ignored. It is five in clients, too.
const staleAnswers = 5

// Leader leads a partition.
type Leader struct {
	Broker int32 // -1 = none
	Epoch  int32 // -1 = unknown

	stale int // Metadata answers in a row that had an older leader epoch
}

// update takes over what Metadata says, unless it is older than what is known: then it comes from a broker that lags.
func (l *Leader) update(broker, epoch int32, reject func(reason string)) {
	if epoch < l.Epoch && l.stale < staleAnswers {
		l.stale++
		reject(rejectStale)
		return
	}
	*l = Leader{Broker: broker, Epoch: epoch}
}

// Leaders are the leaders of one topic at one moment. Immutable.
type Leaders struct {
	ClusterID  string
	Topic      string
	TopicID    segment.UUID
	Partitions []Leader // by partition, at least one
}

// Equal says whether requests about the topic go the same way.
func (l *Leaders) Equal(o *Leaders) bool {
	return l.TopicID == o.TopicID && l.ClusterID == o.ClusterID &&
		slices.EqualFunc(l.Partitions, o.Partitions, func(a, b Leader) bool { return a.Broker == b.Broker && a.Epoch == b.Epoch })
}

// ByBroker groups partitions by their leaders; those without one are under -1.
func (l *Leaders) ByBroker() map[int32][]int32 {
	groups := map[int32][]int32{}
	for number, p := range l.Partitions {
		groups[p.Broker] = append(groups[p.Broker], int32(number))
	}
	return groups
}

// ErrNoTopic says that the cluster has no topic of a name.
var ErrNoTopic = errors.New("the cluster has no such topic")

// Leaders asks where a topic's partitions are led. last is the answer before, nil for none: leader epochs that are
// older than its are ignored as in a View. Beside *Error it fails with ErrNoTopic.
func (b *Brokers) Leaders(ctx context.Context, topic string, last *Leaders) (*Leaders, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, failed := b.metadata(ctx, req)
	if failed != nil {
		return nil, failed
	}
	op := "metadata of topic " + topic
	if len(resp.Topics) != 1 {
		return nil, &Error{Kind: Answer, Op: op, Err: fmt.Errorf("%d topics were answered instead of one", len(resp.Topics))}
	}
	t := &resp.Topics[0]
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition), err == nil && len(t.Partitions) == 0:
		return nil, ErrNoTopic
	case err != nil:
		return nil, asError(op, err)
	}
	now := &Leaders{Topic: topic, TopicID: t.TopicID, Partitions: make([]Leader, len(t.Partitions))}
	if resp.ClusterID != nil {
		now.ClusterID = *resp.ClusterID
	}
	seen := make([]bool, len(t.Partitions))
	for _, p := range t.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(seen) || seen[p.Partition] {
			return nil, &Error{Kind: Answer, Op: op, Err: fmt.Errorf("partition %d of %d was answered out of place", p.Partition, len(seen))}
		}
		seen[p.Partition] = true
		l := Leader{Broker: -1, Epoch: -1}
		if last != nil && last.ClusterID == now.ClusterID && last.TopicID == now.TopicID && int(p.Partition) < len(last.Partitions) {
			l = last.Partitions[p.Partition]
		}
		l.update(max(p.Leader, -1), max(p.LeaderEpoch, -1), b.reject)
		now.Partitions[p.Partition] = l
	}
	return now, nil
}
