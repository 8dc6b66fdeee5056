package tier

import (
	"bytes"
	"cmp"
	"slices"

	"coldtap/segment"
)

// Partition is one partition's view. It is immutable; all methods may be called concurrently.
type Partition struct {
	id         PartitionID
	generation uint64 // the Apply that may write to it, before it is published

	bounds          Bounds
	hasBounds       bool
	certainty       Certainty
	reported        lineage // as LineageChanged gave it
	holes           holes
	byBase          cowList[*Segment] // by base offset, end offset, id: every state
	byID            cowList[*Segment]
	byEnd           cowList[*Segment] // the finished ones, by end offset, last epoch, id
	finished        epochs
	lineageOutdated bool // reported or finished changed since recompute

	// What recompute makes of the above.
	lineage   lineage
	start     int64
	tieredEnd int64
}

// ID names the partition.
func (p *Partition) ID() PartitionID { return p.id }

// Bounds are what was reported, with Start filled in: the first offset of the first readable segment when none was, -1
// when there is no such segment either.
func (p *Partition) Bounds() Bounds {
	b := p.bounds
	b.Start = p.start
	return b
}

// Certainty says how far Bounds can be relied on, and the lineage with them.
func (p *Partition) Certainty() Certainty { return p.certainty }

// StartReported says that Bounds().Start was reported, and is not what the segments that are left begin with. A
// reported start only moves up: what is below it stays unreadable.
func (p *Partition) StartReported() bool { return p.bounds.Start >= 0 }

// Leaving says whether offset lies where deletes eat up the tier from its start: no readable segment holds it or
// anything between the start and it, one in DELETE_SEGMENT_STARTED does, which nothing makes readable again, and there
// is something readable behind. to is where that ends: the first offset that a readable segment holds, or that no such
// delete does.
//
// Brokers raise the log start before they publish the deletes of retention, and what they delete is always the first of
// the lineage, up to some segment (RemoteLogManager's expiration task). So the start that was reported is late, or the
// topic is going as a whole. A delete with something readable below it is no retention, and says nothing.
func (p *Partition) Leaving(offset int64) (to int64, ok bool) {
	if offset < p.start || len(p.lineage) == 0 {
		return 0, false
	}
	to = offset
	for s := range p.byBase.all() {
		switch {
		case s.EndOffset < p.start:
		case p.readable(s):
			if s.firstReadable() <= offset {
				return 0, false
			}
			return min(to, s.firstReadable()), to > offset
		case s.State == DeleteStarted && s.BaseOffset <= to && p.inherits(s):
			to = max(to, s.EndOffset+1)
		}
	}
	return 0, false
}

// inherits says that no record of a segment contradicts the lineage. A segment may lie wholly before the lineage, which
// follows from what is finished and is trimmed to the log start where it was reported.
func (p *Partition) inherits(s *Segment) bool {
	return s.lastEpoch() < p.lineage[0].Epoch || p.lineage.holds(s)
}

// TieredEnd is the offset behind the last readable segment; it equals Bounds().Start when nothing is tiered. Gaps below
// it don't lower it.
func (p *Partition) TieredEnd() int64 { return p.tieredEnd }

// Find gives the readable segment to read offset from: the one that holds it along the lineage (by leader epoch), or,
// when offset lies in a recorded hole, the first one behind the hole. false below the start, at or above the end, or
// when no segment covers it: a gap that is no recorded hole is never jumped over.
//
// Overlapping segments give each offset once when the next look-up is for EndOffset+1.
func (p *Partition) Find(offset int64) (*Segment, bool) {
	if offset < p.start || offset >= p.tieredEnd {
		return nil, false
	}
	if s, ok := p.holding(offset); ok {
		return s, true
	}
	to := p.holes.past(offset)
	if to == offset {
		return nil, false
	}
	s, _, ok := p.behind(offset, to)
	return s, ok
}

// behind gives the first readable segment that begins to hold offsets in (offset, to], and where. A segment may begin
// inside a hole, and then it is the one: what it holds is not damaged.
func (p *Partition) behind(offset, to int64) (s *Segment, start int64, ok bool) {
	for i := max(p.lineage.at(offset), 0); i < len(p.lineage) && p.lineage[i].StartOffset <= to; i++ {
		e := p.lineage[i]
		x := p.finished.get(e.Epoch)
		if x == nil {
			continue
		}
		from := max(offset, e.StartOffset)
		if s, ok := x.find(from, p.lineage.holds); ok {
			return s, from, true
		}
		limit := to
		if i+1 < len(p.lineage) {
			limit = min(limit, p.lineage[i+1].StartOffset-1)
		}
		if s, ok := x.first(from, limit, p.lineage.holds); ok {
			start, _, _ := s.EndOfEpoch(e.Epoch)
			return s, start, true
		}
	}
	return nil, 0, false
}

