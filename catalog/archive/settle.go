package archive

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coldtap/segment"
	"coldtap/tier"
)

// unsettled is a partition in which something changed.
type unsettled struct {
	id      tier.PartitionID
	topic   string
	entries []*entry // those that count, by age, of several copies of a range the last one
	newest  *entry   // nil when there is none
	start   *start   // nil when there is no start object
	tally   tally
}

// census is what all usable manifests together decide.
type census struct {
	cluster string
	names   map[segment.UUID]topicName
}

// topicName is a topic's name, and the event that told it.
type topicName struct {
	name string
	at   int64
}

// severalClusters says that nobody chose among the clusters of a bucket.
type severalClusters struct{ segments map[string]int }

func (e *severalClusters) Error() string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(e.segments)) {
		list = append(list, fmt.Sprintf("%q (%d segments)", id, e.segments[id]))
	}
	return "the bucket holds segments of several clusters, and none was chosen: " + strings.Join(list[:min(len(list), maxExamples)], ", ")
}

// count takes the census. Of a topic id's names the one with the newest event counts; chosen is the cluster that is served,
// "" = the only one.
func (k *known) count(chosen string) (*census, error) {
	c := &census{cluster: chosen, names: make(map[segment.UUID]topicName)}
	clusters := make(map[string]int)
	for _, e := range k.entries {
		if !e.usable {
			continue
		}
		if e.from.cluster != "" {
			clusters[e.from.cluster]++
		}
		if e.from.cluster != "" && chosen != "" && e.from.cluster != chosen {
			continue
		}
		now, have := topicName{e.seg.Topic, e.seg.EventTime}, c.names[e.seg.Partition.Topic]
		if cmp.Or(cmp.Compare(now.at, have.at), strings.Compare(now.name, have.name)) > 0 || have.name == "" {
			c.names[e.seg.Partition.Topic] = now
		}
	}
	for _, s := range k.starts {
		if s.cluster != "" {
			clusters[s.cluster] += 0
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

// renamed touches the partitions of topics whose name another manifest decides than before.
func (k *known) renamed(before, now *census) {
	for _, e := range k.entries {
		if e.usable && before.names[e.seg.Partition.Topic].name != now.names[e.seg.Partition.Topic].name {
			k.touch(e.seg.Partition)
		}
	}
}

// gather sorts the manifests of touched partitions.
func (k *known) gather(c *census) map[tier.PartitionID]*unsettled {
	all := make(map[tier.PartitionID]*unsettled, len(k.touched))
	for id := range k.touched {
		u := &unsettled{id: id, topic: c.names[id.Topic].name}
		if st, ok := k.starts[id]; ok && (st.cluster == "" || st.cluster == c.cluster) {
			u.start = &st
			if u.topic == "" {
				u.topic = st.topic
			}
		}
		all[id] = u
	}
	for _, e := range k.entries {
		if !e.usable {
			continue
		}
		u := all[e.seg.Partition]
		switch {
		case u == nil:
		case e.from.cluster != "" && e.from.cluster != c.cluster:
			u.tally.add(OtherCluster, nameOf(e.seg), fmt.Sprintf("of cluster %q", e.from.cluster))
		case e.seg.Topic != u.topic:
			u.tally.add(Misplaced, nameOf(e.seg), fmt.Sprintf("newer segments of the topic's id are of %q", u.topic))
		default:
			u.entries = append(u.entries, e)
		}
	}
	for _, u := range all {
		u.sort()
	}
	return all
}

// sort orders the entries and leaves out all but the last copy of each range.
func (u *unsettled) sort() {
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

// changes say what the partition is now.
func (u *unsettled) changes(l *lineage) []tier.Change {
	forget := tier.PartitionForgotten{Partition: u.id}
	if u.start != nil && u.start.flaw != "" || u.start == nil && u.newest == nil {
		// What retention has deleted must not come back, so without a start object that can be believed nothing is served.
		u.entries = nil
		return []tier.Change{forget}
	}
	bounds := tier.Bounds{Start: -1, LocalStart: -1, HighWatermark: -1, LastStable: -1}
	changes := make([]tier.Change, 0, len(u.entries)+4)
	changes = append(changes, forget, tier.TopicSeen{ID: u.id.Topic, Name: u.topic})
	for _, e := range u.entries {
		changes = append(changes, tier.SegmentLoaded{Segment: *e.seg})
	}
	if l != nil && l.checkpoint != nil {
		changes = append(changes, tier.LineageChanged{Partition: u.id, Epochs: l.checkpoint.Epochs})
	} else if l != nil {
		u.tally.add(NoLineage, nameOf(u.newest.seg), l.why)
	}
	p := u.model(changes)
	if l != nil && l.checkpoint != nil && !p.Readable(u.newest.seg.ID) {
		u.tally.add(NoLineage, nameOf(u.newest.seg), "its own checkpoint does not hold it")
		changes, l = changes[:len(changes)-1], nil
		p = u.model(changes)
	}
	switch {
	case u.start != nil:
		bounds.Start = u.start.offset
	case l != nil && l.checkpoint != nil && l.checkpoint.Start > p.Bounds().Start && l.checkpoint.Start <= p.TieredEnd():
		bounds.Start = l.checkpoint.Start
	}
	if bounds.Start >= 0 {
		changes = append(changes, tier.BoundsChanged{Partition: u.id, Bounds: bounds})
		p = u.model(changes)
	}
	u.examine(p)
	return changes
}

// model is the partition as the changes make it.
func (u *unsettled) model(changes []tier.Change) *tier.Partition {
	t := tier.New()
	t.Apply(changes...)
	p, ok := t.Snapshot().Partition(u.id)
	if !ok {
		return new(tier.Partition)
	}
	return p
}

// examine reports what readers of the partition will run into.
func (u *unsettled) examine(p *tier.Partition) {
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
