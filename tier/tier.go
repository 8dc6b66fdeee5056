// Package tier is the model of what the tier holds: segments and their states, each partition's bounds, lineage and
// holes, and the look-up of the segment to read an offset from. It is pure and in memory; catalogs feed it with
// changes.
//
// Invariants:
//   - A segment is given out for reading only while it is COPY_SEGMENT_FINISHED and in the partition's lineage: every
//     record in it belongs to the history that the surviving log went through. A deposed leader's divergent segment is
//     never given.
//   - A look-up is by leader epoch and offset. Identity is the segment's id and the topic's id, never an offset, a name
//     or a time.
//   - Only legal transitions happen; everything else is dropped and reported, for it is normal traffic of a metadata
//     topic.
//   - A Snapshot and all it gives are immutable. One Apply becomes visible at once and as a whole, so a start that
//     moves and the segment that goes with it are never seen apart, nor bounds and whether they can be relied on.
//     Readers take no lock.
//   - A change costs a few KiB of copying however many segments a partition has, since versions share what did not
//     change.
//
// Non-goals: I/O, deciding what to copy or delete, the clock, and the brokers' view (local log, high watermark are
// carried, not used).
package tier

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"coldtap/segment"
)

// Tier applies changes and publishes immutable snapshots. Apply may be called concurrently but takes turns; Snapshot
// never waits.
type Tier struct {
	snapshot atomic.Pointer[Snapshot]

	mu            sync.Mutex
	generation    uint64 // of the running Apply: what carries it may be written in place
	partitions    cowList[*Partition]
	touched       []*Partition
	topics        map[segment.UUID]*topicFacts
	topicsChanged bool // the set of topics has to be made anew
	segments      int
	withdrawn     []*Segment // by the running Apply

	owners           map[string]segment.UUID // of names, by TopicOwned
	certainty        certainties             // the newest snapshot's, until the running Apply changes it
	certaintyChanged bool                    // by the running Apply
}

// New makes an empty tier.
func New() *Tier {
	t := &Tier{topics: make(map[segment.UUID]*topicFacts), owners: make(map[string]segment.UUID)}
	t.snapshot.Store(&Snapshot{topics: newTopicSet(&t.partitions, nil, nil)})
	return t
}

// Snapshot is the newest view; never nil.
func (t *Tier) Snapshot() *Snapshot { return t.snapshot.Load() }

// Apply takes changes in order and publishes their outcome once, at the end. What is impossible is left out and
// returned. Slices in the changes are copied.
func (t *Tier) Apply(changes ...Change) []Rejected { return t.ApplyAll(changes).Rejected }

// ApplyAll is Apply that also gives which segments stopped being readable because their state did.
func (t *Tier) ApplyAll(changes []Change) Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	var rejected []Rejected
	for _, c := range changes {
		if reason := t.apply(c); reason != "" {
			rejected = append(rejected, Rejected{c, reason})
		}
	}
	t.publish()
	withdrawn := t.withdrawn
	t.withdrawn = nil
	return Outcome{rejected, withdrawn}
}

func (t *Tier) apply(c Change) (reason string) {
	switch c := c.(type) {
	case TopicSeen:
		if c.Name == "" {
			return ReasonMalformed
		}
		t.topicSeen(c.ID, c.Name, c.At)
	case SegmentAdded:
		return t.add(&c.Segment)
	case SegmentUpdated:
		return t.update(&c)
	case SegmentLoaded:
		return t.load(&c.Segment)
	case SegmentRestored:
		return t.restore(&c)
	case EpochRestored:
		if c.EpochEnd.Epoch < 0 || c.EpochEnd.End < 0 {
			return ReasonMalformed
		}
		p := t.edit(c.Partition)
		x := p.finished.edit(t.generation, c.EpochEnd.Epoch)
		x.highest = max(x.highest, c.EpochEnd.End)
	case TopicOwned:
		if c.Name == "" {
			return ReasonMalformed
		}
		t.setOwner(c.Name, c.ID)
	case BoundsChanged:
		p := t.edit(c.Partition)
		t.topicsChanged = t.topicsChanged || !p.isListed()
		p.bounds, p.hasBounds = c.Bounds, true
	case CertaintyChanged:
		t.setCertainty(c.Topic, c.Certainty)
	case LineageChanged:
		if validateEpochs(c.Epochs) != nil {
			return ReasonMalformed
		}
		p := t.edit(c.Partition)
		p.reported, p.lineageOutdated = checkpointLineage(c.Epochs), true
	case HoleRecorded:
		if c.Hole.From < 0 || c.Hole.To <= c.Hole.From {
			return ReasonMalformed
		}
		p := t.edit(c.Partition)
		p.holes, _ = p.holes.with(c.Hole)
	case PartitionForgotten:
		if p := t.peek(c.Partition); p != nil {
			t.segments -= p.byID.size
			for s := range p.byBase.all() {
				if s.State == CopyFinished {
					t.withdrawn = append(t.withdrawn, s)
				}
			}
			*t.edit(c.Partition) = Partition{id: c.Partition, generation: t.generation, bounds: unknownBounds}
			t.topicsChanged = true
		}
	default:
		return ReasonMalformed
	}
	return ""
}

