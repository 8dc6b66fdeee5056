package rebuild

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"coldtap/internal/budget"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// Config says which bucket is read, and how.
type Config struct {
	Store   *rangeio.Client
	Cluster string // take this cluster's segments only; "" = all, which must be of one cluster
	// Progress is told how many segments were read of those listed so far; nil = nobody. Calls come one at a time.
	Progress func(read, listed int)
}

const (
	// readers is how many objects are read at a time: enough to hide a store's 30 ms first byte behind others.
	readers = 16
	// readMemory bounds the .meta objects in memory, each counted twice: raw, and unpacked.
	readMemory = 4 * native.MaxMeta
	// startLimit bounds a start object; one has about 300 bytes.
	startLimit = 16 << 10
)

// job is an object that has to be read.
type job struct {
	meta    rangeio.Object
	logSize int64 // of the .log beside it, -1 = there is none
}

// scan is one reading of a bucket.
type scan struct {
	store  *rangeio.Client
	layout *native.Layout
	memory *budget.Budget

	mu         sync.Mutex
	partitions map[place]*gathered
	names      map[segment.UUID]string // of topics, as the first object told
	unsure     map[string]bool         // folders whose start object is damaged
	findings   []Finding
	foreign    int
	listed     int
	read       int
	progress   func(read, listed int)
	err        error
	withheld   error // the first object that the store did not give
}

