package kafka

import (
	"context"
	"slices"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

// told is what the cluster's views have told the tier so far, so that a view that says the same again costs nothing.
type told struct {
	bounds  map[tier.PartitionID]tier.Bounds
	heard   map[tier.PartitionID]bool // log start and high watermark were told at least once
	pending map[tier.PartitionID]bool // cut until the leader of a new epoch tells its leader epochs
	lineage map[tier.PartitionID][]segment.EpochStart
	owners  map[string]segment.UUID
	named   map[segment.UUID]string
	states  map[segment.UUID]topicState // as the tier has them
}

func newTold() told {
	return told{
		map[tier.PartitionID]tier.Bounds{}, map[tier.PartitionID]bool{}, map[tier.PartitionID]bool{}, map[tier.PartitionID][]segment.EpochStart{},
		map[string]segment.UUID{}, map[segment.UUID]string{}, map[segment.UUID]topicState{},
	}
}

// Observe takes over what the cluster says of the topics that the tier holds something of: bounds and lineage of all
// their partitions, and which id has a name now. A topic that is gone from the cluster is forgotten as soon as a record
// says that its segments are being deleted; without such a record it keeps what it has, but loses its name to a topic
// that was created after it. One that is missing for another reason (cluster.TopicDenied, say) keeps everything. Views
// that are older than one that was observed change nothing.
func (f *Follower) Observe(v *cluster.View) {
	if v == nil {
		return
	}
	f.mu.Lock()
	if seen := f.seen.Load(); seen != nil && newest(v).Before(newest(seen)) {
		f.mu.Unlock()
		return
	}
	f.seen.Store(v)
	var withdrawn []*tier.Segment
	if f.published.Load() {
		withdrawn = f.tell(f.view.Load())
	}
	f.mu.Unlock()
	f.deleted(withdrawn...)
}

// newest is when the last requests behind a view were sent.
func newest(v *cluster.View) time.Time {
	if v.Newest.After(v.At) {
		return v.Newest
	}
	return v.At
}

// tell applies the newest view to a tier, and gives the segments that are not to be read any more; under the lock.
func (f *Follower) tell(t *tier.Tier) (withdrawn []*tier.Segment) {
	seen := f.seen.Load()
	if seen == nil {
		return nil
	}
	names := make(map[string]bool, len(f.known))
	for _, s := range f.known {
		names[s.name] = true
	}
	var changes []tier.Change
	owners := make(map[string]segment.UUID, len(names))
	present := make(map[segment.UUID]bool, len(f.known))
	for i := range seen.Topics {
		topic := &seen.Topics[i]
		if names[topic.Name] {
			owners[topic.Name] = topic.ID
		} else if _, ok := f.known[topic.ID]; !ok {
			continue
		}
		present[topic.ID] = true
		changes = f.bounds.topic(changes, topic, newest(seen))
	}
	for name := range names {
		id := owners[name]
		told := len(changes)
		changes = f.bounds.owner(changes, name, id)
		if _, ok := f.known[id]; !ok && !id.IsZero() && len(changes) > told {
			f.wake() // the name's topic was made anew, and nobody watches the new one yet
		}
	}
	snapshot := t.Snapshot()
	for id := range f.known {
		if !present[id] && seen.Missing[id] == cluster.TopicGone {
			changes = f.gone(changes, snapshot, id)
		}
	}
	for id := range f.bounds.named {
		if _, ok := f.known[id]; !ok && !present[id] {
			changes = f.gone(changes, snapshot, id)
		}
	}
	changes = f.forgetIncluded(changes, snapshot)
	f.bounds.unpend(seen)
	changes = f.certainty(changes)
	if len(changes) > 0 {
		out := t.ApplyAll(changes)
		f.metrics.Applied(len(changes), out.Rejected)
		withdrawn = out.Withdrawn
	}
	return withdrawn
}

// unpend takes back that partitions are pending which the view shows whole again.
func (b *told) unpend(seen *cluster.View) {
	if len(b.pending) == 0 {
		return
	}
	still := make(map[tier.PartitionID]bool, len(b.pending))
	for i := range seen.Topics {
		for j := range seen.Topics[i].Partitions {
			id := tier.PartitionID{Topic: seen.Topics[i].ID, Partition: seen.Topics[i].Partitions[j].Number}
			if b.pending[id] && seen.Topics[i].Partitions[j].LineagePending {
				still[id] = true
			}
		}
	}
	b.pending = still
}

// topic appends what is new of a topic that exists; at is the view's.
func (b *told) topic(changes []tier.Change, topic *cluster.Topic, at time.Time) []tier.Change {
	if b.named[topic.ID] != topic.Name {
		b.named[topic.ID] = topic.Name
		changes = append(changes, tier.TopicSeen{ID: topic.ID, Name: topic.Name})
	}
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		id := tier.PartitionID{Topic: topic.ID, Partition: p.Number}
		if p.LineagePending {
			b.pending[id] = true
		}
		now := tier.Bounds{Start: p.LogStart, LocalStart: p.LocalStart, HighWatermark: p.HighWatermark, LastStable: p.LastStable}
		if old, ok := b.bounds[id]; p.LogStart >= 0 && (!ok || old != now) {
			b.bounds[id] = now
			if p.HighWatermark >= 0 {
				b.heard[id] = true
			}
			changes = append(changes, tier.BoundsChanged{Partition: id, Bounds: now})
		}
		if len(p.Lineage) > 0 && !slices.Equal(b.lineage[id], p.Lineage) {
			b.lineage[id] = p.Lineage
			changes = append(changes, tier.LineageChanged{Partition: id, Epochs: p.Lineage})
		}
		// A leader that answers and has no lineage to tell takes back what was told.
		if _, ok := b.lineage[id]; ok && len(p.Lineage) == 0 && p.BoundsAt.Equal(at) {
			delete(b.lineage, id)
			changes = append(changes, tier.LineageChanged{Partition: id})
		}
	}
	return changes
}

