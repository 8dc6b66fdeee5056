package archive

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// resolution is a partition as its manifests describe it: which copies count, its lineage, its start.
type resolution struct {
	id      tier.PartitionID
	topic   string
	entries []*entry // those that count, by age; of several copies of a range the last one
	newest  *entry   // nil when there is none
	start   *start   // nil when there is no start object
	lineage *lineage // nil when there is no newest
	tally   tally

	// Of the newest, for reading its checkpoint without the lock.
	seg  *tier.Segment
	mark mark
}

// names are the cluster's id and the topics' names, which all usable manifests together decide.
type names struct {
	cluster string
	topics  map[segment.UUID]topicName
}

// topicName is a topic's name, and the time of the event that has it.
type topicName struct {
	name string
	at   int64
}

// severalClusters says that the bucket holds several clusters, and the configuration names none of them.
type severalClusters struct{ segments map[string]int }

func (e *severalClusters) Error() string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(e.segments)) {
		list = append(list, fmt.Sprintf("%q (%d segments)", id, e.segments[id]))
	}
	return "the bucket holds segments of several clusters, and none was chosen: " + strings.Join(list[:min(len(list), maxExamples)], ", ")
}

// decideNames goes through all usable manifests; the caller holds the lock. Of a topic id's names the one with the
// newest event counts. chosen is the cluster that is served, "" = the only one.
func (k *inventory) decideNames(chosen string) (*names, error) {
	c := &names{cluster: chosen, topics: make(map[segment.UUID]topicName)}
	clusters := make(map[string]int)
	segments := make([]int, len(k.origins.all()))
	for e := range k.entries.all {
		if !e.usable {
			continue
		}
		segments[e.from]++
		if own := k.origins.get(e.from).cluster; own != "" && chosen != "" && own != chosen {
			continue
		}
		now, have := topicName{e.seg.Topic, e.seg.EventTime}, c.topics[e.seg.Partition.Topic]
		if cmp.Or(cmp.Compare(now.at, have.at), strings.Compare(now.name, have.name)) > 0 || have.name == "" {
			c.topics[e.seg.Partition.Topic] = now
		}
	}
	for i, n := range segments {
		if own := k.origins.get(uint32(i)).cluster; own != "" && n > 0 {
			clusters[own] += n
		}
	}
	for _, p := range k.partitions {
		if p.start != nil && p.start.cluster != "" {
			clusters[p.start.cluster] += 0
		}
	}
	if chosen == "" && len(clusters) > 1 {
		return nil, &severalClusters{clusters}
	}
	if chosen == "" {
		for id := range clusters {
			c.cluster = id
		}
	}
	return c, nil
}

// touchRenamed touches the partitions of topics whose name is another one than before; the caller holds the lock.
func (k *inventory) touchRenamed(before, now *names) {
	for id, p := range k.partitions {
		if p.entries != nil && before.topics[id.Topic].name != now.topics[id.Topic].name {
			p.touched = true
		}
	}
}

// resolve decides which manifests of a partition count; the caller holds the lock.
func (k *inventory) resolve(id tier.PartitionID, c *names) *resolution {
	p := k.partition(id)
	u := &resolution{id: id, topic: c.topics[id.Topic].name}
	if p.start != nil && (p.start.cluster == "" || p.start.cluster == c.cluster) {
		u.start = p.start
		if u.topic == "" {
			u.topic = p.start.topic
		}
	}
	for e := range p.all {
		if !e.usable {
			continue
		}
		switch own := k.origins.get(e.from).cluster; {
		case own != "" && own != c.cluster:
			u.tally.add(OtherCluster, nameOf(e.seg), fmt.Sprintf("of cluster %q", own))
		case e.seg.Topic != u.topic:
			u.tally.add(Misplaced, nameOf(e.seg), fmt.Sprintf("newer segments of the topic's id are of %q", u.topic))
		default:
			u.entries = append(u.entries, e)
		}
	}
	u.sort()
	if u.newest == nil {
		p.lineage = nil
		return u
	}
	u.seg, u.mark = u.newest.seg, u.newest.mark()
	if p.lineage != nil && p.lineage.of == u.mark {
		u.lineage = p.lineage
	}
	return u
}

// lacksLineage says that the newest segment's checkpoint has to be read.
func (u *resolution) lacksLineage() bool { return u.newest != nil && u.lineage == nil }

// sort orders the entries and leaves out all but the last copy of each range.
func (u *resolution) sort() {
	slices.SortFunc(u.entries, byAge)
	type offsets struct{ base, end int64 }
	last := make(map[offsets][]*entry, len(u.entries))
	kept := u.entries[:0:0]
	for _, e := range slices.Backward(u.entries) {
		at := offsets{e.seg.BaseOffset, e.seg.EndOffset}
		i := slices.IndexFunc(last[at], func(o *entry) bool { return slices.Equal(o.seg.Epochs, e.seg.Epochs) })
		if i >= 0 {
			u.tally.add(Duplicate, nameOf(e.seg), fmt.Sprintf("segment %v of the same offsets was copied later", last[at][i].seg.ID))
			continue
		}
		last[at] = append(last[at], e)
		kept = append(kept, e)
		if u.newest == nil || isNewer(e, u.newest) {
			u.newest = e
		}
	}
	slices.Reverse(kept)
	u.entries = kept
}

