package observe

import (
	"context"
	"slices"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

// explainTimeout is how long records that empty a partition may wait for the cluster to say why. Reads go on
// meanwhile as they do before a record has come, which may take as long.
const explainTimeout = 2 * time.Second

// emptied gives the partitions in which records leave nothing to read.
func emptied(view *tier.Snapshot, changes []tier.Change) (empty []tier.PartitionID) {
	deletes := map[tier.PartitionID]int{}
	for _, c := range changes {
		u, ok := c.(tier.SegmentUpdated)
		if !ok || u.State != tier.DeleteStarted {
			continue
		}
		p, ok := view.Partition(u.Partition)
		if !ok {
			continue
		}
		if s, ok := p.Segment(u.ID); ok && s.State == tier.CopyFinished {
			if deletes[u.Partition]++; deletes[u.Partition] == p.Finished() {
				empty = append(empty, u.Partition)
			}
		}
	}
	return empty
}

// explain has the cluster asked why partitions are emptied, before the records that do it are applied: the topic was
// deleted, or the log start has moved past what was tiered. So a deletion is seen in one step, and not for a second as
// an empty tier whose start and local start contradict each other. A cluster that does not answer in time is not waited
// for.
func (o *Observer) explain(ctx context.Context, empty []tier.PartitionID) {
	if len(empty) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	for o.Ask(ctx, empty...) == nil {
		view := o.newest.Load()
		if !slices.ContainsFunc(empty, func(of tier.PartitionID) bool { return !explained(view, of) }) {
			return
		}
	}
}

// explained says whether a view fits a partition of which nothing is tiered any more: it is gone, or what is left of
// its log begins with the local log.
func explained(view *cluster.View, of tier.PartitionID) bool {
	t, ok := view.Topic(of.Topic)
	if !ok || view.Missing[of.Topic] != 0 {
		return true
	}
	p := partitionOf(t, of.Partition)
	return p == nil || p.Leader < 0 || p.LogStart >= p.LocalStart
}

// forgetDeleted appends to changes what makes topics vanish as a whole of which the cluster says that they are gone and
// a record that their segments are being deleted: deletes come partition by partition. A topic that is gone without any
// goes on being served, see Observe. Under the lock.
func (o *Observer) forgetDeleted(changes []tier.Change, view *tier.Snapshot) []tier.Change {
	seen := o.newest.Load()
	if seen == nil || len(seen.Missing) == 0 {
		return changes
	}
	done := map[segment.UUID]bool{}
	for _, c := range changes {
		u, ok := c.(tier.SegmentUpdated)
		id := u.Partition.Topic
		deletes := ok && (u.State == tier.DeleteStarted || u.State == tier.DeleteFinished)
		if !deletes || done[id] || seen.Missing[id] != cluster.TopicGone {
			continue
		}
		done[id] = true
		changes = o.forgetTopic(changes, view, id)
	}
	return changes
}

// gone keeps what is left of a topic that the cluster no longer has, without the brokers' part of the bounds, or
// forgets it when no segment is left or they are being deleted.
func (o *Observer) gone(changes []tier.Change, view *tier.Snapshot, id segment.UUID) []tier.Change {
	topic, _ := view.TopicByID(id)
	left, deleting := false, false
	for _, number := range topic.Partitions {
		p, _ := view.Partition(tier.PartitionID{Topic: id, Partition: number})
		all := p.Segments(true)
		left = left || len(all) > 0
		deleting = deleting || slices.ContainsFunc(all, func(s *tier.Segment) bool { return s.State == tier.DeleteStarted })
	}
	if !left || deleting {
		return o.forgetTopic(changes, view, id)
	}
	for _, number := range topic.Partitions {
		of := tier.PartitionID{Topic: id, Partition: number}
		if was, ok := o.observed.bounds[of]; ok && was.HighWatermark >= 0 {
			now := tier.Bounds{Start: was.Start, LocalStart: -1, HighWatermark: -1, LastStable: -1}
			o.observed.bounds[of] = now
			changes = append(changes, tier.BoundsChanged{Partition: of, Bounds: now})
		}
	}
	return changes
}

// forgetTopic appends what takes a topic out of the view.
func (o *Observer) forgetTopic(changes []tier.Change, view *tier.Snapshot, id segment.UUID) []tier.Change {
	topic, _ := view.TopicByID(id)
	for _, number := range topic.Partitions {
		changes = append(changes, tier.PartitionForgotten{Partition: tier.PartitionID{Topic: id, Partition: number}})
	}
	o.observed.forget(changes)
	delete(o.topics, id)
	delete(o.observed.names, id)
	return changes
}