// forget drops what was told of partitions that records said are gone, and says whether there were any: while the
// cluster has one, its next view tells it.
func (b *told) forget(changes []tier.Change) (some bool) {
	for _, c := range changes {
		if gone, ok := c.(tier.PartitionForgotten); ok {
			some = true
			delete(b.bounds, gone.Partition)
			delete(b.heard, gone.Partition)
			delete(b.pending, gone.Partition)
			delete(b.lineage, gone.Partition)
		}
	}
	return some
}

func (b *told) owner(changes []tier.Change, name string, id segment.UUID) []tier.Change {
	if b.owners[name] == id {
		return changes
	}
	b.owners[name] = id
	return append(changes, tier.TopicOwned{Name: name, ID: id})
}

// gone keeps what is left of a topic that the cluster no longer has, without the brokers' part of the bounds, or
// forgets it when no segment is left or they are being deleted.
func (f *Follower) gone(changes []tier.Change, snapshot *tier.Snapshot, id segment.UUID) []tier.Change {
	topic, _ := snapshot.TopicByID(id)
	left := false
	for _, number := range topic.Partitions {
		p, _ := snapshot.Partition(tier.PartitionID{Topic: id, Partition: number})
		left = left || len(p.Segments(true)) > 0
	}
	if !left || isDeleting(snapshot, topic) {
		return f.forgetTopic(changes, snapshot, id)
	}
	for _, number := range topic.Partitions {
		of := tier.PartitionID{Topic: id, Partition: number}
		if was, ok := f.bounds.bounds[of]; ok && was.HighWatermark >= 0 {
			now := tier.Bounds{Start: was.Start, LocalStart: -1, HighWatermark: -1, LastStable: -1}
			f.bounds.bounds[of] = now
			changes = append(changes, tier.BoundsChanged{Partition: of, Bounds: now})
		}
	}
	return changes
}

// wake has the cluster asked.
func (f *Follower) wake() {
	select {
	case f.consult <- struct{}{}:
	default:
	}
}

// consultCluster asks the cluster whenever the set of topics has changed, until it answers. That it does not is logged
// by the cluster's client.
func (f *Follower) consultCluster(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.consult:
		}
		for pause := firstPause; ; pause = min(2*pause, maxPause) {
			ask, cancel := context.WithTimeout(ctx, askTimeout)
			err := f.ask(ask)
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

// ask has the cluster look at the tier's topics, or at some partitions of them only, and observes what it says.
func (f *Follower) ask(ctx context.Context, only ...tier.PartitionID) error {
	view := f.view.Load()
	watched := f.interesting()
	for {
		f.opt.Cluster.Watch(watched)
		err := error(nil)
		if len(only) == 0 {
			err = f.opt.Cluster.Refresh(ctx)
		} else {
			err = f.opt.Cluster.RefreshOnly(ctx, partitionsOf(only)...)
		}
		if err != nil {
			return err
		}
		f.Observe(f.opt.Cluster.View())
		// The answer may have shown that a name belongs to another id by now, of which the bounds are wanted too.
		now := f.interesting()
		if !grows(watched, now) {
			break
		}
		watched, only = now, nil
	}
	if len(only) > 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view.Load() == view { // else the replay began anew meanwhile, and its view is still to be asked for
		f.asked.Store(view)
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

// interesting gives the ids that the tier knows, and those that carry a name it knows, with their names.
func (f *Follower) interesting() map[segment.UUID]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make(map[segment.UUID]string, len(f.known))
	names := make(map[string]bool, len(f.known))
	for id, s := range f.known {
		names[s.name] = true
		ids[id] = s.name
	}
	if seen := f.seen.Load(); seen != nil {
		for i := range seen.Topics {
			if t := &seen.Topics[i]; names[t.Name] {
				ids[t.ID] = t.Name
			}
		}
	}
	return ids
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