func nameOf(s *tier.Segment) string {
	return fmt.Sprintf("segment %v of %s-%d, offsets %d to %d", s.ID, s.Topic, s.Partition.Partition, s.BaseOffset, s.EndOffset)
}

// changes replace the partition in the tier.
func (u *resolution) changes() []tier.Change {
	forget := tier.PartitionForgotten{Partition: u.id}
	if u.start != nil && u.start.flaw != "" || u.start == nil && u.newest == nil {
		// What retention has deleted must not come back, so without a start object that can be believed nothing is served.
		u.entries = nil
		return []tier.Change{forget}
	}
	changes := make([]tier.Change, 0, len(u.entries)+4)
	changes = append(changes, forget, tier.TopicSeen{ID: u.id.Topic, Name: u.topic})
	for _, e := range u.entries {
		changes = append(changes, tier.SegmentLoaded{Segment: *e.seg})
	}
	l, start := u.lineage, int64(-1)
	if l != nil && l.checkpoint == nil {
		u.tally.add(NoLineage, nameOf(u.newest.seg), l.why)
		l = nil
	}
	if l != nil && !u.isPlain(l.checkpoint) {
		var holds bool
		if holds, start = u.applyCheckpoint(l.checkpoint, changes); !holds {
			u.tally.add(NoLineage, nameOf(u.newest.seg), "its own checkpoint does not hold it")
			l = nil
		}
	}
	if l != nil {
		changes = append(changes, tier.LineageChanged{Partition: u.id, Epochs: l.checkpoint.Epochs})
	}
	if u.start != nil {
		start = u.start.offset
	}
	if start >= 0 {
		changes = append(changes, tier.BoundsChanged{Partition: u.id, Bounds: tier.Bounds{Start: start, LocalStart: -1, HighWatermark: -1, LastStable: -1}})
	}
	return changes
}

// isPlain says, without a model of all segments, that the newest segment is in the lineage of its own checkpoint, and
// that the checkpoint implies no start, whatever the other segments are. It is so for nearly every partition, and
// halves the time of a start.
func (u *resolution) isPlain(c *layout.Checkpoint) bool {
	top := 0 // epochs without records do not count
	for top+1 < len(c.Epochs) && c.Epochs[top+1].StartOffset == c.Epochs[top].StartOffset {
		top++
	}
	// What lies below the checkpoint's first epoch is derived from the other segments.
	if u.newest.seg.Epochs[0].Epoch < c.Epochs[top].Epoch {
		return false
	}
	for _, e := range u.entries {
		if e.seg.BaseOffset < c.Start {
			return false
		}
	}
	m := model{tier.New(), u.id}
	p := m.apply(tier.SegmentLoaded{Segment: *u.newest.seg}, tier.LineageChanged{Partition: u.id, Epochs: c.Epochs})
	return p.Readable(u.newest.seg.ID)
}

// applyCheckpoint makes a model of the partition, and says whether the newest segment is in the lineage of its own
// checkpoint, and which start the checkpoint implies, -1 for none.
func (u *resolution) applyCheckpoint(c *layout.Checkpoint, loads []tier.Change) (holds bool, start int64) {
	m := model{tier.New(), u.id}
	m.apply(loads...)
	p := m.apply(tier.LineageChanged{Partition: u.id, Epochs: c.Epochs})
	if !p.Readable(u.newest.seg.ID) {
		return false, -1
	}
	if c.Start > p.Bounds().Start && c.Start <= p.TieredEnd() {
		return true, c.Start
	}
	return true, -1
}

// model is a tier that holds one partition.
type model struct {
	tier      *tier.Tier
	partition tier.PartitionID
}

func (m *model) apply(changes ...tier.Change) *tier.Partition {
	m.tier.Apply(changes...)
	p, ok := m.tier.Snapshot().Partition(m.partition)
	if !ok {
		return new(tier.Partition)
	}
	return p
}

// reportProblems reports what readers of the partition will run into.
func (u *resolution) reportProblems(p *tier.Partition) {
	var readable []*tier.Segment
	for _, s := range p.Segments(true) {
		if p.Readable(s.ID) {
			readable = append(readable, s)
		} else {
			u.tally.add(Divergent, nameOf(s), "")
		}
	}
	for at := p.Bounds().Start; at < p.TieredEnd(); {
		if s, ok := p.Find(at); ok {
			at = s.EndOffset + 1
			continue
		}
		for len(readable) > 0 && readable[0].EndOffset < at {
			readable = readable[1:]
		}
		if len(readable) == 0 {
			return
		}
		to := max(readable[0].BaseOffset, readable[0].Epochs[0].StartOffset)
		if to <= at {
			to = readable[0].EndOffset + 1
		}
		u.tally.add(Gap, fmt.Sprintf("%s-%d", u.topic, u.id.Partition), fmt.Sprintf("offsets %d to %d are in no segment", at, to-1))
		at = to
	}
}
