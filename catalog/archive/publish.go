package archive

import (
	"context"
	"slices"

	"coldtap/segment"
	"coldtap/tier"
)

// applyBatch is how many changes are published together at least, whole partitions each: publishing costs time for each
// topic, and changes memory until they are.
const applyBatch = 8192

// settle brings the partitions in which something changed into the view. On error they are settled with the next listing.
func (a *Archive) settle(ctx context.Context, s *scan) (news bool, err error) {
	chosen := a.opt.Cluster
	if chosen == "" {
		chosen = a.ClusterID()
	}
	now, err := a.known.count(chosen)
	if err != nil {
		return false, err
	}
	a.known.renamed(a.census, now)
	all := a.known.gather(now)
	var wanted []stored
	for id, u := range all {
		if u.newest == nil {
			delete(a.known.lineages, id)
		} else if l := a.known.lineages[id]; l == nil || l.of != u.newest.mark() {
			wanted = append(wanted, stored{id, u.newest})
		}
	}
	if len(wanted) > 0 {
		if err := s.readLineages(ctx, wanted); err != nil {
			return false, err
		}
	}
	if now.cluster != a.ClusterID() {
		a.cluster.Store(&now.cluster)
	}
	a.census = now
	a.publish(all)
	return len(all) > 0, nil
}

// publish applies what all say, and tells of the segments that left the view.
func (a *Archive) publish(all map[tier.PartitionID]*unsettled) {
	var (
		batch   []tier.Change
		inBatch []*unsettled
	)
	flush := func() {
		before := a.Snapshot()
		a.tier.Apply(batch...)
		a.metrics.applied(len(batch))
		after := a.Snapshot()
		for _, u := range inBatch {
			a.adopt(u, after)
			a.tellDeleted(u.id, before, after)
		}
		clear(batch)
		batch, inBatch = batch[:0], inBatch[:0]
	}
	for id, u := range all {
		batch = append(batch, u.changes(a.known.lineages[id])...)
		inBatch = append(inBatch, u)
		delete(a.findings, id)
		if len(u.tally.counts) > 0 {
			a.findings[id] = &u.tally
		}
		delete(a.known.touched, id)
		if len(batch) >= applyBatch {
			flush()
		}
	}
	flush()
}

// adopt keeps the tier's copy of each segment, so that there is one.
func (a *Archive) adopt(u *unsettled, view *tier.Snapshot) {
	p, ok := view.Partition(u.id)
	if !ok {
		return
	}
	for _, e := range u.entries {
		if s, ok := p.Segment(e.seg.ID); ok {
			e.seg = s
		}
	}
}

func (a *Archive) tellDeleted(id tier.PartitionID, before, after *tier.Snapshot) {
	if a.opt.OnDelete == nil {
		return
	}
	old, ok := before.Partition(id)
	if !ok {
		return
	}
	left := func(segment.UUID) (*tier.Segment, bool) { return nil, false }
	if p, ok := after.Partition(id); ok {
		left = p.Segment
	}
	for _, was := range old.Segments(true) {
		is, ok := left(was.ID)
		if !ok || is.Size != was.Size || is.BaseOffset != was.BaseOffset || is.EndOffset != was.EndOffset || !slices.Equal(is.Epochs, was.Epochs) {
			a.opt.OnDelete(was)
		}
	}
}
