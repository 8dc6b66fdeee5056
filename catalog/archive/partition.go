package archive

import (
	"context"
	"errors"
	"time"

	"coldtap/catalog"
	"coldtap/internal/refresh"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	// listPause is how long after the start of one listing of a partition the next one may begin. A listing costs one
	// request for each 1,000 objects, and data is visible after that pause at the latest.
	listPause = time.Second
	// maxListings bounds the partitions that are listed at a time; each reads a share of Options.Parallel manifests at a
	// time.
	maxListings = 4
	// listTries is how often a partition is listed that changes while it is read.
	listTries = 5
)

// refreshPartition lists a partition, for the calls that share the listing.
func (a *Archive) refreshPartition(ctx context.Context, l *refresh.Look[tier.PartitionID, error]) {
	began := time.Now()
	err := a.listPartition(ctx, l.Keys[0])
	next := began.Add(listPause)
	// A large partition takes hundreds of requests: two thirds of the time are for the others.
	if took := time.Since(began); took > listPause/2 {
		next = began.Add(3 * took)
	}
	l.Rest(l.Keys[0], func() time.Time { return next })
	end := func(err error) {
		if ctx.Err() != nil {
			err = errClosed()
		}
		a.metrics.Polled(err)
		l.End(err)
	}
	if !errors.Is(err, errWhole) {
		end(err)
		return
	}
	a.running.Go(func() { end(a.awaitListing(ctx)) })
}

// errWhole says that the bucket has to be listed, because the partition's keys are not known.
var errWhole = errors.New("the bucket has to be listed")

// listPartition lists a partition and publishes what changed.
func (a *Archive) listPartition(ctx context.Context, id tier.PartitionID) error {
	for range listTries {
		done, err := a.tryListing(ctx, id)
		switch {
		case errors.Is(err, errWhole):
			return err
		case err != nil:
			return failure(err)
		case done:
			return nil
		}
	}
	return &catalog.Error{Kind: catalog.NotReady, Op: op, Err: errors.New("the partition changes while it is listed")}
}

// tryListing is one listing of a partition; done false: something changed meanwhile, and another listing is needed.
func (a *Archive) tryListing(ctx context.Context, id tier.PartitionID) (done bool, err error) {
	k := a.inventory
	k.mu.Lock()
	number := a.numberListing(false)
	own, topics := k.copyOf(id)
	copied, resolved := own.entries.size, k.partition(id).resolved
	cluster, name := a.names.cluster, a.names.topics[id.Topic].name
	k.mu.Unlock()

	s := &scan{
		store: a.opt.Store, layout: a.opt.Layout, only: &id, parallel: max(1, a.opt.Parallel/maxListings), number: number,
		inventory: own, starts: make(map[tier.PartitionID]start),
	}
	for _, topic := range topics {
		s.prefixes = append(s.prefixes, a.opt.Layout.PartitionPrefixes(topic, id)...)
	}
	if len(s.prefixes) == 0 {
		return false, errWhole
	}
	if name == "" {
		name = topics[0]
	}
	err = s.run(ctx)
	a.metrics.manifestsRead(s.read)
	if err == nil && s.objects == s.foreign {
		err = a.probe(ctx)
	}
	if err != nil {
		return false, err
	}
	s.finish()
	k.mu.Lock()
	taken := k.conflicts(own.partition(id), id)
	k.mu.Unlock()
	for _, e := range taken {
		s.tally.add(Misplaced, nameOf(e.seg), "another segment of the bucket has the same id")
		own.drop(e.seg.ID)
	}
	if cluster == "" && own.namesCluster(id) {
		return false, errWhole
	}
	u := own.resolve(id, &names{cluster: cluster, topics: map[segment.UUID]topicName{id.Topic: {name: name}}})
	if u.lacksLineage() {
		if err := s.readLineages(ctx, []*resolution{u}); err != nil {
			return false, err
		}
	}
	if s.changing {
		return false, nil
	}
	gone, done := a.commit(id, own, u, s, copied, resolved)
	a.notifyDeleted(gone)
	return done, nil
}

// commit publishes what a listing of a partition has, unless a listing of the bucket began after it, which may have
// published newer things already. copied is how many entries the partition had when the listing began, and resolved how
// often it had been resolved.
func (a *Archive) commit(id tier.PartitionID, own *inventory, u *resolution, s *scan, copied int, resolved uint32) (gone []*tier.Segment, done bool) {
	k := a.inventory
	k.mu.Lock()
	defer k.mu.Unlock()
	p, q := k.partition(id), own.partition(id)
	if a.bucketListing > s.number || len(k.conflicts(q, id)) > 0 {
		return nil, false
	}
	p.listedAlone = s.number
	if s.read == 0 && !q.touched && !own.dirty && !p.touched && p.resolved == resolved && own.entries.size == copied {
		return nil, true
	}
	k.replace(id, own)
	gone = a.apply([]*resolution{u}, u.changes())
	r := *a.Report()
	a.publishReport(a.sumReport(&r), false)
	// The report counts what listings of the bucket find; until the next one, this is in the log only.
	for _, f := range s.tally.findings {
		a.log.Warn("not all of a partition is served", "problem", f.Problem, "example", f.Object, "detail", f.Detail)
	}
	return gone, true
}

// namesCluster says whether anything of a partition names its cluster.
func (k *inventory) namesCluster(id tier.PartitionID) bool {
	p := k.partition(id)
	if p.start != nil && p.start.cluster != "" {
		return true
	}
	for e := range p.all {
		if e.usable && k.origins.get(e.from).cluster != "" {
			return true
		}
	}
	return false
}

// errFound ends a probe.
var errFound = errors.New("found")

// probe fails when the store seems to hold no segment at all: then that a partition has no objects proves nothing.
func (a *Archive) probe(ctx context.Context) error {
	objects := int64(0)
	for _, prefix := range a.opt.Layout.Prefixes() {
		err := a.opt.Store.List(ctx, prefix, func(o rangeio.Object) error {
			objects++
			if part, _ := a.opt.Layout.Classify(o.Key); part == layout.ManifestPart || part == layout.StartPart {
				return errFound
			}
			return nil
		})
		if errors.Is(err, errFound) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return emptyError(&a.opt, objects)
}
