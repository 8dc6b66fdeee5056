package archive

import (
	"context"

	"coldtap/segment"
	"coldtap/tier"
)

// applyBatch is how many changes are published together at least, whole partitions each: publishing costs time for each
// topic, and changes memory until they are.
const applyBatch = 8192

// settle brings the partitions in which something changed into the view. On error they are settled with the next
// listing.
func (a *Archive) settle(ctx context.Context, s *scan) (news bool, err error) {
	all, err := a.unsettled(s)
	if err != nil {
		return false, err
	}
	var wanted []*unsettled
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
		all = a.publish(all, s.number)
	}
	return news, nil
}

// unsettled ends a listing of the bucket and gives the partitions in which something changed.
func (a *Archive) unsettled(s *scan) (all []*unsettled, err error) {
	k := a.known
	k.mu.Lock()
	defer k.mu.Unlock()
	s.finish()
	chosen := a.opt.Cluster
	if chosen == "" {
		chosen = a.ClusterID()
	}
	now, err := k.count(chosen)
	if err != nil {
		return nil, err
	}
	if now.cluster != a.ClusterID() {
		a.cluster.Store(&now.cluster)
	}
	k.renamed(a.census, now)
	a.census = now
	for id, p := range k.partitions {
		if p.touched {
			all = append(all, k.gather(id, now))
		}
	}
	return all, nil
}

// publish applies what the first of them say, of a listing of that number, and gives those that are left.
func (a *Archive) publish(all []*unsettled, number uint32) (left []*unsettled) {
	k := a.known
	k.mu.Lock()
	var batch []tier.Change
	done := 0
	for ; done < len(all) && len(batch) < applyBatch; done++ {
		u := all[done]
		if k.partition(u.id).looked > number {
			all[done] = nil // a listing of the partition alone is newer, and out already
			continue
		}
		batch = append(batch, u.changes()...)
	}
	gone := a.apply(all[:done], batch)
	k.mu.Unlock()
	a.tellDeleted(gone)
	clear(all[:done]) // what it holds is not needed any more, and the rest takes a while
	return all[done:]
}

// apply publishes the changes of partitions, and gives the segments of which nobody should keep bytes; the caller holds
// the lock.
func (a *Archive) apply(settled []*unsettled, changes []tier.Change) (gone []*tier.Segment) {
	before := a.Snapshot()
	a.tier.Apply(changes...)
	a.metrics.Applied(len(changes), nil)
	after := a.Snapshot()
	for _, u := range settled {
		if u == nil {
			continue
		}
		p := a.known.partition(u.id)
		if view, ok := after.Partition(u.id); ok {
			u.adopt(view)
			u.examine(view)
		}
		gone = append(gone, departed(u.id, before, after, p.rewritten)...)
		p.topic, p.touched, p.rewritten, p.tally = u.topic, false, nil, nil
		p.settled++
		if len(u.tally.counts) > 0 {
			p.tally = &u.tally
		}
		if u.topic != "" {
			a.known.names[u.id.Topic] = u.topic
		}
	}
	return gone
}

// adopt keeps the tier's copy of each segment, so that there is one.
func (u *unsettled) adopt(view *tier.Partition) {
	for _, e := range u.entries {
		if s, ok := view.Segment(e.seg.ID); ok {
			e.seg = s
		}
	}
}

// departed lists the segments of a partition that left the view, and those whose manifests were written anew: what lies
// beside such a manifest may be other bytes, even of the same sizes. A segment that was known from the snapshot file
// alone counts too, since a cache on disk may be as old as that.
func departed(id tier.PartitionID, before, after *tier.Snapshot, rewritten []segment.UUID) (gone []*tier.Segment) {
	find := func(view *tier.Snapshot) func(segment.UUID) (*tier.Segment, bool) {
		if p, ok := view.Partition(id); ok {
			return p.Segment
		}
		return func(segment.UUID) (*tier.Segment, bool) { return nil, false }
	}
	is := find(after)
	told := make(map[segment.UUID]bool, len(rewritten))
	for _, id := range rewritten {
		if s, ok := is(id); ok && !told[id] {
			gone = append(gone, s)
		}
		told[id] = true
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

func (a *Archive) tellDeleted(gone []*tier.Segment) {
	if a.opt.OnDelete == nil {
		return
	}
	for _, s := range gone {
		a.opt.OnDelete(s)
	}
}