func (p *Partition) holding(offset int64) (*Segment, bool) {
	epoch, ok := p.EpochFor(offset)
	if !ok {
		return nil, false
	}
	return p.FindEpoch(epoch, offset)
}

// FindEpoch is Kafka's look-up by (epoch, offset): the segment of that epoch with the greatest start not above offset,
// if it reaches that far; else any other readable segment that holds the offset in that epoch, which Kafka's single
// probe would miss. It knows no bounds. Segments out of the lineage are never given.
func (p *Partition) FindEpoch(epoch int32, offset int64) (*Segment, bool) {
	x := p.finished.get(epoch)
	if x == nil {
		return nil, false
	}
	return x.find(offset, p.lineage.holds)
}

// Next is Find(s.EndOffset+1).
func (p *Partition) Next(s *Segment) (*Segment, bool) { return p.Find(s.EndOffset + 1) }

// Readable says whether the segment is readable in this view: COPY_SEGMENT_FINISHED and in the lineage.
func (p *Partition) Readable(id segment.UUID) bool {
	s, ok := p.Segment(id)
	return ok && p.readable(s)
}

func (p *Partition) readable(s *Segment) bool {
	return s.State == CopyFinished && p.lineage.holds(s)
}

// Segment gives a segment by its id, in any state but DELETE_SEGMENT_FINISHED, readable or not.
func (p *Partition) Segment(id segment.UUID) (*Segment, bool) {
	if s := p.byID.at(p.idPosition(id)); s != nil && (*s).ID == id {
		return *s, true
	}
	return nil, false
}

// HasFinished says whether a segment is CopyFinished here; nothing is in a nil partition.
func (p *Partition) HasFinished(id segment.UUID) bool {
	if p == nil {
		return false
	}
	s, ok := p.Segment(id)
	return ok && s.State == CopyFinished
}

// Segments lists in base-offset order: readable ones along the lineage, or all (every state but
// DELETE_SEGMENT_FINISHED).
func (p *Partition) Segments(all bool) []*Segment {
	var list []*Segment
	if all {
		list = make([]*Segment, 0, p.byBase.size)
	}
	for s := range p.byBase.all() {
		if all || p.readable(s) {
			list = append(list, s)
		}
	}
	return list
}

// Finished counts the segments in COPY_SEGMENT_FINISHED, readable or not.
func (p *Partition) Finished() int { return p.byEnd.size }

// EpochFor gives the lineage's epoch of an offset; false below the lineage's first epoch.
func (p *Partition) EpochFor(offset int64) (int32, bool) {
	i := p.lineage.at(offset)
	if i < 0 {
		return -1, false
	}
	return p.lineage[i].Epoch, true
}

// Lineage lists the leader epochs that wrote records, ascending, and where each began: those that were reported,
// continued downwards from the segments, or derived from the segments alone.
func (p *Partition) Lineage() []segment.EpochStart { return slices.Clone(p.lineage) }

// HighestOfEpoch is the greatest end offset of epoch that any segment ever finished with (Kafka's
// highestOffsetForEpoch): it stays when segments are deleted, and counts those out of the lineage. false when the epoch
// is unknown.
func (p *Partition) HighestOfEpoch(epoch int32) (int64, bool) {
	if x := p.finished.get(epoch); x != nil {
		return x.highest, true
	}
	return -1, false
}

// Holes lists what the recorded holes still hide, ascending: a range that a readable segment holds is healed, and no
// hole any more. Of a hole that is healed in its middle, two are left.
func (p *Partition) Holes() []Hole {
	var open []Hole
	for _, h := range p.holes {
		for at := h.From; at < h.To; {
			if s, ok := p.holding(at); ok {
				at = s.EndOffset + 1
				continue
			}
			to := h.To
			if _, start, ok := p.behind(at, h.To-1); ok {
				to = start
			}
			open = append(open, Hole{From: at, To: to, Reason: h.Reason})
			at = to
		}
	}
	return open
}

// EpochEnd is the greatest end offset (inclusive) that any segment ever finished with in a leader epoch.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// HighestOfEpochs lists HighestOfEpoch of every epoch, ascending. With Shadowed it is what has to be kept beside the
// segments to restore the partition exactly.
func (p *Partition) HighestOfEpochs() []EpochEnd {
	var list []EpochEnd
	for _, x := range p.finished {
		if x.highest >= 0 {
			list = append(list, EpochEnd{x.epoch, x.highest})
		}
	}
	return list
}

// Shadowed lists the epochs under which look-ups prefer another segment to s, one of the partition's; nil for most.
func (p *Partition) Shadowed(s *Segment) (shadowed []int32) {
	if s.State != CopyFinished {
		return nil
	}
	for r := range s.stretches {
		if x := p.finished.get(r.epoch); x != nil && x.hides(slot{r.start, s}) {
			shadowed = append(shadowed, r.epoch)
		}
	}
	return shadowed
}

