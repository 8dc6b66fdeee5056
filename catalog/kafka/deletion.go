package kafka

import (
	"context"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

// explainPatience is how long records that empty a partition may wait for the cluster's word on why. Reads go on
// meanwhile as they do before a record has come, which may take as long.
const explainPatience = 2 * time.Second

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
// an empty tier whose start and local start contradict each other. A cluster that does not tell in time is not waited
// for.
func (f *Follower) explain(ctx context.Context, empty []tier.PartitionID) {
	if len(empty) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	for f.ask(ctx, empty...) == nil {
		seen := f.seen.Load()
		plain := true
		for _, of := range empty {
			plain = plain && explained(seen, of)
		}
		if plain {
			return
		}
	}
}

// explained says whether a view fits a partition of which nothing is tiered any more: it is gone, or what is left of
// its log begins with the local log.
func explained(seen *cluster.View, of tier.PartitionID) bool {
	t, ok := seen.Topic(of.Topic)
	if !ok || seen.Missing[of.Topic] != 0 {
		return true
	}
	for i := range t.Partitions {
		if p := &t.Partitions[i]; p.Number == of.Partition {
			return p.Leader < 0 || p.LogStart >= p.LocalStart
		}
	}
	return true
}

// forgetDeleted appends to changes what makes topics vanish as a whole of which the cluster says that they are gone and
// a record that their segments are being deleted: deletes come partition by partition. A topic that is gone without any
// goes on being served, see Observe. Under the lock.
func (f *Follower) forgetDeleted(changes []tier.Change, view *tier.Snapshot) []tier.Change {
	seen := f.seen.Load()
	if seen == nil || len(seen.Missing) == 0 {
		return changes
	}
	done := map[segment.UUID]bool{}
	for _, c := range changes {
		u, ok := c.(tier.SegmentUpdated)
		id := u.Partition.Topic
		if !ok || done[id] || u.State != tier.DeleteStarted && u.State != tier.DeleteFinished || seen.Missing[id] != cluster.TopicGone {
			continue
		}
		done[id] = true
		changes = f.forgetTopic(changes, view, id)
	}
	return changes
}

// forgetTopic appends what takes a topic out of the view.
func (f *Follower) forgetTopic(changes []tier.Change, view *tier.Snapshot, id segment.UUID) []tier.Change {
	topic, _ := view.TopicByID(id)
	for _, number := range topic.Partitions {
		changes = append(changes, tier.PartitionForgotten{Partition: tier.PartitionID{Topic: id, Partition: number}})
	}
	f.bounds.forget(changes)
	delete(f.known, id)
	delete(f.bounds.named, id)
	return changes
}

// isDeleting says whether the brokers have begun to delete a topic's segments.
func isDeleting(view *tier.Snapshot, topic tier.Topic) bool {
	for _, number := range topic.Partitions {
		p, ok := view.Partition(tier.PartitionID{Topic: topic.ID, Partition: number})
		if !ok {
			continue
		}
		for _, s := range p.Segments(true) {
			if s.State == tier.DeleteStarted {
				return true
			}
		}
	}
	return false
}
