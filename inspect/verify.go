package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// Metadata is where a verification learns what should exist; catalog.Source is one.
type Metadata interface {
	Snapshot() *tier.Snapshot
	Refresh(ctx context.Context) error
}

// VerifyConfig says what is verified.
type VerifyConfig struct {
	Metadata Metadata
	Store    *rangeio.Client
	Topic    string // a name or an id; "" = all, and the whole store is listed
	// Deep reads every byte of every finished segment.
	Deep bool
	// Workers is how many segments are read at a time by Deep, each with 5 MiB and its .meta object; 0 = 2.
	Workers int
	// Progress is told how far Deep is, in bytes of logs; nil = nobody. Calls come one at a time.
	Progress func(done, all int64)
}

// Problem says what is wrong.
type Problem string

const (
	MissingLog     Problem = "missing_log"
	MissingMeta    Problem = "missing_meta"
	WrongSize      Problem = "wrong_size"
	Orphan         Problem = "orphan"          // an object that no segment of the metadata has
	DamagedMeta    Problem = "damaged_meta"    // a manifest that cannot be believed, or is another segment's
	DamagedFile    Problem = "damaged_file"    // a small file within a .meta
	DamagedLog     Problem = "damaged_log"     // batches that cannot be read, or lie outside the segment's offsets
	WrongCRC       Problem = "wrong_crc"       // a batch does not match its own checksum
	WrongChecksum  Problem = "wrong_checksum"  // the log is not the one that was copied: its SHA-256 differs
	DamagedStart   Problem = "damaged_start"   // a start object that cannot be believed
	StartBehind    Problem = "start_behind"    // a start object below the metadata's start
	UnreadableData Problem = "unreadable_data" // the object was listed and cannot be read
)

// Finding is one thing that is wrong.
type Finding struct {
	Problem   Problem `json:"problem"`
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	SegmentID string  `json:"segment_id,omitempty"`
	Object    string  `json:"object"`
	Detail    string  `json:"detail,omitempty"`
}

func (*Finding) header() string { return "PROBLEM\tPARTITION\tOBJECT\tDETAIL" }
func (f *Finding) cells() []string {
	return []string{string(f.Problem), fmt.Sprintf("%s-%d", f.Topic, f.Partition), f.Object, f.Detail}
}

// Summary is what a verification saw. Its field names in JSON are stable.
type Summary struct {
	Segments   int   `json:"segments"` // finished ones
	Bytes      int64 `json:"bytes"`    // of their logs
	Objects    int   `json:"objects"`  // listed
	Unfinished int   `json:"unfinished_objects"`
	Foreign    int   `json:"foreign_objects"` // not of the native layout
	Deep       bool  `json:"deep"`
	BytesRead  int64 `json:"bytes_read"` // of logs, by deep
	Problems   int   `json:"problems"`
}

func (*Summary) header() string {
	return "SEGMENTS\tBYTES\tOBJECTS\tUNFINISHED\tFOREIGN\tBYTES READ\tPROBLEMS"
}
func (s *Summary) cells() []string {
	return []string{number(s.Segments), number(s.Bytes), number(s.Objects), number(s.Unfinished), number(s.Foreign), number(s.BytesRead), number(s.Problems)}
}

// seenObjects are those of a segment that were listed.
type seenObjects struct {
	log, meta bool
	size      int64 // of the log
}

// verification is one run. What is not shared by the deep workers needs no lock.
type verification struct {
	cfg     VerifyConfig
	layout  *native.Layout
	out     *Output
	summary Summary

	seen    map[segment.UUID]seenObjects
	starts  []listedObject
	unknown []listedObject // of segments that the metadata did not know
}

type listedObject struct {
	objectKey
	key  string
	size int64
}

// Verify compares the metadata with the objects, both ways, shows each finding and at last the Summary. Problems are no
// error: Summary.Problems counts them. Objects of copies and deletes that have begun and not ended are no problem.
func Verify(ctx context.Context, o *Output, cfg VerifyConfig) (Summary, error) {
	if cfg.Workers <= 0 {
		cfg.Workers = 2
	}
	v := &verification{
		cfg: cfg, layout: native.New(cfg.Store, ""), out: o, summary: Summary{Deep: cfg.Deep},
		seen: make(map[segment.UUID]seenObjects),
	}
	before := cfg.Metadata.Snapshot()
	prefix, only := "", segment.UUID{}
	if cfg.Topic != "" {
		topic, err := findTopic(before, cfg.Topic)
		if err != nil {
			return v.summary, err
		}
		only = topic.ID
		prefix = topic.Name + "-" + topic.ID.String() + "/"
	}
	err := cfg.Store.List(ctx, prefix, func(obj rangeio.Object) error {
		v.listed(before, obj)
		return nil
	})
	if err != nil {
		return v.summary, err
	}
	if err := cfg.Metadata.Refresh(ctx); err != nil {
		return v.summary, err
	}
	after := cfg.Metadata.Snapshot()
	v.orphans(after)
	whole, err := v.finished(before, after, only)
	if err != nil {
		return v.summary, err
	}
	if cfg.Deep {
		if err := v.startObjects(ctx, after); err != nil {
			return v.summary, err
		}
		if err := v.deep(ctx, whole); err != nil {
			return v.summary, err
		}
	}
	return v.summary, o.add(&v.summary)
}

func (v *verification) find(f Finding) {
	v.summary.Problems++
	v.out.add(&f)
}

