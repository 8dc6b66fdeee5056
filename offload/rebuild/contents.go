package rebuild

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// Contents is what the objects of a bucket say.
type Contents struct {
	ClusterID string
	// Partitions are in the order in which they are to be recorded: of two topics with one name, the one with the
	// newest copy last, because the newest event decides which of them the name means.
	Partitions []Partition
	Findings   []Finding
	Foreign    int // objects that are not of the native layout
}

// Partition is one partition's part of a bucket.
type Partition struct {
	ID      tier.PartitionID
	Topic   string
	Start   int64                // first readable offset
	Lineage []segment.EpochStart // nil = to be derived from the segments
	// Segments are in state CopyFinished, by the time their copies began: of two that cover one range the one that
	// finished last is preferred.
	Segments []tier.Segment
}

// Segments counts them, and the bytes of their logs.
func (c *Contents) Segments() (n int, size int64) {
	for i := range c.Partitions {
		n += len(c.Partitions[i].Segments)
		for j := range c.Partitions[i].Segments {
			size += c.Partitions[i].Segments[j].Size
		}
	}
	return n, size
}

// Problem says what is wrong with an object.
type Problem string

const (
	Orphan       Problem = "orphan"        // a .log without .meta: an unfinished copy, or a half-done delete
	DamagedMeta  Problem = "damaged_meta"  // a damaged .meta, or one of another segment: its segment is left out
	DamagedStart Problem = "damaged_start" // a damaged start object: its partition is left out
	Withheld     Problem = "withheld"      // an object in an archive storage class, or denied: its segment or partition is left out
	MissingLog   Problem = "missing_log"   // a .meta without .log: its segment is left out
	WrongSize    Problem = "wrong_size"    // a .log that is not as large as its .meta says: its segment is left out
	Duplicate    Problem = "duplicate"     // a segment that is there again under another id: the copy that was finished last is recorded
	OtherCluster Problem = "other_cluster" // left out, because another cluster was chosen
	NoLineage    Problem = "no_lineage"    // the newest checkpoint is missing or damaged: the lineage is derived from the segments
)

// Finding is one thing that was not as it should be.
type Finding struct {
	Problem Problem `json:"problem"`
	Object  string  `json:"object"`
	Detail  string  `json:"detail,omitempty"`
}

// Lost says whether data that was in the tier may be missing from the rebuilt metadata.
func (f *Finding) Lost() bool {
	switch f.Problem {
	case DamagedMeta, DamagedStart, Withheld, MissingLog, WrongSize:
		return true
	}
	return false
}

// Lost says whether any finding does.
func (c *Contents) Lost() bool {
	return slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Lost() })
}

// clusterPartition is a partition of a cluster.
type clusterPartition struct {
	tier.PartitionID
	cluster string
}

func (p clusterPartition) compare(o clusterPartition) int {
	return cmp.Or(bytes.Compare(p.Topic[:], o.Topic[:]), cmp.Compare(p.Partition, o.Partition), strings.Compare(p.cluster, o.cluster))
}

// partitionObjects is what was found of one partition.
type partitionObjects struct {
	topic    string
	folder   string // of its objects
	segments []tier.Segment
	start    int64 // -1 = no start object

	newest     tier.Segment // whose checkpoint is the partition's lineage
	newestMeta rangeio.Object
	lineage    []segment.EpochStart
	noLineage  string // why there is none
}

// isNewer follows tier's choice of the winner: the log that ends in the greatest (last epoch, end offset) survived.
func isNewer(a, b *tier.Segment) bool {
	return cmp.Or(cmp.Compare(a.Epochs[len(a.Epochs)-1].Epoch, b.Epochs[len(b.Epochs)-1].Epoch),
		cmp.Compare(a.EndOffset, b.EndOffset), cmp.Compare(a.EventTime, b.EventTime)) > 0
}

