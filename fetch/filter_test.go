package fetch

import (
	"math"
	"testing"

	"coldtap/segment"
)

// headerOf is the header of an uncompressed batch of magic 2, of 100 bytes.
func headerOf(first, last int64, control bool) *segment.Header {
	h := &segment.Header{BaseOffset: first, LastOffsetDelta: int32(last - first), Count: int32(last - first + 1), Magic: 2, Length: 100 - 12,
		BaseTimestamp: 1000, MaxTimestamp: 1000}
	if control {
		h.Attributes |= 0x20
	}
	return h
}

// A header decides what becomes of a batch, and the less it is believed, the less it decides.
func TestDecide(t *testing.T) {
	all := filter{kind: readRaw, isolation: ReadUncommitted, times: timeRangeOf(&Request{EndTimestamp: -1}), rangeEnd: math.MaxInt64,
		decidedEnd: math.MaxInt64, maxBytes: math.MaxInt64, freeScan: freeScan}
	with := func(change func(*filter)) *filter {
		f := all
		change(&f)
		return &f
	}
	upTo := func(end int64) *filter { return with(func(f *filter) { f.rangeEnd = end }) }
	decided := func(end int64) *filter {
		return with(func(f *filter) { f.isolation, f.decidedEnd = ReadCommitted, end })
	}
	full := func(f *filter) { f.progress, f.served, f.maxBytes = true, 950, 1000 }
	levels := [4]trust{unconfirmed, doubtful, following, checked}
	show := decision{}
	end := func(r EndReason) decision { return decision{end: r} }
	batch, marker := headerOf(10, 19, false), headerOf(10, 10, true)
	for _, tt := range []struct {
		name   string
		f      *filter
		h      *segment.Header
		below  bool
		wanted [4]decision // by trust: unconfirmed, doubtful, following, checked
	}{
		{"everything", &all, batch, false, [4]decision{show, show, show, show}},
		{"ends before it", upTo(10), batch, false, [4]decision{show, show, end(EndRange), end(EndRange)}},
		{"ends within it", upTo(11), batch, false, [4]decision{show, show, show, show}},
		{"undecided from its start on", decided(10), batch, false, [4]decision{show, show, end(EndUndecided), end(EndUndecided)}},
		{"undecided from its last offset on", decided(19), batch, false, [4]decision{show, show, show, end(EndUndecided)}},
		{"decided", decided(20), batch, false, [4]decision{show, show, show, show}},
		{"full", with(full), batch, false, [4]decision{show, end(EndLimit), end(EndLimit), end(EndLimit)}},
		{"full, behind the range", with(func(f *filter) { full(f); f.rangeEnd = 10 }), batch, false,
			[4]decision{show, show, end(EndRange), end(EndRange)}},
		{"too large, and the first", with(func(f *filter) { f.maxBytes = 10 }), batch, false, [4]decision{show, show, show, show}},
		{"marker, raw and uncommitted", &all, marker, false, [4]decision{show, show, show, show}},
	} {
		for i, level := range levels {
			if got := tt.f.decide(tt.h, tt.below, level); got.end != tt.wanted[i].end || got.skip {
				t.Errorf("%s, trust %d: %+v, want %+v", tt.name, level, got, tt.wanted[i])
			}
		}
	}
	for _, tt := range []struct {
		name  string
		f     *filter
		h     *segment.Header
		below bool
		why   hidden
	}{
		{"below the target", &all, batch, true, hiddenBefore},
		{"below the target, and full", with(full), batch, true, hiddenBefore},
		{"marker, committed", decided(100), marker, false, hiddenControl},
		{"marker, for records", with(func(f *filter) { f.kind = readRecords }), marker, false, hiddenControl},
		{"marker, and full", with(func(f *filter) { full(f); f.isolation = ReadCommitted }), marker, false, hiddenControl},
		{"too early", with(func(f *filter) { f.times.from = 1001 }), batch, false, hiddenByTime},
	} {
		for _, level := range levels {
			if got := tt.f.decide(tt.h, tt.below, level); got != (decision{skip: true, why: tt.why}) {
				t.Errorf("%s, trust %d: %+v", tt.name, level, got)
			}
		}
	}
}

// Batches are asked about in any order; of a producer's transactions the one that ends last decides.
func TestAbortedBatches(t *testing.T) {
	var a abortedBatches
	a.set([]segment.AbortedTxn{{ProducerID: 7, FirstOffset: 0, LastOffset: 30}, {ProducerID: 9, FirstOffset: 5, LastOffset: 40},
		{ProducerID: 7, FirstOffset: 10, LastOffset: 15}, {ProducerID: 7, FirstOffset: 50, LastOffset: 60}})
	for _, tt := range []struct {
		producer, first, last int64
		hidden                bool
	}{
		{7, 50, 59, true}, {7, 61, 69, false}, {7, 0, 4, true}, {7, 16, 20, true}, {7, 30, 30, true}, {7, 31, 39, false},
		{7, 49, 49, false}, {7, 45, 50, true}, {8, 0, 4, false}, {9, 0, 4, false}, {9, 0, 5, true}, {9, 40, 40, true}, {9, 41, 41, false}, {6, 0, 99, false},
	} {
		h := headerOf(tt.first, tt.last, false)
		h.ProducerID, h.Attributes = tt.producer, 0x10
		if got := a.hides(h); got != tt.hidden {
			t.Errorf("%+v: %v", tt, got)
		}
		if h.Attributes = 0; a.hides(h) {
			t.Errorf("%+v: hidden without a transaction", tt)
		}
	}
}
