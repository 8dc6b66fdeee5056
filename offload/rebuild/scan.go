package rebuild

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
)

// Config says which bucket is read, and how.
type Config struct {
	Store   *rangeio.Client
	Cluster string // only this cluster's segments; "" = all, which must be of one cluster
	// Progress gets how many objects were read of those listed so far; may be nil. Calls come one at a time.
	Progress func(read, listed int)
}

// readers is how many objects are read at a time: enough to hide a store's 30 ms first byte behind others.
const readers = 16

// job is an object that has to be read.
type job struct {
	rangeio.Object
	part    layout.Part // ManifestPart or StartPart
	logSize int64       // of the .log beside a manifest, -1 = there is none
}

// scan is one reading of a bucket.
type scan struct {
	store  *rangeio.Client
	bucket *native.Layout

	mu           sync.Mutex
	partitions   map[clusterPartition]*partitionObjects
	names        map[segment.UUID]string // of topics, as the first object has it
	startUnknown map[string]bool         // folders whose start object is damaged or withheld
	findings     []Finding
	foreign      int
	listed       int
	read         int
	progress     func(read, listed int)
	withheld     error // the first object that the store withholds
}

// Scan lists the store, reads the manifest of every .meta and every start object, and then each partition's newest
// checkpoint. Contents is never nil when the error is nil or *Error: its findings say why.
func Scan(ctx context.Context, cfg Config) (*Contents, error) {
	s := &scan{
		store: cfg.Store, bucket: native.New(cfg.Store, ""), progress: cfg.Progress,
		partitions: make(map[clusterPartition]*partitionObjects), names: make(map[segment.UUID]string), startUnknown: make(map[string]bool),
	}
	if err := parallel(ctx, s.list, s.readObject); err != nil {
		return nil, err
	}
	if len(s.partitions) == 0 && s.withheld != nil {
		return nil, s.withheld // an empty database would hide that there may be segments
	}
	if err := parallel(ctx, s.newest, s.readCheckpoint); err != nil {
		return nil, err
	}
	return s.contents(cfg.Cluster)
}