// Scan lists the store and reads every .meta and start object. Contents is never nil when the error is nil or *Error:
// what was found then tells why.
func Scan(ctx context.Context, cfg Config) (*Contents, error) {
	s := &scan{
		store: cfg.Store, layout: native.New(cfg.Store, ""), memory: budget.New(readMemory), progress: cfg.Progress,
		partitions: make(map[place]*gathered), names: make(map[segment.UUID]string), unsure: make(map[string]bool),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs := make(chan job, readers)
	var workers sync.WaitGroup
	for range readers {
		workers.Go(func() {
			for j := range jobs {
				if err := s.take(ctx, j); err != nil {
					s.fail(err)
					cancel()
				}
			}
		})
	}
	err := s.list(ctx, jobs)
	close(jobs)
	workers.Wait()
	if s.err != nil {
		return nil, s.err
	}
	if err == nil && len(s.partitions) == 0 {
		err = s.withheld // of everything: an empty database would be made of it
	}
	if err != nil {
		return nil, err
	}
	return s.contents(cfg.Cluster)
}

// list sends every object that has to be read. In the order of keys a segment's .log comes right before its .meta, so
// one log at a time is remembered.
func (s *scan) list(ctx context.Context, jobs chan<- job) error {
	var log rangeio.Object
	send := func(j job) error {
		s.mu.Lock()
		s.listed++
		s.mu.Unlock()
		select {
		case jobs <- j:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	orphan := func() {
		if log.Key != "" {
			s.find(Orphan, log.Key, fmt.Sprintf("%d bytes, no .meta beside it", log.Size))
			log = rangeio.Object{}
		}
	}
	err := s.store.List(ctx, "", func(o rangeio.Object) error {
		if !isNative(o.Key) {
			s.mu.Lock()
			s.foreign++
			s.mu.Unlock()
			return nil
		}
		stem, isMeta := strings.CutSuffix(o.Key, ".meta")
		switch {
		case isMeta && log.Key == stem+".log":
			size := log.Size
			log = rangeio.Object{}
			return send(job{o, size})
		case isMeta:
			orphan()
			return send(job{o, -1})
		case strings.HasSuffix(o.Key, ".log"):
			orphan()
			log = o
			return nil
		}
		return send(job{o, -1})
	})
	orphan()
	return err
}

// isNative says whether a key has the form of one of the native layout's. It proves nothing: the object's content does.
func isNative(key string) bool {
	dir, name := path.Split(key)
	if strings.Count(dir, "/") < 2 {
		return false
	}
	if name == "start" {
		return true
	}
	stem, ok := strings.CutSuffix(name, ".log")
	if !ok {
		if stem, ok = strings.CutSuffix(name, ".meta"); !ok {
			return false
		}
	}
	if len(stem) != 20+1+22 || stem[20] != '-' || strings.Trim(stem[:20], "0123456789") != "" {
		return false
	}
	_, err := segment.ParseUUID(stem[21:])
	return err == nil
}

// take reads one object. An error is the store's; what is wrong with the object is a finding.
func (s *scan) take(ctx context.Context, j job) error {
	defer s.advance()
	if path.Base(j.meta.Key) == "start" {
		return s.takeStart(ctx, j.meta)
	}
	if j.meta.Size > native.MaxMeta {
		s.find(DamagedMeta, j.meta.Key, fmt.Sprintf("%d bytes, at most %d are allowed", j.meta.Size, native.MaxMeta))
		return nil
	}
	memory := 2 * max(j.meta.Size, 1)
	if err := s.memory.Acquire(ctx, memory); err != nil {
		return err
	}
	defer s.memory.Release(memory)
	m, files, err := s.readMeta(ctx, j.meta)
	if _, ok := errors.AsType[damagedMeta](err); ok {
		// It may have come about on the way.
		m, files, err = s.readMeta(ctx, j.meta)
	}
	damage, isDamaged := errors.AsType[damagedMeta](err)
	why, isWithheld := rangeio.Withheld(err)
	switch {
	case isDamaged:
		s.find(DamagedMeta, j.meta.Key, damage.Error())
		return nil
	case isWithheld:
		s.withhold(j.meta.Key, why, err)
		return nil
	case err != nil:
		return err
	}
	seg := tier.Segment{
		ID: m.SegmentID, Partition: tier.PartitionID{Topic: m.TopicID, Partition: m.Partition}, Topic: m.Topic,
		BaseOffset: m.BaseOffset, EndOffset: m.EndOffset, Epochs: m.LeaderEpochs, MaxTimestamp: m.MaxTimestamp,
		EventTime: m.EventTime, BrokerID: m.BrokerID, Size: m.Log.Size, State: tier.CopyFinished,
		TxnIndexEmpty: len(files.TxnIndex) == 0 && !files.TxnDamaged,
	}
	if err := seg.Validate(); err != nil {
		s.find(DamagedMeta, j.meta.Key, "manifest: "+err.Error())
		return nil
	}
	if s.layout.MetaKey(&seg) != j.meta.Key {
		s.find(DamagedMeta, j.meta.Key, "its manifest belongs under "+s.layout.MetaKey(&seg))
		return nil
	}
	switch {
	case j.logSize < 0 && seg.Size == 0: // of nothing there need be no object
	case j.logSize < 0:
		s.find(MissingLog, j.meta.Key, "no .log beside it")
		return nil
	case j.logSize != seg.Size:
		s.find(WrongSize, s.layout.LogKey(&seg), fmt.Sprintf("%d bytes, its .meta says %d", j.logSize, seg.Size))
		return nil
	}
	lineage, why := checkpoint(files, &seg)
	s.add(m.ClusterID, seg, j.meta.Key, lineage, why)
	return nil
}

// damagedMeta is a .meta whose content cannot be believed.
type damagedMeta struct{ error }

func (s *scan) readMeta(ctx context.Context, o rangeio.Object) (*native.Manifest, *segment.Files, error) {
	raw, _, _, err := s.store.ReadObject(ctx, o.Key, max(o.Size, 1))
	if err != nil {
		return nil, nil, err
	}
	m, files, err := native.DecodeMeta(raw)
	if err != nil {
		return nil, nil, damagedMeta{err}
	}
	return m, files, nil
}

// checkpoint reads the lineage that travels with a segment, or says why it cannot be used.
func checkpoint(files *segment.Files, seg *tier.Segment) (lineage []segment.EpochStart, why string) {
	if files.LeaderEpochs == nil {
		return nil, "no leader-epoch checkpoint that can be believed"
	}
	lineage, err := segment.ParseEpochCheckpoint(files.LeaderEpochs)
	switch {
	case err != nil:
		return nil, err.Error()
	case len(lineage) == 0:
		return nil, "its leader-epoch checkpoint is empty"
	case lineage[len(lineage)-1].Epoch != seg.Epochs[len(seg.Epochs)-1].Epoch:
		return nil, fmt.Sprintf("its leader-epoch checkpoint ends with epoch %d, the segment with %d",
			lineage[len(lineage)-1].Epoch, seg.Epochs[len(seg.Epochs)-1].Epoch)
	}
	return lineage, ""
}

func (s *scan) takeStart(ctx context.Context, o rangeio.Object) error {
	key := o.Key
	folder, _ := path.Split(key)
	if o.Size > startLimit {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unsure[folder] = true
		s.findings = append(s.findings, Finding{DamagedStart, key, fmt.Sprintf("%d bytes, at most %d are allowed", o.Size, startLimit)})
		return nil
	}
	raw, _, _, err := s.store.ReadObject(ctx, key, startLimit)
	if why, ok := rangeio.Withheld(err); ok {
		s.withhold(key, why, err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unsure[folder] = true
		return nil
	}
	if err != nil {
		return err
	}
	start, err := native.DecodeStart(raw)
	id := tier.PartitionID{}
	if err == nil {
		id = tier.PartitionID{Topic: start.TopicID, Partition: start.Partition}
		if own := s.layout.StartKey(start.Topic, id); own != key {
			err = fmt.Errorf("it belongs under %s", own)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && !s.named(start.TopicID, start.Topic) {
		err = errors.New("the topic's id has another name elsewhere in the bucket")
	}
	if err != nil {
		s.unsure[folder] = true
		s.findings = append(s.findings, Finding{DamagedStart, key, err.Error()})
		return nil
	}
	s.at(place{id, start.ClusterID}, start.Topic, folder).start = start.Offset
	return nil
}

func (s *scan) add(cluster string, seg tier.Segment, key string, lineage []segment.EpochStart, why string) {
	folder, _ := path.Split(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.named(seg.Partition.Topic, seg.Topic) {
		s.findings = append(s.findings, Finding{DamagedMeta, key, "the topic's id has another name elsewhere in the bucket"})
		return
	}
	g := s.at(place{seg.Partition, cluster}, seg.Topic, folder)
	seg.Topic = g.topic // one string for all
	if len(g.segments) == 0 || isNewer(&seg, &g.newest) {
		g.newest, g.newestKey, g.checkpoint, g.noLineage = seg, key, lineage, why
	}
	g.segments = append(g.segments, seg)
}

// named says whether a topic's id goes by one name only; the caller holds the lock.
func (s *scan) named(id segment.UUID, name string) bool {
	known, ok := s.names[id]
	if !ok {
		s.names[id] = name
	}
	return !ok || known == name
}

// at gives the gathered of a place; the caller holds the lock.
func (s *scan) at(p place, topic, folder string) *gathered {
	g := s.partitions[p]
	if g == nil {
		g = &gathered{topic: topic, folder: folder, start: -1}
		s.partitions[p] = g
	}
	return g
}

func (s *scan) find(problem Problem, object, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings = append(s.findings, Finding{problem, object, detail})
}

func (s *scan) withhold(key, why string, err error) {
	s.find(Withheld, key, why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withheld == nil {
		s.withheld = err
	}
}

func (s *scan) advance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read++
	if s.progress != nil {
		s.progress(s.read, s.listed)
	}
}

// fail keeps the first error; later ones are of its making.
func (s *scan) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}
