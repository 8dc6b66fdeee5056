package cluster

import (
	"context"
	"slices"
	"time"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ofPartitions is a round about some partitions of watched topics only, and gives the last View with their new state.
// It takes six requests, where a full round lists all topics and sends five requests to each broker. nil: a full round
// is needed, because a topic was not watched in the last one, is gone or denied, or because brokers do not answer.
func (r *rounds) ofPartitions(ctx context.Context, last *View, watched map[segment.UUID]string, only []PartitionID) *View {
	if last == nil || r.version < idVersion {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	at := time.Now()
	topics := map[segment.UUID][]*partition{}
	for _, id := range only {
		_, wanted := watched[id.Topic]
		p := r.topics[id.Topic][id.Partition]
		if !wanted || p == nil || r.missing[id.Topic] != nil {
			return nil
		}
		topics[id.Topic] = append(topics[id.Topic], p)
	}
	if !r.updateLeaders(ctx, topics) {
		return nil
	}
	brokers := map[int32][]*partition{}
	for _, parts := range topics {
		for _, p := range parts {
			if p.now.Leader >= 0 {
				brokers[p.now.Leader] = append(brokers[p.now.Leader], p)
			}
		}
	}
	// Metrics and log are about full rounds.
	unanswered, failure := r.unanswered, r.firstFailure
	r.requestBounds(ctx, brokers, at)
	r.walkLineages(ctx, at)
	r.unanswered, r.firstFailure = unanswered, failure

	v := *last
	v.Newest, v.Topics = at, slices.Clone(last.Topics)
	for i := range v.Topics {
		t := &v.Topics[i]
		parts := topics[t.ID]
		if parts == nil {
			continue
		}
		t.Partitions = slices.Clone(t.Partitions)
		for j := range t.Partitions {
			for _, p := range parts {
				if p.now.Number == t.Partitions[j].Number {
					now := p.now
					now.Lineage, now.LineagePending = p.lineage.shown(p, at)
					t.Partitions[j] = now
				}
			}
		}
	}
	return &v
}

// updateLeaders asks for the leaders of partitions by their topics' ids; false: a topic has an error, another name, or
// not all of the partitions.
func (r *rounds) updateLeaders(ctx context.Context, topics map[segment.UUID][]*partition) bool {
	req := kmsg.NewPtrMetadataRequest()
	for id := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = id
		req.Topics = append(req.Topics, rt)
	}
	resp, err := r.brokers.metadata(ctx, req)
	if err != nil || len(resp.Topics) != len(topics) {
		return false
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		parts := topics[t.TopicID]
		if parts == nil || kerr.ErrorForCode(t.ErrorCode) != nil || t.Topic == nil || *t.Topic != parts[0].topic {
			return false
		}
		for _, p := range parts {
			j := slices.IndexFunc(t.Partitions, func(m kmsg.MetadataResponseTopicPartition) bool { return m.Partition == p.now.Number })
			if j < 0 {
				return false
			}
			m := withLeader(&t.Partitions[j])
			p.updateLeader(&m, r.metrics.reject)
		}
	}
	return true
}
