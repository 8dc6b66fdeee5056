package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"coldtap/layout"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// Metadata says which segments should exist; catalog.Source is one.
type Metadata interface {
	Snapshot() *tier.Snapshot
	Refresh(ctx context.Context, partition tier.PartitionID) error
}

// Layout is what inspection needs of a layout.
type Layout interface {
	layout.Reader
	layout.Names
}

// VerifyConfig says what is verified.
type VerifyConfig struct {
	Metadata Metadata
	Store    *rangeio.Client
	Layout   Layout // nil = the native one, whose manifests have a checksum of everything
	Topic    string // a name or an id; "" = all, and the whole store is listed
	// Deep reads every byte of every finished segment.
	Deep bool
	// Workers is how many segments are read at a time by Deep, each with 5 MiB and its .meta object; 0 = 2.
	Workers int
	// Progress gets how far Deep is, in bytes of logs; may be nil. Calls come one at a time.
	Progress func(done, all int64)
}

// Problem says what is wrong.
type Problem string

const (
	MissingLog     Problem = "missing_log"
	MissingMeta    Problem = "missing_meta"  // or a manifest of another layout
	MissingFiles   Problem = "missing_files" // small files that lie in objects of their own
	WrongSize      Problem = "wrong_size"
	Orphan         Problem = "orphan"          // an object that no segment of the metadata has
	DamagedMeta    Problem = "damaged_meta"    // a manifest that is damaged, is another segment's, or denies gaps that the log has
	DamagedFile    Problem = "damaged_file"    // a small file within a .meta
	DamagedLog     Problem = "damaged_log"     // batches that cannot be read, or lie outside the segment's offsets
	WrongCRC       Problem = "wrong_crc"       // a batch does not match its own checksum
	WrongChecksum  Problem = "wrong_checksum"  // the log is not the one that was copied: its SHA-256 differs
	DamagedStart   Problem = "damaged_start"   // a damaged start object
	StartBehind    Problem = "start_behind"    // a start object below the metadata's start
	WithheldObject Problem = "withheld"        // the store does not give it: it is in an archive storage class, or access is denied
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
	Foreign    int   `json:"foreign_objects"` // not of the layout
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
	files     int8
	size      int64 // of the log
}

// verification is one run. What is not shared by the deep workers needs no lock.
type verification struct {
	cfg     VerifyConfig
	layout  Layout
	native  *native.Layout // nil for other layouts
	out     *Output
	summary Summary

	seen   map[segment.UUID]seenObjects
	starts []listedObject
	// elsewhere are keys of segments that were listed, but under a name that is not the layout's: custom metadata of the
	// plugin's may place objects where no configuration leads.
	elsewhere map[string]bool
	prefixes  []string       // that were listed
	unknown   []listedObject // of segments that the metadata did not know
}

type listedObject struct {
	layout.Name
	key  string
	size int64
}

