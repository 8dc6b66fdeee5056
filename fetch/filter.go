package fetch

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"coldtap/segment"
)

// filter decides about batches by their headers: whether the answer shows a batch, passes it over, or ends before it.
// It keeps count of what the answer has, against its limits.
type filter struct {
	kind      kindOfRead
	isolation Isolation
	times     timeRange
	rangeEnd  int64 // exclusive; MaxInt64 = none
	search    int64 // for readOffset: the timestamp that is looked for

	// Limits of a raw answer or one of records.
	maxBytes   int64
	maxRecords int64 // 0 = none
	freeScan   int64 // hidden bytes that do not count towards maxBytes

	// Of the segment that is read.
	aborted    abortedBatches
	decidedEnd int64 // read_committed ends here; MaxInt64 = the segment is decided

	// What the answer has.
	progress bool  // data was handed out
	served   int64 // bytes that count towards maxBytes
	records  int64
	hidden   int64 // bytes of batches that were passed over
}

// trust is how far a batch's header is believed.
type trust uint8

const (
	unconfirmed trust = iota // read at a position of the offset index, and not checked: it may be no batch
	doubtful                 // its offset does not follow on the batch before
	following                // its offset follows on the batch before
	checked                  // the batch is sound
)

// decision is what becomes of a batch.
type decision struct {
	end  EndReason // the answer ends before it; 0 = it does not
	skip bool      // it is passed over
	why  hidden    // why it is passed over, if it is
}

// decide says what becomes of a batch; below says that it ends below what is asked for. Where the answer ends before a
// batch its bytes need not be read, so the end is decided by a header that is not checked yet, as far as it is
// believed.
func (f *filter) decide(h *segment.Header, below bool, t trust) decision {
	d := decision{skip: true, why: hiddenBefore}
	if !below {
		d.why, d.skip = f.hides(h)
	}
	switch t {
	case following:
		d.end = f.beyond(h, h.BaseOffset)
	case checked:
		d.end = f.beyond(h, h.LastOffset())
	}
	if d.end == 0 && !d.skip && f.overflows(h) && (t == checked || t != unconfirmed && h.BaseOffset < f.rangeEnd) {
		d.end = EndLimit
	}
	return d
}

// spent says why the answer ends before any further batch; 0 when it goes on at an offset.
func (f *filter) spent(next int64) EndReason {
	switch {
	case f.maxRecords > 0 && f.records >= f.maxRecords, f.progress && f.served > f.maxBytes-segment.HeaderSize,
		f.hidden > f.freeScan && f.hidden-f.freeScan > f.maxBytes:
		return EndLimit
	case next >= f.rangeEnd:
		return EndRange
	}
	return 0
}

// beyond says that the batch lies behind the range, or reaches with the offset reach into what is not decided.
func (f *filter) beyond(h *segment.Header, reach int64) EndReason {
	switch {
	// A compressed message of magic 0 or 1 names only its last offset.
	case h.BaseOffset >= f.rangeEnd && (h.Magic >= 2 || h.Codec() == segment.None):
		return EndRange
	case reach >= f.decidedEnd:
		return EndUndecided
	}
	return 0
}

// overflows says that the answer has no room for the batch. The first one with data is always whole.
func (f *filter) overflows(h *segment.Header) bool {
	return f.progress && f.served+h.Size() > f.maxBytes
}

// room is how many bytes the answer may still take.
func (f *filter) room() int64 {
	if f.kind == readOffset {
		return math.MaxInt64 / 2
	}
	return min(max(f.maxBytes-f.served, 1), math.MaxInt64/2)
}

// hides says whether the reader is not to see the batch, and why.
func (f *filter) hides(h *segment.Header) (hidden, bool) {
	if h.IsControl() && (f.isolation == ReadCommitted || f.kind != readRaw) {
		return hiddenControl, true
	}
	if f.isolation == ReadCommitted && f.aborted.hides(h) {
		return hiddenAborted, true
	}
	return hiddenByTime, f.times.set() && f.kind != readOffset && f.times.skips(h)
}

// needsRecords says whether the batch's records are looked at, not only its header.
func (f *filter) needsRecords(h *segment.Header, next int64) bool {
	switch f.kind {
	case readRecords:
		return true
	case readOffset:
		return h.MaxTimestamp >= f.search
	}
	return f.counts(h, next)
}

// counts says whether the batch's records are looked at before any of them is handed out: for those that are wanted,
// and for the one that ends the answer.
func (f *filter) counts(h *segment.Header, next int64) bool {
	t := &f.times
	switch {
	case h.IsControl() || h.Count == 0:
		return false
	case t.stopsAt(h.MaxTimestamp):
		return true
	case f.kind == readRecords:
		return t.set() && !t.whole(h)
	case f.maxRecords > 0 && (f.countOf(h, next) < 0 || t.set() && !t.whole(h)):
		return true
	}
	return t.set() && !t.overlaps(h)
}

// countOf is how many of a batch's records lie in the range, from next on, as far as its header tells; -1 when it does
// not.
func (f *filter) countOf(h *segment.Header, next int64) int64 {
	first, last := max(h.BaseOffset, next), min(h.LastOffset(), f.rangeEnd-1)
	switch {
	case h.Magic < 2:
		return -1
	case first == h.BaseOffset && last == h.LastOffset():
		return int64(h.Count)
	case h.Count == h.LastOffsetDelta+1:
		return last - first + 1
	}
	return -1
}

// goal is what the planner has to know of an answer that goes on at next.
func (f *filter) goal(next int64) goal {
	g := goal{committed: f.isolation == ReadCommitted, end: min(f.rangeEnd, f.decidedEnd), from: f.times.from, until: f.times.hint()}
	if more := f.maxRecords - f.records; f.maxRecords > 0 && more < math.MaxInt64-next {
		g.end = min(g.end, next+more)
	}
	if f.kind == readOffset {
		g.search, g.from, g.until = true, f.search, f.search
	}
	return g
}

// abortedBatches tells which batches of a segment belong to aborted transactions.
type abortedBatches struct {
	list []segment.AbortedTxn // by producer and first offset; LastOffset is the greatest of the producer's so far
}

// set takes another segment's list.
func (a *abortedBatches) set(list []segment.AbortedTxn) {
	a.list = append(a.list[:0], list...)
	slices.SortFunc(a.list, func(x, y segment.AbortedTxn) int {
		return cmp.Or(cmp.Compare(x.ProducerID, y.ProducerID), cmp.Compare(x.FirstOffset, y.FirstOffset))
	})
	for i := 1; i < len(a.list); i++ {
		if before, t := &a.list[i-1], &a.list[i]; t.ProducerID == before.ProducerID {
			t.LastOffset = max(t.LastOffset, before.LastOffset)
		}
	}
}

// hides says whether the batch is data of an aborted transaction: one of its producer's that began at or before its end
// and whose marker comes after it.
func (a *abortedBatches) hides(h *segment.Header) bool {
	if len(a.list) == 0 || !h.IsTransactional() {
		return false
	}
	last := h.LastOffset()
	i := sort.Search(len(a.list), func(i int) bool {
		t := &a.list[i]
		return t.ProducerID > h.ProducerID || t.ProducerID == h.ProducerID && t.FirstOffset > last
	})
	return i > 0 && a.list[i-1].ProducerID == h.ProducerID && h.BaseOffset <= a.list[i-1].LastOffset
}