// parallel hands what produce sends to readers goroutines, and waits for all of them. The first error ends the others.
func parallel[J any](ctx context.Context, produce func(ctx context.Context, send func(J) error) error, work func(context.Context, J) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan J, readers)
	var workers sync.WaitGroup
	for range readers {
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
	err := produce(ctx, func(j J) error {
		select {
		case jobs <- j:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		cancel(err)
	}
	close(jobs)
	workers.Wait()
	return context.Cause(ctx)
}

// list sends every object that has to be read. In the order of keys a segment's .log comes right before its .meta, so
// one log at a time is remembered.
func (s *scan) list(ctx context.Context, send func(job) error) error {
	var log rangeio.Object
	orphan := func() {
		if log.Key != "" {
			s.report(Orphan, log.Key, fmt.Sprintf("%d bytes, no .meta beside it", log.Size))
			log = rangeio.Object{}
		}
	}
	err := s.store.List(ctx, "", func(o rangeio.Object) error {
		j := job{o, native.PartOf(o.Key), -1}
		switch j.part {
		case layout.ForeignPart:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.foreign++
			return nil
		case layout.LogPart:
			orphan()
			log = o
			return nil
		case layout.ManifestPart:
			if log.Key == strings.TrimSuffix(o.Key, ".meta")+".log" {
				j.logSize = log.Size
				log = rangeio.Object{}
			}
			orphan()
		}
		s.mu.Lock()
		s.listed++
		s.mu.Unlock()
		return send(j)
	})
	orphan()
	return err
}

// again calls read a second time when an object does not hold what it should: that may have come about on the way.
func again[T any](read func() (T, readcost.Cost, error)) (T, error) {
	v, _, err := read()
	if _, ok := errors.AsType[*layout.Error](err); ok {
		v, _, err = read()
	}
	return v, err
}

// readObject reads one object. An error is the store's; what is wrong with the object is a finding.
func (s *scan) readObject(ctx context.Context, j job) error {
	defer s.countRead()
	if j.part == layout.StartPart {
		return s.readStart(ctx, j.Object)
	}
	d, err := again(func() (*layout.Description, readcost.Cost, error) { return s.bucket.ReadManifest(ctx, j.Object) })
	fault, isDamaged := errors.AsType[*layout.Error](err)
	why, isWithheld := rangeio.Withheld(err)
	switch {
	case isDamaged:
		s.report(DamagedMeta, j.Key, fault.Err.Error())
		return nil
	case isWithheld:
		s.reportWithheld(j.Key, why, err)
		return nil
	case err != nil:
		return err
	}
	switch {
	case j.logSize < 0 && d.LogSize == 0: // of nothing there need be no object
	case j.logSize < 0:
		s.report(MissingLog, j.Key, "no .log beside it")
		return nil
	case j.logSize != d.LogSize:
		s.report(WrongSize, strings.TrimSuffix(j.Key, ".meta")+".log", fmt.Sprintf("%d bytes, its .meta says %d", j.logSize, d.LogSize))
		return nil
	}
	s.addSegment(d, j.Object)
	return nil
}

func (s *scan) readStart(ctx context.Context, o rangeio.Object) error {
	start, err := again(func() (*layout.Start, readcost.Cost, error) { return s.bucket.ReadStart(ctx, o) })
	fault, isDamaged := errors.AsType[*layout.Error](err)
	why, isWithheld := rangeio.Withheld(err)
	if err != nil && !isDamaged && !isWithheld {
		return err
	}
	folder := path.Dir(o.Key)
	if isWithheld {
		s.reportWithheld(o.Key, why, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, name := s.bucket.Classify(o.Key)
	switch {
	case isWithheld:
	case isDamaged:
		s.findings = append(s.findings, Finding{DamagedStart, o.Key, fault.Err.Error()})
	case !s.hasOneName(name.Partition.Topic, name.Topic):
		s.findings = append(s.findings, Finding{DamagedStart, o.Key, otherName})
	default:
		s.partition(clusterPartition{name.Partition, start.ClusterID}, name.Topic, folder).start = start.Offset
		return nil
	}
	s.startUnknown[folder] = true
	return nil
}

const otherName = "the topic's id has another name elsewhere in the bucket"

func (s *scan) addSegment(d *layout.Description, meta rangeio.Object) {
	seg := d.Segment
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasOneName(seg.Partition.Topic, seg.Topic) {
		s.findings = append(s.findings, Finding{DamagedMeta, meta.Key, otherName})
		return
	}
	p := s.partition(clusterPartition{seg.Partition, d.ClusterID}, seg.Topic, path.Dir(meta.Key))
	seg.Topic = p.topic // one string for all
	if len(p.segments) == 0 || isNewer(&seg, &p.newest) {
		p.newest, p.newestMeta = seg, meta
	}
	p.segments = append(p.segments, seg)
}

// newest sends the partitions whose newest checkpoint has to be read.
func (s *scan) newest(_ context.Context, send func(*partitionObjects) error) error {
	for _, p := range s.partitions {
		if len(p.segments) > 0 {
			if err := send(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// readCheckpoint reads the lineage that travels with a partition's newest segment, or says why it cannot be used. An
// error is the store's.
func (s *scan) readCheckpoint(ctx context.Context, p *partitionObjects) error {
	c, err := again(func() (*layout.Checkpoint, readcost.Cost, error) {
		return s.bucket.ReadCheckpoint(ctx, &p.newest, p.newestMeta.Size)
	})
	fault, isDamaged := errors.AsType[*layout.Error](err)
	why, isWithheld := rangeio.Withheld(err)
	switch {
	case isDamaged:
		p.noLineage = fault.Err.Error()
	case isWithheld:
		p.noLineage = why
	case err != nil:
		return err
	default:
		last, own := c.Epochs[len(c.Epochs)-1].Epoch, p.newest.Epochs[len(p.newest.Epochs)-1].Epoch
		if last != own {
			p.noLineage = fmt.Sprintf("its leader-epoch checkpoint ends with epoch %d, the segment with %d", last, own)
			return nil
		}
		p.lineage = c.Epochs
	}
	return nil
}

// hasOneName says whether a topic's id has one name only; the caller holds the lock.
func (s *scan) hasOneName(id segment.UUID, name string) bool {
	known, ok := s.names[id]
	if !ok {
		s.names[id] = name
	}
	return !ok || known == name
}

// partition gives what was found of a partition; the caller holds the lock.
func (s *scan) partition(at clusterPartition, topic, folder string) *partitionObjects {
	p := s.partitions[at]
	if p == nil {
		p = &partitionObjects{topic: topic, folder: folder, start: -1}
		s.partitions[at] = p
	}
	return p
}

func (s *scan) report(problem Problem, object, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings = append(s.findings, Finding{problem, object, detail})
}

func (s *scan) reportWithheld(key, why string, err error) {
	s.report(Withheld, key, why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withheld == nil {
		s.withheld = err
	}
}

func (s *scan) countRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read++
	if s.progress != nil {
		s.progress(s.read, s.listed)
	}
}
