package tier

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
)

// slot is a finished segment, filed under the start of one of its epochs.
type slot struct {
	start   int64
	segment *Segment
}

func (e slot) end(epoch int32) int64 {
	_, end, _ := e.segment.EndOfEpoch(epoch)
	return end
}

// epochIndex files a partition's finished segments that hold records of one leader epoch.
//
// mapped is what Kafka's RemoteLogLeaderEpochState keeps: one segment for each start, from which a later one that
// reaches at least as far has driven out those that start at or behind it. Kafka asks it with one floor probe and no
// walking back, so a short later segment hides data that a longer earlier one has. shadow keeps all other finished
// segments, to which a look-up falls back: under Kafka's replication (epoch, offset) identifies one record, whichever
// segment it is read from.
type epochIndex struct {
	generation uint64
	epoch      int32
	mapped     cowList[slot] // by start, one each
	shadow     cowList[slot] // by start, then id
	highest    int64         // the greatest end ever finished; Kafka never lowers it, not even when all is deleted
	longest    int64         // no slot here is longer: bounds the walk back; never lowered
}

func newEpochIndex(generation uint64, epoch int32) *epochIndex {
	end := func(e slot) int64 { return e.segment.EndOffset }
	return &epochIndex{
		generation: generation, epoch: epoch, highest: -1, mapped: cowList[slot]{reach: end}, shadow: cowList[slot]{reach: end},
	}
}

func (x *epochIndex) isEmpty() bool { return x.mapped.size == 0 && x.shadow.size == 0 }

func atStart(start int64) func(*slot) bool {
	return func(e *slot) bool { return e.start < start }
}

func afterStart(start int64) func(*slot) bool {
	return func(e *slot) bool { return e.start <= start }
}

func (x *epochIndex) hide(generation uint64, e slot) {
	x.shadow.insert(generation, x.shadowPosition(e), e)
}

func (x *epochIndex) shadowPosition(e slot) position {
	return x.shadow.seek(func(o *slot) bool {
		return cmp.Or(cmp.Compare(o.start, e.start), bytes.Compare(o.segment.ID[:], e.segment.ID[:])) < 0
	})
}

// finish files a segment that became readable.
func (x *epochIndex) finish(generation uint64, seg *Segment, r stretch) {
	for last := x.mapped.last(); last != nil && last.start >= r.start && x.highest <= r.end; last = x.mapped.last() {
		x.hide(generation, *last)
		i := len(x.mapped.leaves) - 1
		x.mapped.remove(generation, position{i, len(x.mapped.leaves[i].items) - 1})
	}
	e := slot{r.start, seg}
	p := x.mapped.seek(atStart(r.start))
	if old := x.mapped.at(p); old != nil && old.start == r.start {
		x.hide(generation, *old)
		x.mapped.set(generation, p, e)
	} else {
		x.mapped.insert(generation, p, e)
	}
	x.highest = max(x.highest, r.end)
	x.longest = max(x.longest, r.end-r.start)
}

// restore files a segment where an earlier index had it. mapped has one segment for each start: a second one is hidden.
func (x *epochIndex) restore(generation uint64, e slot, r stretch, hidden bool) {
	p := x.mapped.seek(atStart(e.start))
	if old := x.mapped.at(p); hidden || old != nil && old.start == e.start {
		x.hide(generation, e)
	} else {
		x.mapped.insert(generation, p, e)
	}
	x.highest = max(x.highest, r.end)
	x.longest = max(x.longest, r.end-r.start)
}

// hides says whether the segment is filed as one that others are preferred to.
func (x *epochIndex) hides(e slot) bool {
	found := x.shadow.at(x.shadowPosition(e))
	return found != nil && found.start == e.start && found.segment.ID == e.segment.ID
}

