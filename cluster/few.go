package cluster

import (
	"context"
	"slices"
	"time"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// roundOf asks for a few partitions of watched topics alone, and gives the View with what came of it: six requests
// where a round about everything sends five to each broker and a list of all topics. nil: it takes that round to tell,
// because a topic was not watched in the last one, is gone or may not be described, or because brokers do not answer.
func (a *asker) roundOf(ctx context.Context, last *View, watched map[segment.UUID]string, only []PartitionID) *View {
	if last == nil || a.version < idVersion {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestRound)
	defer cancel()
	at := time.Now()
	topics := map[segment.UUID][]*partition{}
	for _, id := range only {
		_, wanted := watched[id.Topic]
		p := a.topics[id.Topic][id.Partition]
		if !wanted || p == nil || a.missing[id.Topic] != nil {
			return nil
		}
		topics[id.Topic] = append(topics[id.Topic], p)
	}
	if !a.elected(ctx, topics) {
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
	// What is counted and logged is how rounds about everything go.
	unanswered, failure := a.unanswered, a.firstFailure
	a.askBounds(ctx, brokers, at)
	a.walkLineages(ctx, at)
	a.unanswered, a.firstFailure = unanswered, failure

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

// elected asks who leads the partitions now, by their topics' ids; false when the answer is not simply that.
func (a *asker) elected(ctx context.Context, topics map[segment.UUID][]*partition) bool {
	req := kmsg.NewPtrMetadataRequest()
	for id := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = id
		req.Topics = append(req.Topics, rt)
	}
	resp, err := a.brokers.metadata(ctx, req)
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
			m := bare(&t.Partitions[j])
			p.elect(&m, a.metrics.reject)
		}
	}
	return true
}
