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
	// lookPause is how long after one listing of a partition the next one of it may begin: one GET for each 1,000 objects,
	// and nobody sees data later than that.
	lookPause = time.Second
	// maxLooks bounds the partitions that are listed at a time, of which each reads a share of Parallel manifests at a
	// time.
	maxLooks = 4
	// lookTries is how often a partition is listed that changes while it is read.
	lookTries = 5
)

// refreshPartition is one look at a partition, for the calls that share it.
func (a *Archive) refreshPartition(ctx context.Context, l *refresh.Look[tier.PartitionID, error]) {
	began := time.Now()
	err := a.lookAt(ctx, l.Keys[0])
	next := began.Add(lookPause)
	// A large partition takes hundreds of requests a look: two thirds of the time are for the others.
	if took := time.Since(began); took > lookPause/2 {
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

// errWhole says that only a listing of the bucket can tell.
var errWhole = errors.New("the bucket has to be listed")

// lookAt lists a partition and settles it.
func (a *Archive) lookAt(ctx context.Context, id tier.PartitionID) error {
	for range lookTries {
		done, err := a.tryLook(ctx, id)
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

// tryLook is one listing of a partition; done false: it was overtaken by something, and another one has to tell.
func (a *Archive) tryLook(ctx context.Context, id tier.PartitionID) (done bool, err error) {
	k := a.known
	k.mu.Lock()
	number := a.begin(false)
	own, topics := k.seed(id)
	seeded, settled := own.entries.size, k.partition(id).settled
	cluster, name := a.census.cluster, a.census.names[id.Topic].name
	k.mu.Unlock()

	s := &scan{
		store: a.opt.Store, layout: a.opt.Layout, only: &id, parallel: max(1, a.opt.Parallel/maxLooks), number: number,
		known: own, starts: make(map[tier.PartitionID]start),
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
	taken := k.foreign(own.partition(id), id)
	k.mu.Unlock()
	for _, e := range taken {
		s.tally.add(Misplaced, nameOf(e.seg), "another segment of the bucket has the same id")
		own.drop(e.seg.ID)
	}
	if cluster == "" && own.tellsCluster(id) {
		return false, errWhole
	}
	u := own.gather(id, &census{cluster: cluster, names: map[segment.UUID]topicName{id.Topic: {name: name}}})
	if u.lacksLineage() {
		if err := s.readLineages(ctx, []*unsettled{u}); err != nil {
			return false, err
		}
	}
	if s.unsure {
		return false, nil
	}
	gone, done := a.commit(id, own, u, s, seeded, settled)
	a.tellDeleted(gone)
	return done, nil
}

// commit puts what a listing of a partition has into the view, unless a listing of the bucket began after it, which may
// have taken newer things over already. It had so many entries, and was settled so often, when the listing began.
func (a *Archive) commit(id tier.PartitionID, own *known, u *unsettled, s *scan, seeded int, settled uint32) (gone []*tier.Segment, done bool) {
	k := a.known
	k.mu.Lock()
	defer k.mu.Unlock()
	p, q := k.partition(id), own.partition(id)
	if a.listing > s.number || len(k.foreign(q, id)) > 0 {
		return nil, false
	}
	p.looked = s.number
	if s.read == 0 && !q.touched && !own.dirty && !p.touched && p.settled == settled && own.entries.size == seeded {
		return nil, true
	}
	k.replace(id, own)
	gone = a.apply([]*unsettled{u}, u.changes())
	r := *a.Report()
	a.tell(a.sum(&r), false)
	// The report counts what listings of the bucket find; until the next one, the log alone has this.
	for _, f := range s.tally.findings {
		a.log.Warn("not all of a partition is served", "problem", f.Problem, "example", f.Object, "detail", f.Detail)
	}
	return gone, true
}

// tellsCluster says whether anything of a partition names its cluster.
func (k *known) tellsCluster(id tier.PartitionID) bool {
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

// probe fails when the store seems to hold no segment at all: that a partition has no objects says nothing then.
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