// Verify compares the metadata with the objects, both ways, shows each finding and at last the Summary. Problems are no
// error: Summary.Problems counts them. Objects of copies and deletes that have begun and not ended are no problem.
func Verify(ctx context.Context, o *Output, cfg VerifyConfig) (Summary, error) {
	if cfg.Workers <= 0 {
		cfg.Workers = 2
	}
	if cfg.Layout == nil {
		cfg.Layout = native.New(cfg.Store, "")
	}
	v := &verification{
		cfg: cfg, layout: cfg.Layout, out: o, summary: Summary{Deep: cfg.Deep},
		seen: make(map[segment.UUID]seenObjects), elsewhere: make(map[string]bool),
	}
	v.native, _ = cfg.Layout.(*native.Layout)
	before := cfg.Metadata.Snapshot()
	beneath, only := "", segment.UUID{}
	if cfg.Topic != "" {
		topic, err := findTopic(before, cfg.Topic)
		if err != nil {
			return v.summary, err
		}
		only = topic.ID
		beneath = v.layout.TopicPrefix(topic.Name, topic.ID)
	}
	for _, prefix := range v.layout.Prefixes() {
		v.prefixes = append(v.prefixes, prefix+beneath)
		err := cfg.Store.List(ctx, prefix+beneath, func(obj rangeio.Object) error {
			v.listed(before, obj, only)
			return nil
		})
		if err != nil {
			return v.summary, err
		}
	}
	if err := cfg.Metadata.Refresh(ctx, tier.PartitionID{}); err != nil {
		return v.summary, err
	}
	after := cfg.Metadata.Snapshot()
	whole, err := v.finished(ctx, before, after, only)
	if err != nil {
		return v.summary, err
	}
	v.orphans(after)
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

// listed takes note of an object. What a topic's prefix has in common with another topic is passed over.
func (v *verification) listed(before *tier.Snapshot, obj rangeio.Object, only segment.UUID) {
	part, name := v.layout.Classify(obj.Key)
	if part != layout.ForeignPart && !only.IsZero() && name.Partition.Topic != only {
		return
	}
	v.summary.Objects++
	switch part {
	case layout.ForeignPart:
		v.summary.Foreign++
		return
	case layout.StartPart:
		v.starts = append(v.starts, listedObject{name, obj.Key, obj.Size})
		return
	}
	seg, ok := lookUp(before, &name)
	if !ok {
		v.unknown = append(v.unknown, listedObject{name, obj.Key, obj.Size})
		return
	}
	if seg.State != tier.CopyFinished {
		v.summary.Unfinished++
	}
	s := v.seen[seg.ID]
	switch part {
	case layout.LogPart:
		s.log, s.size = true, obj.Size
	case layout.ManifestPart:
		s.meta = true
	default:
		s.files++
	}
	v.seen[seg.ID] = s
}

// lookUp gives the segment whose object has the name: by its ids, and what else is in its keys must be right as well.
func lookUp(s *tier.Snapshot, n *layout.Name) (seg *tier.Segment, ok bool) {
	p, ok := s.Partition(n.Partition)
	if !ok {
		return nil, false
	}
	t, _ := s.TopicByID(n.Partition.Topic)
	seg, ok = p.Segment(n.ID)
	return seg, ok && t.Name == n.Topic && seg.BaseOffset == n.BaseOffset
}

// orphans reports what neither view of the metadata knows.
func (v *verification) orphans(after *tier.Snapshot) {
	for i := range v.unknown {
		u := &v.unknown[i]
		if v.elsewhere[u.key] {
			delete(v.elsewhere, u.key)
			continue
		}
		if _, ok := lookUp(after, &u.Name); ok {
			v.summary.Unfinished++ // its copy began meanwhile
			continue
		}
		v.find(Finding{Orphan, u.Topic, u.Partition.Partition, u.ID.String(), u.key,
			number(u.size) + " bytes, and the metadata knows no such segment"})
	}
	v.summary.Foreign -= len(v.elsewhere)
	v.starts = slices.DeleteFunc(v.starts, func(u listedObject) bool {
		t, _ := after.TopicByID(u.Partition.Topic)
		_, known := after.Partition(u.Partition)
		known = known && t.Name == u.Topic
		if !known {
			v.find(Finding{Orphan, u.Topic, u.Partition.Partition, "", u.key, "the metadata knows no such partition"})
		}
		return !known
	})
}

// finished compares the segments that were finished before and after the listing with what was listed, and gives
// those that are whole.
func (v *verification) finished(ctx context.Context, before, after *tier.Snapshot, only segment.UUID) (whole []*tier.Segment, err error) {
	for p := range before.Partitions() {
		if !only.IsZero() && p.ID().Topic != only {
			continue
		}
		topic, _ := before.TopicByID(p.ID().Topic)
		now, _ := after.Partition(p.ID())
		for _, seg := range p.Segments(true) {
			if seg.State != tier.CopyFinished || !now.HasFinished(seg.ID) {
				continue
			}
			seg = named(seg, topic.Name)
			v.summary.Segments++
			v.summary.Bytes += seg.Size
			sound, err := v.compare(ctx, seg)
			if err != nil {
				return nil, err
			}
			if sound && v.cfg.Deep {
				whole = append(whole, seg)
			}
		}
	}
	return whole, v.out.err
}

// compare says whether all objects of a segment are there, and in the right size where the metadata tells it. What was
// not listed is asked for by its key before it is missing: custom metadata may place objects where no listing led.
func (v *verification) compare(ctx context.Context, seg *tier.Segment) (whole bool, err error) {
	s := v.seen[seg.ID]
	whole = true
	report := func(problem Problem, key, detail string) {
		whole = false
		v.find(findingOf(seg, problem, key, detail))
	}
	objects := v.layout.Objects(seg)
	if len(objects) == 0 {
		report(MissingLog, "", "a segment of these ids, offsets and topic name can have no objects")
	}
	files := 0
	for i := range objects {
		if objects[i].Part == layout.FilesPart && !objects[i].Optional {
			files++
		}
	}
	for i := range objects {
		o := &objects[i]
		if o.Part == layout.LogPart && seg.Size == 0 && !s.log {
			continue // compaction has left nothing, and the plugin then writes no object
		}
		seen, size := s.log, s.size
		problem := MissingLog
		switch o.Part {
		case layout.ManifestPart:
			seen, problem = s.meta, MissingMeta
		case layout.FilesPart:
			seen, problem = o.Optional || int(s.files) >= files, MissingFiles
		}
		if !seen {
			info, err := v.cfg.Store.Stat(ctx, o.Key)
			if rangeio.IsKind(err, rangeio.NotFound) {
				report(problem, o.Key, "")
				continue
			}
			if err != nil {
				problem, fatal := judge(err)
				if fatal != nil {
					return false, fatal
				}
				report(problem, o.Key, explain(err))
				continue
			}
			size = info.Size
			if slices.ContainsFunc(v.prefixes, func(prefix string) bool { return strings.HasPrefix(o.Key, prefix) }) {
				v.elsewhere[o.Key] = true
			}
		}
		if o.Size >= 0 && size != o.Size {
			report(WrongSize, o.Key, fmt.Sprintf("%d bytes, the metadata says %d", size, o.Size))
		}
	}
	return whole, nil
}

func findingOf(seg *tier.Segment, problem Problem, key, detail string) Finding {
	return Finding{problem, seg.Topic, seg.Partition.Partition, seg.ID.String(), key, strings.TrimSpace(detail)}
}

// startObjects compares each start object with the metadata. One above the metadata's start is legal: it is written
// first.
func (v *verification) startObjects(ctx context.Context, after *tier.Snapshot) error {
	for _, u := range v.starts {
		id, key := u.Partition, u.key
		p, _ := after.Partition(id)
		topic, _ := after.TopicByID(id.Topic)
		stored, _, err := v.native.ReadStart(ctx, rangeio.Object{Key: key, Size: u.size})
		if rangeio.IsKind(err, rangeio.NotFound) {
			continue // deleted since it was listed
		}
		if err != nil {
			if _, fatal := judge(err); fatal != nil {
				return fatal
			}
			v.find(Finding{DamagedStart, topic.Name, id.Partition, "", key, err.Error()})
			continue
		}
		if start := p.Bounds().Start; stored.Offset < start {
			v.find(Finding{StartBehind, topic.Name, id.Partition, "", key, fmt.Sprintf("it says %d, the metadata says %d", stored.Offset, start)})
		}
	}
	return nil
}