func (t *Tier) add(s *Segment) (reason string) {
	switch {
	case !s.State.Known():
		return ReasonUnknownState
	case s.State != CopyStarted:
		return ReasonIllegalTransition
	case s.Validate() != nil:
		return ReasonMalformed
	}
	if p := t.peek(s.Partition); p != nil {
		if old, ok := p.Segment(s.ID); ok && !old.State.CanBecome(CopyStarted) {
			return ReasonIllegalTransition
		}
	}
	t.insert(s)
	return ""
}

func (t *Tier) load(s *Segment) (reason string) {
	switch {
	case !s.State.Known():
		return ReasonUnknownState
	case s.Validate() != nil:
		return ReasonMalformed
	case s.State == DeleteFinished:
		t.drop(s.Partition, s.ID)
		t.topicEvent(s.Partition.Topic, s.EventTime)
	default:
		t.insert(s)
	}
	return ""
}

func (t *Tier) restore(c *SegmentRestored) (reason string) {
	switch {
	case !c.Segment.State.Known():
		return ReasonUnknownState
	case c.Segment.State == DeleteFinished:
		return ReasonIllegalTransition
	case c.Segment.Validate() != nil:
		return ReasonMalformed
	}
	p, s := t.putCopy(&c.Segment)
	p.indexRestored(s, c.Shadowed)
	return ""
}

func (t *Tier) setOwner(name string, id segment.UUID) {
	if t.owners[name] == id {
		return
	}
	if id == (segment.UUID{}) {
		delete(t.owners, name)
	} else {
		t.owners[name] = id
	}
	t.topicsChanged = true
}

// setCertainty files the certainty of a topic, and has the partitions that it concerns published.
func (t *Tier) setCertainty(topic segment.UUID, c *TopicCertainty) {
	if !t.certaintyChanged {
		t.certainty, t.certaintyChanged = maps.Clone(t.certainty), true
	}
	if t.certainty == nil {
		t.certainty = certainties{}
	}
	if c == nil {
		delete(t.certainty, topic)
	} else {
		t.certainty[topic] = c
	}
	var changed []PartitionID
	for p := range t.partitions.upFrom(partitionPosition(&t.partitions, PartitionID{topic, math.MinInt32})) {
		if p.id.Topic != topic && !topic.IsZero() {
			break
		}
		if p.certainty != t.certainty.topic(p.id.Topic).of(p.id.Partition) {
			changed = append(changed, p.id)
		}
	}
	for _, id := range changed {
		t.edit(id)
	}
}

func (t *Tier) update(c *SegmentUpdated) (reason string) {
	if !c.State.Known() {
		return ReasonUnknownState
	}
	p := t.peek(c.Partition)
	if p == nil {
		return ReasonUnknownSegment
	}
	old, ok := p.Segment(c.ID)
	switch {
	case !ok:
		return ReasonUnknownSegment
	case c.State == CopyStarted || !old.State.CanBecome(c.State):
		return ReasonIllegalTransition
	case c.State == DeleteFinished:
		t.drop(c.Partition, c.ID)
	default:
		s := *old
		s.State, s.BrokerID, s.EventTime, s.Custom = c.State, c.BrokerID, c.At, slices.Clone(c.Custom)
		p := t.edit(c.Partition)
		p.put(&s)
		p.index(&s)
		if old.State == CopyFinished && s.State != CopyFinished {
			t.withdrawn = append(t.withdrawn, old)
		}
	}
	t.topicEvent(c.Partition.Topic, c.At)
	return ""
}

