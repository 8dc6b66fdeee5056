package fetch

import (
	"math"

	"coldtap/segment"
)

// timeRange is what a request says about timestamps (ms). Records are in no order of time, so a range of time is a
// filter over records in offset order, and it needs a rule of its own for when to stop: at the first record at or after
// stop. Records may carry any timestamp, the largest int64 included, so that no value can stand for "no end".
type timeRange struct {
	from  int64 // first timestamp wanted; MinInt64: all
	to    int64 // first timestamp not wanted any more, if ends
	stop  int64 // at least to, if stops
	ends  bool
	stops bool
}

func timeRangeOf(r *Request) timeRange {
	t := timeRange{from: math.MinInt64}
	if r.HasStartTimestamp {
		t.from = r.StartTimestamp
	}
	if r.EndTimestamp >= 0 {
		t.to, t.ends = r.EndTimestamp, true
		t.stop, t.stops = t.to+r.Lateness, t.to <= math.MaxInt64-r.Lateness // beyond every timestamp there is no stop
	}
	return t
}

// holds says whether a record with this timestamp is wanted.
func (t *timeRange) holds(timestamp int64) bool {
	return timestamp >= t.from && !(t.ends && timestamp >= t.to)
}

// stopsAt says whether a record with this timestamp ends the answer.
func (t *timeRange) stopsAt(timestamp int64) bool { return t.stops && timestamp >= t.stop }

// hint is the timestamp at which the answer is expected to end; MaxInt64 = none.
func (t *timeRange) hint() int64 {
	if t.stops {
		return t.stop
	}
	return math.MaxInt64
}

// set says that there is a range at all.
func (t *timeRange) set() bool { return t.ends || t.from > math.MinInt64 }

// stamps is what a batch's header says of its records' timestamps: none is above last. What it calls the first one is a
// bound only where all are the same (exact).
func stamps(h *segment.Header) (first, last int64, exact bool) {
	switch {
	case h.TimestampType() == segment.LogAppendTime && h.Magic > 0, h.Magic == 0, h.Magic == 1 && h.Codec() == segment.None:
		return h.MaxTimestamp, h.MaxTimestamp, true
	case h.HasDeleteHorizon():
		return math.MinInt64, h.MaxTimestamp, false
	}
	return h.BaseTimestamp, h.MaxTimestamp, false
}

// skips says that a batch's header proves that it holds neither a wanted record nor the one that ends the answer.
func (t *timeRange) skips(h *segment.Header) bool {
	_, last, exact := stamps(h)
	return last < t.from || !t.overlaps(h) && (h.IsControl() || exact && !t.stopsAt(last))
}

// whole says that a batch's header proves that all of its records are wanted.
func (t *timeRange) whole(h *segment.Header) bool {
	_, last, exact := stamps(h)
	return t.holds(last) && (t.from == math.MinInt64 || exact)
}

// overlaps says that the timestamps in a batch's header overlap the range.
func (t *timeRange) overlaps(h *segment.Header) bool {
	first, last, _ := stamps(h)
	return last >= t.from && !(t.ends && first >= t.to)
}
