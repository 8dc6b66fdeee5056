package fetch

import (
	"context"
	"time"

	"coldtap/segment"
	"coldtap/tier"
)

// findTopic gives the topic of a name and id, of which one may be zero; with both, both must be the topic's.
func findTopic(snap *tier.Snapshot, name string, id segment.UUID) (tier.Topic, error) {
	if id.IsZero() {
		if t, ok := snap.TopicByName(name); ok {
			return t, nil
		}
		return tier.Topic{}, failure(TopicUnknown, nil, "topic %q is not in the tier", name)
	}
	if t, ok := snap.TopicByID(id); ok && (name == "" || name == t.Name) {
		return t, nil
	}
	if name == "" {
		return tier.Topic{}, failure(TopicUnknown, nil, "no topic has id %s", id)
	}
	return tier.Topic{}, failure(TopicUnknown, nil, "topic %q with id %s is not in the tier", name, id)
}

// includeTimeout is how long a look-up of a topic that the tier holds nothing of waits for the brokers.
const includeTimeout = 5 * time.Second

// lookUp is findTopic in the newest snapshot, and with a live cluster in what the cluster has.
func (s *Service) lookUp(name string, id segment.UUID) (*tier.Snapshot, tier.Topic, error) {
	snap := s.cfg.Source.Snapshot()
	topic, err := findTopic(snap, name, id)
	live, ok := s.cfg.Source.(Live)
	if err == nil || !ok {
		return snap, topic, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), includeTimeout)
	defer cancel()
	if err := live.Include(ctx, name, id); err != nil {
		return nil, tier.Topic{}, failure(NotReady, err, "the topic is not in the tier, and the cluster was not asked")
	}
	snap = s.cfg.Source.Snapshot()
	topic, err = findTopic(snap, name, id)
	return snap, topic, err
}

// find resolves topic and partition in the newest snapshot. With a partition beside the error, it is there and its
// bounds are not known.
func (s *Service) find(name string, id segment.UUID, partition int32) (*tier.Snapshot, tier.Topic, *tier.Partition, error) {
	if err := s.Ready(); err != nil {
		return nil, tier.Topic{}, nil, err
	}
	snap, topic, err := s.lookUp(name, id)
	if err != nil {
		return nil, tier.Topic{}, nil, err
	}
	of := tier.PartitionID{Topic: topic.ID, Partition: partition}
	p, ok := snap.Partition(of)
	if unsure := snap.Certainty(of).Reason; unsure != nil {
		return snap, topic, p, failure(NotReady, unsure, "the bounds of partition %d of topic %q are not known", partition, topic.Name)
	}
	if !ok {
		return nil, tier.Topic{}, nil, failure(PartitionUnknown, nil, "topic %q has no partition %d in the tier", topic.Name, partition)
	}
	return snap, topic, p, nil
}

func boundsOf(p *tier.Partition) Bounds {
	b := p.Bounds()
	return Bounds{Start: b.Start, LocalStart: b.LocalStart, TieredEnd: p.TieredEnd(), LastStable: b.LastStable, HighWatermark: b.HighWatermark}
}