// insert puts in a copy of s, which look-ups prefer from now on when it is finished.
func (t *Tier) insert(s *Segment) {
	p, own := t.putCopy(s)
	p.index(own)
}

// putCopy puts in a copy of s, which look-ups do not find yet.
func (t *Tier) putCopy(s *Segment) (*Partition, *Segment) {
	own := *s
	own.Epochs = slices.Clone(s.Epochs)
	own.Custom = slices.Clone(s.Custom)
	if s.Topic != "" {
		// One string for all segments of a topic: names come off the wire as a new string each time.
		own.Topic = t.topicSeen(s.Partition.Topic, s.Topic, s.EventTime)
	}
	p := t.edit(s.Partition)
	t.topicsChanged = t.topicsChanged || !p.isListed()
	old := p.put(&own)
	switch {
	case old == nil:
		t.segments++
	case old.State == CopyFinished && own.State != CopyFinished:
		t.withdrawn = append(t.withdrawn, old)
	}
	return p, &own
}

func (t *Tier) drop(id PartitionID, segmentID segment.UUID) {
	p := t.peek(id)
	if p == nil {
		return
	}
	s, ok := p.Segment(segmentID)
	if !ok {
		return
	}
	p = t.edit(id)
	p.drop(s)
	if s.State == CopyFinished {
		t.withdrawn = append(t.withdrawn, s)
	}
	t.segments--
	t.topicsChanged = t.topicsChanged || !p.isListed()
}

// topicSeen gives the topic's name as the tier holds it. The newest event decides on the name too.
func (t *Tier) topicSeen(id segment.UUID, name string, at int64) string {
	f := t.topics[id]
	if f == nil {
		f = &topicFacts{name: name, newest: at}
		t.topics[id] = f
		t.topicsChanged = true
		return f.name
	}
	if f.name != name && at >= f.newest {
		f.name = name
		t.topicsChanged = true
	}
	t.topicEvent(id, at)
	if f.name == name {
		return f.name
	}
	return name
}

func (t *Tier) topicEvent(id segment.UUID, at int64) {
	f := t.topics[id]
	if f == nil || at <= f.newest {
		return
	}
	f.newest = at
	t.topicsChanged = t.topicsChanged || t.Snapshot().topics.rivals[f.name]
}

// peek gives a partition as the running Apply has left it, or nil.
func (t *Tier) peek(id PartitionID) *Partition {
	if p := t.partitions.at(partitionPosition(&t.partitions, id)); p != nil && (*p).id == id {
		return *p
	}
	return nil
}

// edit gives the running Apply's own copy of a partition, made when there is none.
func (t *Tier) edit(id PartitionID) *Partition {
	at := partitionPosition(&t.partitions, id)
	found := t.partitions.at(at)
	var p *Partition
	switch {
	case found == nil || (*found).id != id:
		p = &Partition{id: id, generation: t.generation, bounds: unknownBounds}
		t.partitions.insert(t.generation, at, p)
	case (*found).generation == t.generation:
		return *found
	default:
		own := **found
		p = &own
		p.generation = t.generation
		p.finished = slices.Clone(p.finished)
		t.partitions.set(t.generation, at, p)
	}
	t.touched = append(t.touched, p)
	return p
}

func (t *Tier) publish() {
	if len(t.touched) == 0 && !t.topicsChanged && !t.certaintyChanged {
		return
	}
	t.certaintyChanged = false
	for _, p := range t.touched {
		p.recompute()
		p.certainty = t.certainty.topic(p.id.Topic).of(p.id.Partition)
		if p.isEmpty() {
			t.partitions.remove(t.generation, partitionPosition(&t.partitions, p.id))
		}
	}
	clear(t.touched)
	t.touched = t.touched[:0]
	topics := t.Snapshot().topics
	if t.topicsChanged {
		topics = newTopicSet(&t.partitions, t.topics, t.owners)
		t.topicsChanged = false
	}
	t.snapshot.Store(&Snapshot{topics, t.partitions, t.certainty, t.segments})
}
