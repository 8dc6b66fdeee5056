package fetch

import (
	"context"

	"coldtap/tier"
)

// What follows is about reads that race with retention. Kafka's brokers raise the log start first, then publish
// DELETE_SEGMENT_STARTED, then delete the bytes; but who reads the metadata topic learns of the delete within
// milliseconds, and of the start only when the brokers are asked (each second). In between, the segments say that there
// is a gap where the tier is said to begin. So a place that no segment holds is looked for once more in metadata from
// after a refresh; only that decides between OutOfRange, another place, and a gap.

// sight gives the segment to read st.next from, which it moves over segments whose records are all too early for the
// time range; nil below the start, at an end and in a gap. Without sure, only a view from after a refresh can tell what
// that means.
func (st *Stream) sight() (seg *tier.Segment, sure bool) {
	b := &st.bounds
	for {
		switch {
		case st.next < b.Start:
			return nil, st.part.StartTold() // one that follows from the segments may follow from too few
		case st.next >= st.rangeEnd:
			return nil, true
		case st.next >= b.TieredEnd:
			return nil, st.next >= st.shown.TieredEnd // else the tier has shrunk under the stream
		}
		seg, sure = st.part.Find(st.next)
		if !sure || !st.times.passesOver(seg) {
			return seg, sure
		}
		st.next = min(seg.EndOffset+1, st.rangeEnd)
	}
}

// lookAgain takes a view from after the call. Where deletes have begun at a start that still has not moved, the log
// goes on where they end: no broker reads a segment in DELETE_SEGMENT_STARTED either (no segment: OFFSET_OUT_OF_RANGE).
func (st *Stream) lookAgain(ctx context.Context) error {
	if err := st.refresh(ctx); err != nil {
		return err
	}
	if to, ok := st.part.Leaving(st.next); ok {
		st.bounds.Start = to
	}
	return nil
}

// yield takes back, after lookAgain, what goes beyond the local start: nobody is sent past an offset that the brokers
// have.
func (st *Stream) yield() {
	b := &st.bounds
	if told := st.part.Bounds().Start; told <= st.next && st.next < b.Start && b.LocalStart >= 0 {
		st.ceded = b.LocalStart <= st.next
		b.Start = max(told, min(b.Start, b.LocalStart))
	}
	if !st.progress {
		st.shown = *b
	}
}

// rise moves a stream from the earliest offset, which has given nothing yet, to where the tier begins now.
func (st *Stream) rise() {
	if st.req.Start == FromEarliest && !st.progress && st.next < st.bounds.Start {
		st.next, st.start, st.shown = st.bounds.Start, st.bounds.Start, st.bounds
	}
}
