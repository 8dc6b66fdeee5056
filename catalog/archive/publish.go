package archive

import (
	"context"

	"coldtap/segment"
	"coldtap/tier"
)

// applyBatch is how many changes are published together at least, whole partitions each: each publication costs time
// for every topic of the tier, and changes take memory until they are published.
const applyBatch = 8192

// publishListing publishes the partitions in which a listing of the bucket changed something. After an error the
// partitions stay marked, and the next listing publishes them.
func (a *Archive) publishListing(ctx context.Context, s *scan) (news bool, err error) {
	all, err := a.resolveChanged(s)
	if err != nil {
		return false, err
	}
	var wanted []*resolution
	for _, u := range all {
		if u.lacksLineage() {
			wanted = append(wanted, u)
		}
	}
	if len(wanted) > 0 {
		if err := s.readLineages(ctx, wanted); err != nil {
			return false, err
		}
	}
	news = len(all) > 0
	for len(all) > 0 {
		all = a.publishBatch(all, s.number)
	}
	return news, nil
}

// resolveChanged ends a listing of the bucket and gives the partitions in which something changed.
func (a *Archive) resolveChanged(s *scan) (all []*resolution, err error) {
	k := a.inventory
	k.mu.Lock()
	defer k.mu.Unlock()
	s.finish()
	chosen := a.opt.Cluster
	if chosen == "" {
		chosen = a.ClusterID()
	}
	now, err := k.decideNames(chosen)
	if err != nil {
		return nil, err
	}
	if now.cluster != a.ClusterID() {
		a.cluster.Store(&now.cluster)
	}
	k.touchRenamed(a.names, now)
	a.names = now
	for id, p := range k.partitions {
		if p.touched {
			all = append(all, k.resolve(id, now))
		}
	}
	return all, nil
}

// publishBatch applies the changes of the first partitions, of the listing of that number, and gives those that are
// left.
func (a *Archive) publishBatch(all []*resolution, number uint32) (left []*resolution) {
	k := a.inventory
	k.mu.Lock()
	var batch []tier.Change
	done := 0
	for ; done < len(all) && len(batch) < applyBatch; done++ {
		u := all[done]
		if k.partition(u.id).listedAlone > number {
			all[done] = nil // a listing of the partition alone is newer, and was published already
			continue
		}
		batch = append(batch, u.changes()...)
	}
	gone := a.apply(all[:done], batch)
	k.mu.Unlock()
	a.notifyDeleted(gone)
	clear(all[:done]) // frees what is not needed any more, since the rest takes a while
	return all[done:]
}

// apply publishes the changes of partitions, and gives the segments whose bytes must leave all caches; the caller holds
// the lock.
func (a *Archive) apply(resolved []*resolution, changes []tier.Change) (gone []*tier.Segment) {
	before := a.Snapshot()
	a.tier.Apply(changes...)
	a.metrics.Applied(len(changes), nil)
	after := a.Snapshot()
	for _, u := range resolved {
		if u == nil {
			continue
		}
		p := a.inventory.partition(u.id)
		if view, ok := after.Partition(u.id); ok {
			u.keepTierCopies(view)
			u.reportProblems(view)
		}
		gone = append(gone, removed(u.id, before, after, p.rewritten)...)
		p.topic, p.touched, p.rewritten, p.tally = u.topic, false, nil, nil
		p.resolved++
		if len(u.tally.counts) > 0 {
			p.tally = &u.tally
		}
		if u.topic != "" {
			a.inventory.everNamed[u.id.Topic] = u.topic
		}
	}
	return gone
}

// keepTierCopies keeps the tier's copy of each segment, so that memory holds one.
func (u *resolution) keepTierCopies(view *tier.Partition) {
	for _, e := range u.entries {
		if s, ok := view.Segment(e.seg.ID); ok {
			e.seg = s
		}
	}
}

// removed lists the segments of a partition that left the view, and those whose manifests were rewritten: the objects
// beside such a manifest may be other bytes, even of the same sizes. A segment that was known from the snapshot file
// only counts too, since a cache on disk may be as old as the file.
func removed(id tier.PartitionID, before, after *tier.Snapshot, rewritten []segment.UUID) (gone []*tier.Segment) {
	find := func(view *tier.Snapshot) func(segment.UUID) (*tier.Segment, bool) {
		if p, ok := view.Partition(id); ok {
			return p.Segment
		}
		return func(segment.UUID) (*tier.Segment, bool) { return nil, false }
	}
	is := find(after)
	seen := make(map[segment.UUID]bool, len(rewritten))
	for _, id := range rewritten {
		if s, ok := is(id); ok && !seen[id] {
			gone = append(gone, s)
		}
		seen[id] = true
	}
	if old, ok := before.Partition(id); ok {
		for _, was := range old.Segments(true) {
			if _, ok := is(was.ID); !ok {
				gone = append(gone, was)
			}
		}
	}
	return gone
}

func (a *Archive) notifyDeleted(gone []*tier.Segment) {
	if a.opt.OnDelete == nil {
		return
	}
	for _, s := range gone {
		a.opt.OnDelete(s)
	}
}
