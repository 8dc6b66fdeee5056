package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	// askTimeout bounds what Run asks; a client may be waiting behind it.
	askTimeout = 5 * time.Second
	// firstPause and maxPause are between tries of Run while the cluster does not answer.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// RoundGrace is what a round of asking the cluster may take beyond the interval at which they begin.
	RoundGrace = 250 * time.Millisecond
)

// ask has Run ask the cluster.
func (o *Observer) ask() {
	select {
	case o.wanted <- struct{}{}:
	default:
	}
}

// Run asks the cluster whenever the set of topics has changed, until it answers, and until ctx ends. That the cluster
// does not answer is logged by its client.
func (o *Observer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wanted:
		}
		for pause := firstPause; ; pause = min(2*pause, maxPause) {
			asking, cancel := context.WithTimeout(ctx, askTimeout)
			err := o.Ask(asking)
			cancel()
			if err == nil || ctx.Err() != nil {
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// Ask has the cluster look at the tier's topics, or at some partitions of them only, and observes what it says.
func (o *Observer) Ask(ctx context.Context, only ...tier.PartitionID) error {
	t, watched := o.watched()
	for {
		o.opt.Cluster.Watch(watched)
		err := error(nil)
		if len(only) == 0 {
			err = o.opt.Cluster.Refresh(ctx)
		} else {
			err = o.opt.Cluster.RefreshOnly(ctx, partitionsOf(only)...)
		}
		if err != nil {
			return err
		}
		o.Observe(o.opt.Cluster.View())
		// The answer may have shown that a name belongs to another id by now, of which the bounds are wanted too.
		_, now := o.watched()
		if !grows(watched, now) {
			break
		}
		watched, only = now, nil
	}
	if len(only) > 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tier == t && t != nil { // else another tier was published meanwhile, which is still to be asked for
		o.answered.Store(t)
	}
	return nil
}

func partitionsOf(ids []tier.PartitionID) []cluster.PartitionID {
	list := make([]cluster.PartitionID, len(ids))
	for i, id := range ids {
		list[i] = cluster.PartitionID(id)
	}
	return list
}

// watched gives the tier, the ids of its topics, and those that carry one of their names, with their names.
func (o *Observer) watched() (*tier.Tier, map[segment.UUID]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ids := make(map[segment.UUID]string, len(o.topics))
	names := make(map[string]bool, len(o.topics))
	for id, t := range o.topics {
		names[t.Name] = true
		ids[id] = t.Name
	}
	if view := o.newest.Load(); view != nil {
		for i := range view.Topics {
			if t := &view.Topics[i]; names[t.Name] {
				ids[t.ID] = t.Name
			}
		}
	}
	return o.tier, ids
}

// grows says whether now has an id that before has not.
func grows(before, now map[segment.UUID]string) bool {
	for id := range now {
		if _, ok := before[id]; !ok {
			return true
		}
	}
	return false
}

// Since says why the bounds that the tier has of a partition are not from after began, nil if they are. A partition or
// topic that the cluster does not have needs no leader's answer, nor does one of which the tier holds nothing.
func (o *Observer) Since(of tier.PartitionID, began time.Time) error {
	v := o.newest.Load()
	if v == nil {
		return errors.New("the cluster has not been seen yet")
	}
	topic, ok := v.Topic(of.Topic)
	switch v.Missing[of.Topic] {
	case cluster.TopicDenied:
		return denies(o.nameOf(of.Topic))
	case cluster.TopicUnclear:
		return unclear(o.nameOf(of.Topic), of.Topic)
	}
	if !ok || !o.isWatched(topic.ID, topic.Name) {
		return nil
	}
	p := partitionOf(topic, of.Partition)
	switch {
	case p == nil:
		return nil
	case p.Leader < 0:
		return fmt.Errorf("%s-%d has no leader", topic.Name, p.Number)
	case p.BoundsAt.Before(began):
		return fmt.Errorf("the leader of %s-%d, broker %d, does not tell its bounds", topic.Name, p.Number, p.Leader)
	case p.LogStart < 0 || p.HighWatermark < 0:
		return fmt.Errorf("the leader of %s-%d, broker %d, tells bounds that cannot be true", topic.Name, p.Number, p.Leader)
	case p.LineagePending:
		return fmt.Errorf("the leader of %s-%d, broker %d, has not told the leader epochs of its log",
			topic.Name, p.Number, p.Leader)
	}
	return nil
}

// Recent says that a partition's leader reported its bounds after a moment.
func (o *Observer) Recent(of tier.PartitionID, after time.Time) bool {
	v := o.newest.Load()
	if v == nil {
		return false
	}
	topic, ok := v.Topic(of.Topic)
	if !ok {
		return false
	}
	p := partitionOf(topic, of.Partition)
	return p != nil && p.BoundsAt.After(after)
}

// partitionOf gives a partition of a topic, nil when it has none of that number.
func partitionOf(t *cluster.Topic, number int32) *cluster.Partition {
	i := slices.IndexFunc(t.Partitions, func(p cluster.Partition) bool { return p.Number == number })
	if i < 0 {
		return nil
	}
	return &t.Partitions[i]
}

// isWatched says whether the cluster is asked for the bounds of a topic.
func (o *Observer) isWatched(id segment.UUID, name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.topics[id]
	return known || o.observed.owners[name] == id
}

// nameOf is for errors.
func (o *Observer) nameOf(id segment.UUID) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return cmp.Or(o.topics[id].Name, o.observed.names[id], id.String())
}