// withdraw takes a segment out that is no longer readable.
func (x *epochIndex) withdraw(generation uint64, seg *Segment, r stretch) {
	p := x.mapped.seek(atStart(r.start))
	if e := x.mapped.at(p); e != nil && e.segment.ID == seg.ID {
		x.mapped.remove(generation, p)
		return
	}
	p = x.shadowPosition(slot{r.start, seg})
	if e := x.shadow.at(p); e != nil && e.segment.ID == seg.ID {
		x.shadow.remove(generation, p)
	}
}

// find is Kafka's look-up with the fall-back. Only segments that usable accepts are given.
func (x *epochIndex) find(offset int64, usable func(*Segment) bool) (*Segment, bool) {
	for e := range x.reaching(offset) {
		if e.end(x.epoch) >= offset && usable(e.segment) {
			return e.segment, true
		}
	}
	return nil, false
}

// reaching yields what may hold offset or something behind it, among what starts at or before it: Kafka's choice first.
func (x *epochIndex) reaching(offset int64) iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for _, s := range []*cowList[slot]{&x.mapped, &x.shadow} {
			for e := range s.downReaching(s.seek(afterStart(offset)), offset) {
				if offset-e.start > x.longest {
					break
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}

// first gives the usable segment that starts first in (after, limit].
func (x *epochIndex) first(after, limit int64, usable func(*Segment) bool) (*Segment, bool) {
	var found *Segment
	for _, s := range []*cowList[slot]{&x.mapped, &x.shadow} {
		for e := range s.upFrom(s.seek(afterStart(after))) {
			if e.start > limit {
				break
			}
			if usable(e.segment) {
				found, limit = e.segment, e.start-1
				break
			}
		}
	}
	return found, found != nil
}

// lowest gives the least start, and the slots that have it.
func (x *epochIndex) lowest() (start int64, slots []slot) {
	m, s := x.mapped.at(position{}), x.shadow.at(position{})
	switch {
	case m == nil && s == nil:
		return 0, nil
	case m == nil:
		start = s.start
	case s == nil:
		start = m.start
	default:
		start = min(m.start, s.start)
	}
	if m != nil && m.start == start {
		slots = append(slots, *m)
	}
	for e := range x.shadow.all() {
		if e.start != start {
			break
		}
		slots = append(slots, e)
	}
	return start, slots
}

// endsBelow says that a segment whose last epoch this is ends below limit.
func (x *epochIndex) endsBelow(limit int64) bool {
	for _, s := range []*cowList[slot]{&x.mapped, &x.shadow} {
		for e := range s.downFrom(s.seek(atStart(limit))) {
			if e.segment.EndOffset < limit && e.segment.lastEpoch() == x.epoch {
				return true
			}
		}
	}
	return false
}

// epochs is a partition's indexes, ascending by epoch.
type epochs []*epochIndex

func (x epochs) get(epoch int32) *epochIndex {
	if i, ok := x.search(epoch); ok {
		return x[i]
	}
	return nil
}

func (x epochs) search(epoch int32) (int, bool) {
	return slices.BinarySearchFunc(x, epoch, func(e *epochIndex, epoch int32) int { return cmp.Compare(e.epoch, epoch) })
}

// edit gives a writable index, made when there is none. x must be the generation's own slice.
func (x *epochs) edit(generation uint64, epoch int32) *epochIndex {
	i, ok := x.search(epoch)
	if !ok {
		*x = slices.Insert(*x, i, newEpochIndex(generation, epoch))
	} else if (*x)[i].generation != generation {
		own := *(*x)[i]
		own.generation = generation
		(*x)[i] = &own
	}
	return (*x)[i]
}

// prepare makes the indexes that a segment needs, many at once: one by one, each would move all above it.
func (x *epochs) prepare(generation uint64, s *Segment) {
	before := len(*x)
	for r := range s.stretches {
		if _, ok := (*x)[:before].search(r.epoch); !ok {
			*x = append(*x, newEpochIndex(generation, r.epoch))
		}
	}
	if len(*x) > before {
		slices.SortFunc(*x, func(a, b *epochIndex) int { return cmp.Compare(a.epoch, b.epoch) })
	}
}