// contents makes a Contents of what was gathered. It goes with an *Error too, for its findings.
func (s *scan) contents(chosen string) (*Contents, error) {
	clusters := make(map[string]int)
	for at, p := range s.partitions {
		clusters[at.cluster] += len(p.segments)
	}
	c := &Contents{ClusterID: chosen, Findings: s.findings, Foreign: s.foreign}
	defer func() {
		slices.SortFunc(c.Findings, func(a, b Finding) int {
			return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(string(a.Problem), string(b.Problem)))
		})
	}()
	switch {
	case chosen != "":
		if _, ok := clusters[chosen]; !ok {
			return c, refuse(Empty, "the bucket holds nothing of cluster %s", chosen)
		}
	case len(clusters) == 0:
		return c, refuse(Empty, "the bucket holds no segment that could be recorded")
	case len(clusters) > 1:
		var list []string
		for _, id := range slices.Sorted(maps.Keys(clusters)) {
			list = append(list, fmt.Sprintf("%q (%d segments)", id, clusters[id]))
		}
		return c, refuse(SeveralClusters, "the bucket holds segments of several clusters: %s; one database serves one cluster, so choose", strings.Join(list, ", "))
	default:
		for id := range clusters {
			c.ClusterID = id
		}
	}
	for id, n := range clusters {
		if id != c.ClusterID {
			c.Findings = append(c.Findings, Finding{OtherCluster, "", fmt.Sprintf("%d segments of cluster %q are left out", n, id)})
		}
	}
	seen := make(map[segment.UUID]bool)
	for _, at := range slices.SortedFunc(maps.Keys(s.partitions), clusterPartition.compare) {
		p := s.partitions[at]
		if at.cluster != c.ClusterID || s.startUnknown[p.folder] {
			continue
		}
		p.segments = slices.DeleteFunc(p.segments, func(s tier.Segment) bool {
			if seen[s.ID] {
				c.Findings = append(c.Findings, Finding{DamagedMeta, s.ID.String(), "another segment of the bucket has the same id"})
				return true
			}
			seen[s.ID] = true
			return false
		})
		p.dropDuplicates(c)
		if len(p.segments) > 0 || p.start >= 0 {
			c.Partitions = append(c.Partitions, p.resolve(at.PartitionID, c))
		}
	}
	newest := make(map[segment.UUID]int64)
	for i := range c.Partitions {
		p := &c.Partitions[i]
		newest[p.ID.Topic] = max(newest[p.ID.Topic], lastEvent(p.Segments))
	}
	slices.SortStableFunc(c.Partitions, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(newest[a.ID.Topic], newest[b.ID.Topic]), bytes.Compare(a.ID.Topic[:], b.ID.Topic[:]),
			cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	return c, nil
}

func lastEvent(segments []tier.Segment) (at int64) {
	for i := range segments {
		at = max(at, segments[i].EventTime)
	}
	return at
}

// dropDuplicates leaves out all but the last copy of segments that were copied again under other ids, as an offloader
// that had lost its database did.
func (o *partitionObjects) dropDuplicates(c *Contents) {
	copies := func(a, b tier.Segment) int {
		return cmp.Or(cmp.Compare(a.BaseOffset, b.BaseOffset), cmp.Compare(a.EndOffset, b.EndOffset), cmp.Compare(a.Size, b.Size),
			slices.CompareFunc(a.Epochs, b.Epochs, func(a, b segment.EpochStart) int {
				return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.StartOffset, b.StartOffset))
			}))
	}
	slices.SortFunc(o.segments, func(a, b tier.Segment) int {
		return cmp.Or(copies(a, b), cmp.Compare(b.EventTime, a.EventTime), bytes.Compare(b.ID[:], a.ID[:]))
	})
	kept := o.segments[:0]
	for _, s := range o.segments {
		if n := len(kept); n > 0 && copies(kept[n-1], s) == 0 {
			c.Findings = append(c.Findings, Finding{Duplicate, s.ID.String(),
				fmt.Sprintf("offsets %d to %d are there again as segment %s", s.BaseOffset, s.EndOffset, kept[n-1].ID)})
			continue
		}
		kept = append(kept, s)
	}
	o.segments = kept
}

// resolve decides lineage and start.
func (o *partitionObjects) resolve(id tier.PartitionID, c *Contents) Partition {
	p := Partition{ID: id, Topic: o.topic, Start: o.start, Lineage: o.lineage, Segments: o.segments}
	if o.noLineage != "" {
		c.Findings = append(c.Findings, Finding{NoLineage, o.newestMeta.Key, o.noLineage})
	}
	slices.SortFunc(p.Segments, func(a, b tier.Segment) int {
		return cmp.Or(cmp.Compare(a.EventTime, b.EventTime), cmp.Compare(a.BaseOffset, b.BaseOffset), bytes.Compare(a.ID[:], b.ID[:]))
	})
	if p.Start >= 0 {
		return p
	}
	// Without a start object the start has never moved, and is that of the first readable segment, as the tier derives it:
	// above the segment's base when the log start had moved inside the segment before it was copied.
	t := tier.New()
	changes := []tier.Change{tier.LineageChanged{Partition: id, Epochs: p.Lineage}}
	lowest := p.Segments[0].BaseOffset
	for i := range p.Segments {
		changes = append(changes, tier.SegmentLoaded{Segment: p.Segments[i]})
		lowest = min(lowest, p.Segments[i].BaseOffset)
	}
	t.Apply(changes...)
	p.Start = lowest
	if model, ok := t.Snapshot().Partition(id); ok && model.Bounds().Start >= 0 {
		p.Start = model.Bounds().Start
	}
	return p
}
