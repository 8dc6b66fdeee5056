package archive

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// queued is how many manifests the listing may be ahead of the readers: those of a page of 1,000 keys and more, so that
// the readers have work while the next page comes. 300 bytes each.
const queued = 1024

// scan is one listing of the bucket.
type scan struct {
	store    *rangeio.Client
	layout   layout.Manifests
	parallel int
	number   uint32
	tally    tally
	progress func(read, listed int64)

	// By the listing alone.
	objects, foreign int64

	mu        sync.Mutex
	known     *known
	starts    map[tier.PartitionID]start
	manifests int64 // listed
	settled   int64 // of them, those that were read, or known
	read      int64
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
	return parallel(ctx, s.parallel, jobs, s.take, func(ctx context.Context) error { return s.list(ctx, jobs) })
}

// parallel runs take for each job that feed sends, so many at a time, until feed returns or anything fails. The error is
// the first one. It closes jobs.
func parallel[J any](ctx context.Context, n int, jobs chan J, take func(context.Context, J) error, feed func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for j := range jobs {
				if ctx.Err() != nil {
					continue
				}
				if err := take(ctx, j); err != nil {
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
	for _, prefix := range s.layout.Prefixes() {
		var g group
		err := s.store.List(ctx, prefix, func(o rangeio.Object) error {
			s.objects++
			part, name := s.layout.Classify(o.Key)
			switch part {
			case layout.ForeignPart:
				s.foreign++
				return nil
			case layout.StartPart:
				return send(ctx, jobs, job{group: group{name: name}, start: o})
			}
			if name != g.name {
				if err := s.consider(ctx, &g, jobs); err != nil {
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
			err = s.consider(ctx, &g, jobs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// consider takes a segment of which all objects were listed.
func (s *scan) consider(ctx context.Context, g *group, jobs chan<- job) error {
	if g.manifest.Key == "" {
		if o := g.log; o.Key != "" {
			s.tally.add(Orphan, o.Key, fmt.Sprintf("%d bytes, no manifest beside it", o.Size))
		} else if g.files.Key != "" {
			s.tally.add(Orphan, g.files.Key, "no manifest beside it")
		}
		return nil
	}
	if s.isKnown(g) {
		return nil
	}
	return send(ctx, jobs, job{group: *g})
}

// isKnown settles a group whose manifest need not be read.
func (s *scan) isKnown(g *group) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manifests++
	e := s.known.entries[g.name.ID]
	switch {
	case e == nil:
		s.known.entries[g.name.ID] = &entry{seen: s.number}
	case e.seen == s.number:
		s.tally.add(Misplaced, g.manifest.Key, "another segment of the bucket has the same id")
		s.advance()
		return true
	case e.is(&g.name, &g.manifest):
		e.seen = s.number
		s.judge(e, g)
		s.advance()
		return true
	default:
		e.seen = s.number // the id is taken
	}
	return false
}

// judge compares a manifest with what else the listing has of its segment; the caller holds the lock.
func (s *scan) judge(e *entry, g *group) {
	if e.flaw != nil {
		s.tally.add(e.flaw.Problem, e.flaw.Object, e.flaw.Detail)
		return
	}
	why := ""
	switch {
	case g.log.Key == "" && e.logSize > 0:
		why = "no log beside it"
	case g.log.Size != e.logSize:
		why = fmt.Sprintf("its log has %d bytes, it says %d", g.log.Size, e.logSize)
	case e.filesSize > 0 && g.files.Key == "":
		why = "no small files beside it"
	case e.filesSize > 0 && g.files.Size != e.filesSize:
		why = fmt.Sprintf("its small files have %d bytes, it says %d", g.files.Size, e.filesSize)
	}
	if why != "" {
		s.tally.add(Incomplete, g.manifest.Key, why)
	}
	s.known.use(e, why == "")
}

// advance counts a manifest that is settled; the caller holds the lock.
func (s *scan) advance() {
	s.settled++
	if s.progress != nil {
		s.progress(s.settled, s.manifests)
	}
}

// take reads one object.
func (s *scan) take(ctx context.Context, j job) error {
	if j.start.Key != "" {
		return s.takeStart(ctx, &j)
	}
	d, _, err := s.layout.ReadManifest(ctx, j.manifest)
	if err == nil && !describes(&d.Segment, &j.name) {
		err = &layout.Error{Object: j.manifest.Key, Err: layout.ErrMisplaced}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read++
	e := &entry{size: j.manifest.Size, modTime: j.manifest.ModTime.UnixNano(), seen: s.number}
	fault, isFault := errors.AsType[*layout.Error](err)
	switch {
	case err == nil:
		e.seg, e.from, e.logSize, e.filesSize = &d.Segment, s.known.origin(j.name.Prefix, d.ClusterID), d.LogSize, d.FilesSize
		s.known.put(e)
		s.judge(e, &j.group)
	case isFault:
		e.from = s.known.origin(j.name.Prefix, "")
		e.flaw = &Finding{problemOf(fault.Err), j.manifest.Key, fault.Err.Error()}
		e.seg = &tier.Segment{ID: j.name.ID, Partition: j.name.Partition, Topic: j.name.Topic, BaseOffset: j.name.BaseOffset}
		s.known.drop(j.name.ID)
		if s.known.flawed < maxFlawed {
			s.known.put(e)
		}
		s.judge(e, &j.group)
	case isGone(err):
		s.known.drop(j.name.ID)
	case isOverwritten(err):
		s.tally.add(Changing, j.manifest.Key, err.Error())
		if old := s.known.entries[j.name.ID]; old != nil && old.seg == nil {
			s.known.drop(j.name.ID)
		}
	default:
		return err
	}
	s.advance()
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

// isGone says that an object was deleted between the listing and the read.
func isGone(err error) bool {
	e, ok := errors.AsType[*rangeio.Error](err)
	return ok && e.Kind == rangeio.NotFound
}

// isOverwritten says that an object is not what the listing had.
func isOverwritten(err error) bool {
	e, ok := errors.AsType[*rangeio.Error](err)
	return ok && (e.Kind == rangeio.Changed || e.Kind == rangeio.BadRange || e.Kind == rangeio.BadAnswer)
}

func (s *scan) takeStart(ctx context.Context, j *job) error {
	got, _, err := s.layout.ReadStart(ctx, j.start)
	fault, isFault := errors.AsType[*layout.Error](err)
	st := start{topic: j.name.Topic}
	switch {
	case err == nil:
		st.cluster, st.offset = got.ClusterID, got.Offset
	case isFault:
		st.flaw = fault.Err.Error()
		s.tally.add(DamagedStart, j.start.Key, st.flaw)
	case isGone(err):
		return nil
	default:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts[j.name.Partition] = st
	return nil
}

// finish forgets what a complete listing did not have.
func (s *scan) finish() {
	for id, e := range s.known.entries {
		if e.seen != s.number {
			s.known.drop(id)
		}
	}
	for id, before := range s.known.starts {
		if now, ok := s.starts[id]; !ok || now != before {
			s.known.touch(id)
		}
	}
	for id := range s.starts {
		if _, ok := s.known.starts[id]; !ok {
			s.known.touch(id)
		}
	}
	s.known.starts = s.starts
}

// abandon forgets what was about to be read when a listing failed.
func (s *scan) abandon() {
	for id, e := range s.known.entries {
		if e.seg == nil {
			s.known.drop(id)
		}
	}
}

// stored is what the newest segment of a partition needs read.
type stored struct {
	partition tier.PartitionID
	newest    *entry
}

// readLineages reads the checkpoints of segments that became the newest of their partitions.
func (s *scan) readLineages(ctx context.Context, wanted []stored) error {
	jobs := make(chan stored)
	return parallel(ctx, min(s.parallel, len(wanted)), jobs, s.readLineage, func(ctx context.Context) error {
		for _, w := range wanted {
			if err := send(ctx, jobs, w); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *scan) readLineage(ctx context.Context, w stored) error {
	l := &lineage{of: w.newest.mark()}
	checkpoint, _, err := s.layout.ReadCheckpoint(ctx, w.newest.seg, w.newest.size)
	fault, isFault := errors.AsType[*layout.Error](err)
	switch {
	case err == nil && !fits(checkpoint, w.newest.seg):
		last := checkpoint.Epochs[len(checkpoint.Epochs)-1]
		l.why = fmt.Sprintf("its checkpoint ends with epoch %d from offset %d, the segment with epoch %d", last.Epoch, last.StartOffset, lastEpoch(w.newest.seg))
	case err == nil:
		l.checkpoint = checkpoint
	case isFault:
		l.why = fault.Err.Error()
	case isGone(err) || isOverwritten(err):
		l.why = err.Error()
		l.of.id = segment.UUID{} // the next listing tells
	default:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.lineages[w.partition] = l
	s.known.dirty = true
	return nil
}

// fits says whether a checkpoint ends as the segment does that it travelled with.
func fits(c *layout.Checkpoint, s *tier.Segment) bool {
	last := c.Epochs[len(c.Epochs)-1]
	return last.Epoch == lastEpoch(s) && last.StartOffset <= s.EndOffset
}
