package archive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// queued is how many manifests the listing may be ahead of the workers that read them: more than those of a page of
// 1,000 keys, so that the workers have work while the next page comes. 300 bytes each.
const queued = 1024

// scan is one listing: of the bucket, or of a partition alone into an inventory of its own.
type scan struct {
	store    *rangeio.Client
	layout   layout.Manifests
	prefixes []string
	only     *tier.PartitionID // nil = all that lies under the prefixes
	parallel int
	number   uint32 // of all listings that ever began
	tally    tally
	progress func(read, listed int64)

	// By the listing alone.
	objects, foreign int64

	inventory *inventory // its lock guards the rest too

	starts    map[tier.PartitionID]start
	manifests int64 // listed
	done      int64 // of them, those that were read or were known
	read      int64
	withheld  error // the first object that the store did not give
	changing  bool  // something changed while it was read: another listing is needed
}

// group is a segment's objects, as listed; a zero Key = not there.
type group struct {
	name                 layout.Name
	manifest, log, files rangeio.Object
}

// job is an object that has to be read.
type job struct {
	group
	start rangeio.Object // of the partition, instead of a segment's manifest
}

// run lists the store and reads what is not known. An error is the store's: what was read by then stays known.
func (s *scan) run(ctx context.Context) error {
	jobs := make(chan job, queued)
	return parallel(ctx, s.parallel, jobs, s.readObject, func(ctx context.Context) error { return s.list(ctx, jobs) })
}

// parallel runs work for each job that feed sends, n at a time, until feed returns or anything fails. The error is the
// first one. It closes jobs.
func parallel[J any](ctx context.Context, n int, jobs chan J, work func(context.Context, J) error, feed func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for j := range jobs {
				if ctx.Err() != nil {
					continue
				}
				if err := work(ctx, j); err != nil {
					cancel(err)
				}
			}
		})
	}
	if err := feed(ctx); err != nil {
		cancel(err)
	}
	close(jobs)
	workers.Wait()
	return context.Cause(ctx)
}