// listed takes note of an object.
func (v *verification) listed(before *tier.Snapshot, obj rangeio.Object) {
	v.summary.Objects++
	k := parseKey(obj.Key)
	switch k.kind {
	case foreign:
		v.summary.Foreign++
		return
	case startObject:
		v.starts = append(v.starts, listedObject{k, obj.Key, obj.Size})
		return
	}
	seg, topic, ok := lookUp(before, &k)
	if !ok || !v.owns(seg, topic, &k, obj.Key) {
		v.unknown = append(v.unknown, listedObject{k, obj.Key, obj.Size})
		return
	}
	if seg.State != tier.CopyFinished {
		v.summary.Unfinished++
	}
	s := v.seen[seg.ID]
	if k.kind == logObject {
		s.log, s.size = true, obj.Size
	} else {
		s.meta = true
	}
	v.seen[seg.ID] = s
}

func lookUp(s *tier.Snapshot, k *objectKey) (seg *tier.Segment, topic string, ok bool) {
	p, ok := s.Partition(k.partition)
	if !ok {
		return nil, "", false
	}
	t, _ := s.TopicByID(k.partition.Topic)
	seg, ok = p.Segment(k.segment)
	return seg, t.Name, ok
}

// owns says whether a key is the segment's, to the last character.
func (v *verification) owns(seg *tier.Segment, topic string, k *objectKey, key string) bool {
	seg = named(seg, topic)
	if k.kind == logObject {
		return v.layout.LogKey(seg) == key
	}
	return v.layout.MetaKey(seg) == key
}

// orphans reports what neither view of the metadata knows.
func (v *verification) orphans(after *tier.Snapshot) {
	for i := range v.unknown {
		u := &v.unknown[i]
		if seg, topic, ok := lookUp(after, &u.objectKey); ok && v.owns(seg, topic, &u.objectKey, u.key) {
			v.summary.Unfinished++ // its copy began meanwhile
			continue
		}
		v.find(Finding{Orphan, u.topic, u.partition.Partition, u.segment.String(), u.key,
			number(u.size) + " bytes, and the metadata knows no such segment"})
	}
	v.starts = slices.DeleteFunc(v.starts, func(u listedObject) bool {
		t, _ := after.TopicByID(u.partition.Topic)
		_, known := after.Partition(u.partition)
		known = known && v.layout.StartKey(t.Name, u.partition) == u.key
		if !known {
			v.find(Finding{Orphan, u.topic, u.partition.Partition, "", u.key, "the metadata knows no such partition"})
		}
		return !known
	})
}

// finished compares the segments that were finished before and after the listing with what was listed, and gives
// those that are whole.
func (v *verification) finished(before, after *tier.Snapshot, only segment.UUID) (whole []*tier.Segment, err error) {
	for p := range before.Partitions() {
		if !only.IsZero() && p.ID().Topic != only {
			continue
		}
		topic, _ := before.TopicByID(p.ID().Topic)
		now, _ := after.Partition(p.ID())
		for _, seg := range p.Segments(true) {
			if seg.State != tier.CopyFinished || !isFinished(now, seg.ID) {
				continue
			}
			seg = named(seg, topic.Name)
			v.summary.Segments++
			v.summary.Bytes += seg.Size
			if v.compare(seg) && v.cfg.Deep {
				whole = append(whole, seg)
			}
		}
	}
	return whole, v.out.err
}

func isFinished(p *tier.Partition, id segment.UUID) bool {
	if p == nil {
		return false
	}
	s, ok := p.Segment(id)
	return ok && s.State == tier.CopyFinished
}

// compare says whether both objects of a segment are there in the right size.
func (v *verification) compare(seg *tier.Segment) bool {
	s := v.seen[seg.ID]
	whole := true
	report := func(problem Problem, key, detail string) {
		whole = false
		v.find(findingOf(seg, problem, key, detail))
	}
	switch {
	case !s.log:
		report(MissingLog, v.layout.LogKey(seg), "")
	case s.size != seg.Size:
		report(WrongSize, v.layout.LogKey(seg), fmt.Sprintf("%d bytes, the metadata says %d", s.size, seg.Size))
	}
	if !s.meta {
		report(MissingMeta, v.layout.MetaKey(seg), "")
	}
	return whole
}

func findingOf(seg *tier.Segment, problem Problem, key, detail string) Finding {
	return Finding{problem, seg.Topic, seg.Partition.Partition, seg.ID.String(), key, strings.TrimSpace(detail)}
}

// startObjects compares each start object with the metadata. One above the metadata's start is legal: it is written first.
func (v *verification) startObjects(ctx context.Context, after *tier.Snapshot) error {
	for _, u := range v.starts {
		id, key := u.partition, u.key
		p, _ := after.Partition(id)
		topic, _ := after.TopicByID(id.Topic)
		offset, ok, err := v.layout.ReadStart(ctx, topic.Name, id)
		if err != nil {
			if _, fatal := judge(err); fatal != nil {
				return fatal
			}
			v.find(Finding{DamagedStart, topic.Name, id.Partition, "", key, err.Error()})
			continue
		}
		if start := p.Bounds().Start; ok && offset < start {
			v.find(Finding{StartBehind, topic.Name, id.Partition, "", key, fmt.Sprintf("it says %d, the metadata says %d", offset, start)})
		}
	}
	return nil
}