func (p *Partition) isListed() bool { return p.hasBounds || p.byID.size > 0 }

func (p *Partition) isEmpty() bool {
	return !p.isListed() && len(p.reported) == 0 && len(p.holes) == 0
}

func (p *Partition) idPosition(id segment.UUID) position {
	return p.byID.seek(func(s **Segment) bool { return bytes.Compare((*s).ID[:], id[:]) < 0 })
}

func (p *Partition) basePosition(k *Segment) position {
	return p.byBase.seek(func(s **Segment) bool {
		return cmp.Or(cmp.Compare((*s).BaseOffset, k.BaseOffset), cmp.Compare((*s).EndOffset, k.EndOffset),
			bytes.Compare((*s).ID[:], k.ID[:])) < 0
	})
}

func (p *Partition) endPosition(k *Segment) position {
	return p.byEnd.seek(func(s **Segment) bool {
		return cmp.Or(cmp.Compare((*s).EndOffset, k.EndOffset), cmp.Compare((*s).lastEpoch(), k.lastEpoch()),
			bytes.Compare((*s).ID[:], k.ID[:])) < 0
	})
}

// put adds a segment, or replaces the one that has its id, which it gives. Look-ups don't find it yet.
func (p *Partition) put(s *Segment) (old *Segment) {
	at := p.idPosition(s.ID)
	if found := p.byID.at(at); found != nil && (*found).ID == s.ID {
		old = *found
	}
	switch {
	case old == nil:
		p.byID.insert(p.generation, at, s)
		p.byBase.insert(p.generation, p.basePosition(s), s)
	case old.BaseOffset == s.BaseOffset && old.EndOffset == s.EndOffset:
		p.withdraw(old)
		p.byBase.set(p.generation, p.basePosition(old), s)
		p.byID.set(p.generation, at, s)
	default:
		p.withdraw(old)
		p.byBase.remove(p.generation, p.basePosition(old))
		p.byBase.insert(p.generation, p.basePosition(s), s)
		p.byID.set(p.generation, at, s)
	}
	return old
}

// index lets look-ups find a segment that was put, if it is finished.
func (p *Partition) index(s *Segment) {
	if s.State != CopyFinished {
		return
	}
	p.prepareIndexes(s)
	for r := range s.stretches {
		p.finished.edit(p.generation, r.epoch).finish(p.generation, s, r)
	}
}

// indexRestored is index that files a segment behind all others under the shadowed epochs (ascending), and drives
// none out.
func (p *Partition) indexRestored(s *Segment, shadowed []int32) {
	if s.State != CopyFinished {
		return
	}
	p.prepareIndexes(s)
	for r := range s.stretches {
		_, hidden := slices.BinarySearch(shadowed, r.epoch)
		p.finished.edit(p.generation, r.epoch).restore(p.generation, slot{r.start, s}, r, hidden)
	}
}

// prepareIndexes makes what is missing for a segment that becomes readable.
func (p *Partition) prepareIndexes(s *Segment) {
	p.lineageOutdated = true
	p.finished.prepare(p.generation, s)
	p.byEnd.insert(p.generation, p.endPosition(s), s)
}

// drop forgets a segment that is there.
func (p *Partition) drop(s *Segment) {
	p.withdraw(s)
	p.byBase.remove(p.generation, p.basePosition(s))
	p.byID.remove(p.generation, p.idPosition(s.ID))
}

func (p *Partition) withdraw(s *Segment) {
	if s.State != CopyFinished {
		return
	}
	p.lineageOutdated = true
	p.byEnd.remove(p.generation, p.endPosition(s))
	for r := range s.stretches {
		p.finished.edit(p.generation, r.epoch).withdraw(p.generation, s, r)
	}
}

// recompute makes what follows from the segments, once a change is complete: the lineage, the start and the end.
func (p *Partition) recompute() {
	if p.lineageOutdated {
		p.lineageOutdated = false
		if l := derive(p.reported, p.finished, &p.byEnd); !slices.Equal(l, p.lineage) {
			p.lineage = l
		}
	}
	p.start = p.bounds.Start
	if p.start < 0 {
		p.start = -1
		for s := range p.byBase.all() {
			if p.readable(s) {
				p.start = s.firstReadable()
				break
			}
		}
	}
	p.tieredEnd = p.start
	for s := range p.byEnd.downFrom(position{leaf: len(p.byEnd.leaves)}) {
		if p.lineage.holds(s) {
			p.tieredEnd = max(p.tieredEnd, s.EndOffset+1)
			break
		}
	}
}