func send[J any](ctx context.Context, jobs chan<- J, j J) error {
	select {
	case jobs <- j:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *scan) list(ctx context.Context, jobs chan<- job) error {
	for _, prefix := range s.prefixes {
		var g group
		err := s.store.List(ctx, prefix, func(o rangeio.Object) error {
			s.objects++
			part, name := s.layout.Classify(o.Key)
			switch {
			case part == layout.ForeignPart || s.only != nil && name.Partition != *s.only:
				s.foreign++
				return nil
			case part == layout.StartPart:
				return send(ctx, jobs, job{group: group{name: name}, start: o})
			}
			if name != g.name {
				if err := s.addGroup(ctx, &g, jobs); err != nil {
					return err
				}
				g = group{name: name}
			}
			switch part {
			case layout.LogPart:
				g.log = o
			case layout.FilesPart:
				g.files = o
			case layout.ManifestPart:
				g.manifest = o
			}
			return nil
		})
		if err == nil {
			err = s.addGroup(ctx, &g, jobs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addGroup is called for a segment once all its objects are listed.
func (s *scan) addGroup(ctx context.Context, g *group, jobs chan<- job) error {
	if g.manifest.Key == "" {
		if o := g.log; o.Key != "" {
			s.tally.add(Orphan, o.Key, fmt.Sprintf("%d bytes, no manifest beside it", o.Size))
		} else if g.files.Key != "" {
			s.tally.add(Orphan, g.files.Key, "no manifest beside it")
		}
		return nil
	}
	if s.reuse(g) {
		return nil
	}
	return send(ctx, jobs, job{group: *g})
}

// reuse says whether a group's manifest need not be read, and takes the group over then.
func (s *scan) reuse(g *group) bool {
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	s.manifests++
	e := s.inventory.entries.get(g.name.ID)
	switch {
	case s.isOvertaken(g.name.Partition):
		s.countDone()
		return true
	case e == nil:
		s.inventory.link(&entry{seen: s.number, pending: true, seg: placeholder(&g.name)})
	case e.seen == s.number, e.seg.Partition != g.name.Partition && s.isOvertaken(e.seg.Partition):
		s.tally.add(Misplaced, g.manifest.Key, "another segment of the bucket has the same id")
		s.countDone()
		return true
	case s.inventory.isUnchanged(e, &g.name, &g.manifest):
		e.seen = s.number
		s.checkSizes(e, g)
		s.countDone()
		return true
	default:
		e.seen = s.number // no other segment of this listing may have the id
	}
	return false
}

// isOvertaken says that a partition was listed alone since this listing began, and what this one has of it may be
// older.
func (s *scan) isOvertaken(id tier.PartitionID) bool {
	p := s.inventory.partitions[id]
	return p != nil && p.listedAlone > s.number
}

// placeholder is what a key says of a segment.
func placeholder(n *layout.Name) *tier.Segment {
	return &tier.Segment{ID: n.ID, Partition: n.Partition, Topic: n.Topic, BaseOffset: n.BaseOffset}
}

// checkSizes compares a manifest with the segment's other objects in the listing; the caller holds the lock.
func (s *scan) checkSizes(e *entry, g *group) {
	if e.flawed {
		s.tally.addFinding(s.inventory.flaws[e.seg.ID])
		return
	}
	why := ""
	switch {
	case g.log.Key == "" && e.logSize > 0:
		why = "no log beside it"
	case g.log.Size != int64(e.logSize):
		why = fmt.Sprintf("its log has %d bytes, it says %d", g.log.Size, e.logSize)
	case e.filesSize > 0 && g.files.Key == "":
		why = "no small files beside it"
	case e.filesSize > 0 && g.files.Size != int64(e.filesSize):
		why = fmt.Sprintf("its small files have %d bytes, it says %d", g.files.Size, e.filesSize)
	}
	if why != "" {
		s.tally.add(Incomplete, g.manifest.Key, why)
	}
	s.inventory.setUsable(e, why == "")
}

// countDone counts a manifest that was read or need not be; the caller holds the lock.
func (s *scan) countDone() {
	s.done++
	if s.progress != nil {
		s.progress(s.done, s.manifests)
	}
}

// readObject reads a manifest or a start object.
func (s *scan) readObject(ctx context.Context, j job) error {
	if j.start.Key != "" {
		return s.readStart(ctx, &j)
	}
	d, _, err := s.layout.ReadManifest(ctx, j.manifest)
	if isFaulty(err) {
		d, _, err = s.layout.ReadManifest(ctx, j.manifest) // the fault may be in the answer, and a faulty manifest is remembered
	}
	switch {
	case err != nil:
	case !describes(&d.Segment, &j.name):
		err = &layout.Error{Object: j.manifest.Key, Err: layout.ErrMisplaced}
	case max(d.LogSize, d.FilesSize, j.manifest.Size) >= math.MaxUint32:
		err = &layout.Error{Object: j.manifest.Key, Err: fmt.Errorf("objects of %d and %d bytes: a log has at most 2 GiB", d.LogSize, d.FilesSize)}
	}
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	s.read++
	old := s.inventory.entries.get(j.name.ID)
	if s.isOvertaken(j.name.Partition) {
		if old != nil && old.pending && old.seg.Partition == j.name.Partition {
			s.inventory.drop(j.name.ID)
		}
		s.countDone()
		return nil
	}
	e := &entry{size: capped(j.manifest.Size), modTime: j.manifest.ModTime.UnixNano(), seen: s.number}
	fault, isFault := errors.AsType[*layout.Error](err)
	switch {
	case err == nil:
		e.seg, e.logSize, e.filesSize = &d.Segment, capped(d.LogSize), capped(d.FilesSize)
		e.from = s.inventory.origins.number(j.name.Prefix, d.ClusterID)
		s.checkSizes(s.inventory.put(e, nil), &j.group)
	case isFault:
		flaw := &Finding{problemOf(fault.Err), j.manifest.Key, fault.Err.Error()}
		e.from, e.seg = s.inventory.origins.number(j.name.Prefix, ""), placeholder(&j.name)
		s.tally.addFinding(flaw)
		if len(s.inventory.flaws) < maxFlawed {
			s.inventory.put(e, flaw)
		} else {
			s.inventory.drop(j.name.ID)
		}
	case isWithheld(err):
		// Dropped, so that every listing tries again: an object that was restored looks the same in a listing.
		s.reportWithheld(j.manifest.Key, err)
		s.inventory.drop(j.name.ID)
	case isGone(err):
		s.inventory.drop(j.name.ID)
	case isOverwritten(err):
		s.changing = true
		s.tally.add(Changing, j.manifest.Key, err.Error())
		if old != nil && old.pending {
			s.inventory.drop(j.name.ID)
		}
	default:
		return err
	}
	s.countDone()
	return nil
}

func problemOf(err error) Problem {
	switch {
	case errors.Is(err, layout.ErrVersion):
		return UnknownVersion
	case errors.Is(err, layout.ErrUndescribed):
		return Undescribed
	case errors.Is(err, layout.ErrMisplaced):
		return Misplaced
	}
	return Damaged
}

// isFaulty says that an object's content is not what it should be.
func isFaulty(err error) bool {
	_, ok := errors.AsType[*layout.Error](err)
	return ok
}

func isWithheld(err error) bool {
	_, ok := rangeio.Withheld(err)
	return ok
}

// reportWithheld reports an object that the store does not give; the caller holds the lock. It gives why.
func (s *scan) reportWithheld(key string, err error) (why string) {
	if s.withheld == nil {
		s.withheld = err
	}
	why, _ = rangeio.Withheld(err)
	s.tally.add(Withheld, key, why)
	return why
}

// isGone says that an object was deleted between the listing and the read.
func isGone(err error) bool {
	return rangeio.IsKind(err, rangeio.NotFound)
}

// isOverwritten says that an object is not what the listing had.
func isOverwritten(err error) bool {
	return rangeio.IsKind(err, rangeio.Changed, rangeio.BadRange, rangeio.BadAnswer)
}

// startTries is how often a start object is read that is overwritten meanwhile, or whose answer is faulty.
const startTries = 3

func (s *scan) readStart(ctx context.Context, j *job) error {
	var got *layout.Start
	var err error
	for range startTries {
		if got, _, err = s.layout.ReadStart(ctx, j.start); !isOverwritten(err) && !isFaulty(err) {
			break
		}
	}
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	fault, isFault := errors.AsType[*layout.Error](err)
	st := start{topic: j.name.Topic}
	switch {
	case err == nil:
		st.cluster, st.offset = got.ClusterID, got.Offset
	case isFault:
		st.flaw = fault.Err.Error()
		s.tally.add(DamagedStart, j.start.Key, st.flaw)
	case isWithheld(err):
		st.flaw = s.reportWithheld(j.start.Key, err)
	case isGone(err):
		return nil
	case isOverwritten(err):
		s.changing = true
		s.tally.add(Changing, j.start.Key, err.Error())
		if p := s.inventory.partitions[j.name.Partition]; p != nil && p.start != nil {
			st = *p.start
		} else {
			st.flaw = err.Error()
		}
	default:
		return err
	}
	s.starts[j.name.Partition] = st
	return nil
}

// finish drops what a complete listing did not have; the caller holds the lock.
func (s *scan) finish() {
	for id, p := range s.inventory.partitions {
		if s.isOvertaken(id) {
			s.inventory.sweep(p, func(e *entry) bool { return e.pending })
			continue
		}
		s.inventory.sweep(p, func(e *entry) bool { return e.seen != s.number })
		now, ok := s.starts[id]
		switch {
		case ok && (p.start == nil || *p.start != now):
			p.start, p.touched = &now, true
		case !ok && p.start != nil:
			p.start, p.touched = nil, true
		}
		if p.entries == nil && p.start == nil && !p.touched {
			delete(s.inventory.partitions, id)
		}
	}
	for id, now := range s.starts {
		if s.inventory.partitions[id] == nil {
			p := s.inventory.partition(id)
			p.start, p.touched = &now, true
		}
	}
}

// abandon drops what was about to be read when a listing failed; the caller holds the lock.
func (s *scan) abandon() {
	for _, p := range s.inventory.partitions {
		s.inventory.sweep(p, func(e *entry) bool { return e.pending })
	}
}

// readLineages reads the checkpoints of segments that became the newest of their partitions.
func (s *scan) readLineages(ctx context.Context, wanted []*resolution) error {
	jobs := make(chan *resolution)
	return parallel(ctx, min(s.parallel, len(wanted)), jobs, s.readLineage, func(ctx context.Context) error {
		for _, u := range wanted {
			if err := send(ctx, jobs, u); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *scan) readLineage(ctx context.Context, u *resolution) error {
	l := &lineage{of: u.mark}
	checkpoint, _, err := s.layout.ReadCheckpoint(ctx, u.seg, u.mark.size)
	if isFaulty(err) {
		checkpoint, _, err = s.layout.ReadCheckpoint(ctx, u.seg, u.mark.size)
	}
	fault, isFault := errors.AsType[*layout.Error](err)
	changing := false
	switch {
	case err == nil && !fits(checkpoint, u.seg):
		last := checkpoint.Epochs[len(checkpoint.Epochs)-1]
		l.why = fmt.Sprintf("its checkpoint ends with epoch %d from offset %d, the segment with epoch %d", last.Epoch, last.StartOffset, lastEpoch(u.seg))
	case err == nil:
		l.checkpoint = checkpoint
	case isFault:
		l.why = fault.Err.Error()
	case isWithheld(err):
		l.why, _ = rangeio.Withheld(err)
		l.of.id = segment.UUID{} // it is tried again when the partition changes
	case isGone(err) || isOverwritten(err):
		l.why = err.Error()
		l.of.id = segment.UUID{} // the next listing tries again
		changing = true
	default:
		return err
	}
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	u.lineage = l
	s.changing = s.changing || changing
	if !s.isOvertaken(u.id) {
		s.inventory.partition(u.id).lineage = l
		s.inventory.dirty = true
	}
	return nil
}

// fits says whether a checkpoint ends as the segment does that it travelled with.
func fits(c *layout.Checkpoint, s *tier.Segment) bool {
	last := c.Epochs[len(c.Epochs)-1]
	return last.Epoch == lastEpoch(s) && last.StartOffset <= s.EndOffset
}
