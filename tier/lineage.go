package tier

import (
	"cmp"
	"slices"
	"sort"

	"coldtap/segment"
)

// lineage is the history that the readable log went through: leader epochs and where each began, both ascending, epochs
// without records left out. Records of another leader at the same offsets are not in it.
type lineage []segment.EpochStart

// checkpointLineage makes a lineage of a leader-epoch checkpoint's entries: one that starts where the next does wrote
// no records.
func checkpointLineage(epochs []segment.EpochStart) lineage {
	var l lineage
	for i, e := range epochs {
		if i+1 == len(epochs) || epochs[i+1].StartOffset > e.StartOffset {
			l = append(l, e)
		}
	}
	return l
}

// derive gives the lineage of finished segments, below known entries if there are any.
//
// Without known entries the top is the winner, the segment with the greatest (last epoch, end offset): its log
// survived. From the top the chain goes down. A segment that goes over from one epoch into the next proves both the
// exact start and the predecessor, whatever becomes of its own end, since replicas that share a record of an epoch
// share all before it. Where an epoch's first segment starts with it, the predecessor is the segment that ends just
// before; when there is none (a gap), the one with the greatest (last epoch, end offset) below.
//
// It takes time in proportion to the epochs and segments, whatever they are: the chain goes strictly down, and what
// adjacent passes over it never sees again.
func derive(top lineage, finished epochs, byEnd *cowList[*Segment]) lineage {
	var down lineage // descending
	var at segment.EpochStart
	if len(top) > 0 {
		at = top[0]
	} else {
		i := len(finished) - 1
		for ; i >= 0 && finished[i].isEmpty(); i-- {
		}
		if i < 0 {
			return nil
		}
		at.Epoch = finished[i].epoch
		at.StartOffset, _ = finished[i].lowest()
	}
	for {
		below, ok := int32(-1), false
		if x := finished.get(at.Epoch); x != nil && !x.isEmpty() {
			start, slots := x.lowest()
			if start <= at.StartOffset {
				at.StartOffset = start
				below, ok = predecessor(at.Epoch, slots)
			}
		}
		down = append(down, at)
		if !ok {
			if below, ok = adjacent(at, finished, byEnd); !ok {
				break
			}
		}
		at.Epoch = below
		at.StartOffset--
	}
	if len(top) > 0 {
		top = top[1:]
	}
	slices.Reverse(down)
	return append(down, top...)
}

// predecessor is the epoch that segments hold just before epoch, of which they are known to hold the start.
func predecessor(epoch int32, slots []slot) (below int32, ok bool) {
	for _, e := range slots {
		if before, has := e.segment.before(epoch); has {
			below, ok = max(below, before), true
		}
	}
	return below, ok
}

// adjacent is the last epoch of the segment that comes before at.
func adjacent(at segment.EpochStart, finished epochs, byEnd *cowList[*Segment]) (below int32, ok bool) {
	for s := range byEnd.downFrom(byEnd.seek(func(s **Segment) bool {
		return cmp.Or(cmp.Compare((*s).EndOffset, at.StartOffset-1), cmp.Compare((*s).lastEpoch(), at.Epoch)) < 0
	})) {
		if s.EndOffset == at.StartOffset-1 {
			return s.lastEpoch(), true
		}
		break
	}
	i, _ := finished.search(at.Epoch)
	for i--; i >= 0; i-- {
		if finished[i].endsBelow(at.StartOffset) {
			return finished[i].epoch, true
		}
	}
	return -1, false
}

// at gives the index of the epoch that offset belongs to, -1 below the first.
func (l lineage) at(offset int64) int {
	return sort.Search(len(l), func(i int) bool { return l[i].StartOffset > offset }) - 1
}

func (l lineage) index(epoch int32) int {
	i := sort.Search(len(l), func(i int) bool { return l[i].Epoch >= epoch })
	if i < len(l) && l[i].Epoch == epoch {
		return i
	}
	return -1
}

// holds says whether all records of a segment, from the lineage's first epoch on, belong to the lineage
// (RemoteLogManager.isRemoteSegmentWithinLeaderEpochs). The end of the log needs no look: it is where the last epoch's
// segments end.
func (l lineage) holds(s *Segment) bool {
	if len(l) == 0 {
		return false
	}
	i := -1 // the epoch of the lineage that the stretch at hand is of
	for r := range s.stretches {
		switch {
		case i < 0 && r.epoch < l[0].Epoch:
			continue
		case i < 0:
			if i = l.index(r.epoch); i < 0 || i > 0 && r.start < l[i].StartOffset {
				return false
			}
		default:
			// The lineage goes on as the segment does.
			if i++; i == len(l) || l[i] != (segment.EpochStart{Epoch: r.epoch, StartOffset: r.start}) {
				return false
			}
		}
		if r.end == s.EndOffset && i+1 < len(l) && s.EndOffset >= l[i+1].StartOffset {
			return false
		}
	}
	return i >= 0
}
