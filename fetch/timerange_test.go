package fetch

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"coldtap/internal/sample"
	"coldtap/internal/testing/testkit"
	"coldtap/segment"
)

// timedRecord is a data record of a random log, and timedBatch a batch of it.
type timedRecord struct {
	offset, time int64
	aborted      bool
}

type timedBatch struct {
	base, last  int64
	first, high int64 // what the header says of its timestamps
	control     bool
	records     []timedRecord
}

// randomTimes adds segments whose timestamps are in little order, of every kind of batch, with indexes as brokers write
// them, and gives what is in them.
func randomTimes(s *harness, rng *rand.Rand) (batches []timedBatch, end int64) {
	s.topic("t", 0)
	noise := []int64{1, 20, 400, 3000}[rng.IntN(4)]
	clock := int64(1000)
	for range 1 + rng.IntN(4) {
		base := end
		var log []byte
		var offsets, times []int64
		files := segment.Files{Decided: true}
		high := int64(-1)
		for range 1 + rng.IntN(12) {
			b := batchOf{base: end, zip: rng.IntN(4) == 0}
			t := timedBatch{base: end}
			stamp := func() int64 {
				switch rng.IntN(40) {
				case 0:
					return -1
				case 1:
					return math.MaxInt64
				case 2:
					return 0
				}
				clock += rng.Int64N(30)
				return clock - rng.Int64N(noise)
			}
			kind := rng.IntN(10)
			var bytes []byte
			switch kind {
			case 0, 1: // messages of magic 0 and 1
				time := int64(-1)
				if kind == 1 {
					time = stamp()
				}
				t.records = []timedRecord{{offset: end, time: time}}
				t.first, t.high = time, time
				bytes = legacy(end, byte(kind), time, "v")
			case 2: // emptied by compaction
				b.last = rng.IntN(3)
				b.maxTime = clock
				t.first, t.high = -1, clock
				bytes = b.encode()
			default:
				delta, gap := 0, 1+rng.IntN(2)
				for range 1 + rng.IntN(6) {
					b.records = append(b.records, rec{delta: delta, time: stamp(), key: "k", value: "v"})
					delta += 1 + rng.IntN(gap)
				}
				if rng.IntN(6) == 0 && b.records[0].time >= 0 && b.records[0].time < math.MaxInt64 {
					b.horizon = b.records[0].time + 10_000
				}
				t.first, t.high = b.baseTime(), math.MinInt64
				for _, r := range b.records {
					t.high = max(t.high, r.time)
				}
				b.maxTime = t.high
				for i := range b.records { // a delta of timestamps has 64 bits
					t.records = append(t.records, timedRecord{offset: end + int64(b.records[i].delta), time: b.records[i].time})
				}
				switch {
				case kind == 3: // LogAppendTime: whatever the records say
					b.attrs |= 0x08
					for i := range t.records {
						t.records[i].time = b.maxTime
					}
					t.first = t.high
				case b.horizon != 0:
					t.first = math.MinInt64
				}
				if kind == 4 {
					b.attrs |= 0x10
					b.producer = 7
					for i := range t.records {
						t.records[i].aborted = true
					}
				}
				bytes = b.encode()
			}
			h, err := segment.ParseHeader(bytes, int64(len(bytes)))
			if err != nil {
				s.tb.Fatal(err)
			}
			put := func(t timedBatch, bytes []byte) {
				pos := int64(len(log))
				log = append(log, bytes...)
				if t.high > high {
					high = t.high
					times = append(times, high, t.last)
				}
				if rng.IntN(2) == 0 {
					offsets = append(offsets, t.last, pos)
				}
				batches = append(batches, t)
				end = t.last + 1
			}
			t.last = h.LastOffset()
			put(t, bytes)
			if kind == 4 {
				files.Aborted = append(files.Aborted, segment.AbortedTxn{ProducerID: 7, FirstOffset: t.base, LastOffset: end, LastStableOffset: end + 1})
				at := max(stamp(), 0)
				put(timedBatch{base: end, last: end, first: at, high: at, control: true}, marker(end, 7, 0, at))
			}
		}
		if rng.IntN(3) > 0 {
			files.OffsetIndex, files.TimeIndex = offsetIndex(base, offsets...), timeIndex(base, times...)
		}
		s.add(stored{base: base, end: end - 1, log: log, files: files})
	}
	return batches, end
}

// TestTimeRangesAreExact compares pages over ranges of time with a filter over all records.
func TestTimeRangesAreExact(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 40
	}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 9))
		s := newHarness(t, shape{chunk: []int64{128, 1 << 10, 64 << 10}[rng.IntN(3)]})
		if rng.IntN(2) == 0 {
			s.freeScan = rng.Int64N(500)
		}
		batches, end := randomTimes(s, rng)
		for range 40 {
			r := *from(0)
			r.Isolation = Isolation(rng.IntN(2))
			when := func() int64 {
				switch rng.IntN(12) {
				case 0:
					return 0
				case 1:
					return math.MaxInt64
				}
				b := &batches[rng.IntN(len(batches))]
				if len(b.records) == 0 {
					return max(b.high, 0)
				}
				return max(b.records[rng.IntN(len(b.records))].time, 0)
			}
			from, to := when(), when()
			from, to = min(from, to), max(from, to)
			r.StartTimestamp, r.HasStartTimestamp, r.EndTimestamp = from, true, to
			switch rng.IntN(4) {
			case 0:
				r.Start, r.Offset = FromOffset, rng.Int64N(end+1)
			case 1:
				r.Start, r.Offset, r.HasStartTimestamp = FromOffset, rng.Int64N(end+1), false
			case 2:
				r.Start, r.EndTimestamp = FromEarliest, -1
			default:
				r.Start, r.Timestamp = FromTimestamp, from
			}
			r.Lateness = []int64{0, 0, 1, 50, 500, 5000, math.MaxInt64}[rng.IntN(7)]
			if rng.IntN(4) == 0 {
				r.EndOffset = r.Offset + rng.Int64N(end-r.Offset+1)
			}
			name := fmt.Sprintf("seed %d, %+v", seed, r)
			wanted, whyEnd, next := filterByTime(batches, end, &r)
			pages := r
			if rng.IntN(3) > 0 {
				pages.MaxBytes = 1 + rng.Int64N(600)
			}
			if rng.IntN(3) == 0 {
				pages.MaxRecords = 1 + rng.Int64N(5)
			}
			a := follow(t, name, pages, func(r *Request) *answer {
				a := s.records(r)
				if r.MaxRecords > 0 && int64(len(a.offsets)) > r.MaxRecords {
					t.Fatalf("%s: %d records", name, len(a.offsets))
				}
				return a
			})
			if !slices.Equal(a.offsets, wanted) || a.end != whyEnd || a.next != next {
				t.Fatalf("%s: %v\nwant %v, end %v, next %d", name, a, wanted, whyEnd, next)
			}
			raw := follow(t, name, pages, s.raw)
			if raw.end != whyEnd || raw.next != next {
				t.Fatalf("%s: raw %v\nwant end %v, next %d", name, raw, whyEnd, next)
			}
			checkRawByTime(t, name, batches, &r, raw, wanted)
		}
	}
}

// follow reads page after page, each of which must get further.
func follow(t *testing.T, name string, r Request, read func(*Request) *answer) *answer {
	t.Helper()
	all := &answer{}
	for page := 0; ; page++ {
		a := read(&r)
		if a.err != nil {
			t.Fatalf("%s: %v", name, a.err)
		}
		if page == 0 {
			all.start = a.start
		}
		all.offsets, all.batches = append(all.offsets, a.offsets...), append(all.batches, a.batches...)
		all.end, all.next = a.end, a.next
		if a.end != EndLimit {
			return all
		}
		if a.next <= a.start {
			t.Fatalf("%s: no progress at %d: %v", name, a.start, a)
		}
		r.Start, r.Offset = FromOffset, a.next
	}
}

// filterByTime is what a request over a range of time asks for, by the words of the contract: the records in the range
// among the offsets from the start up to the first record at or after end + lateness.
func filterByTime(batches []timedBatch, end int64, r *Request) (offsets []int64, why EndReason, next int64) {
	stop := new(big.Int).Add(big.NewInt(r.EndTimestamp), big.NewInt(r.Lateness))
	why, next = EndTier, end
	started := r.Start != FromTimestamp
	for _, b := range batches {
		for _, rec := range b.records {
			if rec.aborted && r.Isolation == ReadCommitted || rec.offset < r.Offset {
				continue
			}
			if r.EndOffset >= 0 && rec.offset >= r.EndOffset {
				return offsets, EndRange, r.EndOffset
			}
			if started = started || rec.time >= r.Timestamp; !started {
				continue
			}
			if r.EndTimestamp >= 0 && big.NewInt(rec.time).Cmp(stop) >= 0 {
				return offsets, EndRange, rec.offset
			}
			if (!r.HasStartTimestamp || rec.time >= r.StartTimestamp) && (r.EndTimestamp < 0 || rec.time < r.EndTimestamp) {
				offsets = append(offsets, rec.offset)
			}
		}
	}
	if r.EndOffset >= 0 && r.EndOffset <= end {
		return offsets, EndRange, r.EndOffset
	}
	return offsets, why, next
}

// checkRawByTime: each batch comes once and in order; those with a wanted record all come, those whose header
// timestamps overlap the range too, and no others.
func checkRawByTime(t *testing.T, name string, batches []timedBatch, r *Request, raw *answer, wanted []int64) {
	t.Helper()
	given := map[int64]bool{}
	last := int64(-1)
	for _, bytes := range raw.batches {
		h, err := segment.ParseHeader(bytes, int64(len(bytes)))
		if err != nil || h.BaseOffset <= last {
			t.Fatalf("%s: batch %d after %d, %v", name, h.BaseOffset, last, err)
		}
		last = h.LastOffset()
		given[h.BaseOffset] = true
	}
	for _, b := range batches {
		overlaps := !(r.HasStartTimestamp && b.high < r.StartTimestamp) && !(r.EndTimestamp >= 0 && b.first >= r.EndTimestamp)
		hidden, holds := b.control && r.Isolation == ReadCommitted, false
		for _, rec := range b.records {
			hidden = hidden || rec.aborted && r.Isolation == ReadCommitted
			holds = holds || slices.Contains(wanted, rec.offset)
		}
		inside := b.base >= raw.start && b.last < raw.next
		switch {
		case given[b.base] && hidden, given[b.base] && !overlaps && !holds:
			t.Fatalf("%s: batch %+v is not wanted", name, b)
		case !given[b.base] && holds, !given[b.base] && inside && overlaps && !hidden:
			t.Fatalf("%s: batch %+v is missing in %v", name, b, raw)
		}
	}
}

// TestTimeRangeReadsLittle: segments and batches that can hold nothing of the range are not read or not decoded, and
// the plan knows it.
func TestTimeRangeReadsLittle(t *testing.T) {
	s := newHarness(t, shape{chunk: 1 << 10, window: 1})
	segs := s.plain()
	r := *from(0)
	r.StartTimestamp, r.HasStartTimestamp, r.EndTimestamp = plainTime+250, true, plainTime+252
	plan, err := s.Plan(t.Context(), &r)
	if err != nil || len(plan.Segments) != 1 || plan.Segments[0].Segment.ID != segs[2].ID {
		t.Fatalf("%+v %v", plan, err)
	}
	r.Isolation = ReadCommitted
	want(t, "offsets 250 and 251", s.records(&r), []int64{250, 251}, EndRange, 252)
	if s.gets[segs[0].ID]+s.gets[segs[1].ID] != 0 || s.gets[segs[2].ID] > 12 {
		t.Errorf("chunks read: %v", s.gets)
	}
	if s.indexes != 1 {
		t.Errorf("%d indexes read", s.indexes)
	}
}

// A record that is buffered is one that is wanted: a client that waits for the next line is told before the stream
// reads on.
func TestBufferedCountsWantedRecords(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	b := batchOf{base: 0, records: []rec{{time: 5}, {delta: 1, time: 50}, {delta: 2, time: 6}, {delta: 3, time: 51}}}
	s.add(stored{base: 0, end: 4, log: joined(b.encode(), one(4, 7, 80))})
	r := *from(0)
	r.StartTimestamp, r.HasStartTimestamp, r.EndTimestamp, r.Lateness = 5, true, 10, 100
	st, err := s.Open(t.Context(), &r)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var got []string
	var record segment.Record
	for st.NextRecord(t.Context(), &record) == nil {
		got = append(got, fmt.Sprint(record.Offset, st.Buffered(), st.NextOffset()))
	}
	if want := "[0 true 1 2 false 4 4 false 5]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Pages over ranges of time of what a broker wrote hold what a filter over its consumer's records gives.
func TestSampleFilteredByTime(t *testing.T) {
	for _, dir := range sample.Partitions {
		tier := closed(t, dir)
		s := newHarness(t, shape{chunk: 8 << 10})
		s.addAll(tier)
		rng := rand.New(rand.NewPCG(1, 2))
		for _, isolation := range isolations {
			all := tier.expected(t, dir, isolation)
			for range 40 {
				r := *from(rng.Int64N(tier.end))
				r.Isolation = isolationNamed(isolation)
				r.StartTimestamp, r.HasStartTimestamp = all[rng.IntN(len(all))].Timestamp, true
				r.EndTimestamp = max(r.StartTimestamp, all[rng.IntN(len(all))].Timestamp+rng.Int64N(3))
				r.Lateness = []int64{0, 1000, 60_000, 1 << 50}[rng.IntN(4)]
				r.MaxBytes = 1 + rng.Int64N(40_000)
				var wanted []testkit.Record
				end := EndTier
				for _, x := range all {
					if x.Offset >= r.Offset && x.Timestamp >= r.EndTimestamp+r.Lateness {
						end = EndRange
						break
					}
					if x.Offset >= r.Offset && x.Timestamp >= r.StartTimestamp && x.Timestamp < r.EndTimestamp {
						wanted = append(wanted, x)
					}
				}
				if a := s.readAll(r, wanted); a.end != end {
					t.Errorf("%s %s %+v: %v, want end %v", dir, isolation, r, a, end)
				}
			}
		}
	}
}

// The sample's timestamps are out of order: a range with lateness finds what a scan of everything finds.
func TestSampleLateness(t *testing.T) {
	tier := closed(t, "plain-0")
	s := newHarness(t, shape{chunk: 16 << 10})
	s.addAll(tier)
	const from0, to = 1_700_000_000_000, 1_700_000_010_000
	r := *from(0)
	r.Start, r.Timestamp, r.StartTimestamp, r.HasStartTimestamp, r.EndTimestamp = FromTimestamp, from0, from0, true, to
	var all, first []int64
	stopped := false
	for _, rec := range tier.expected(t, "plain-0", "read_committed") {
		stopped = stopped || rec.Timestamp >= to
		if rec.Timestamp >= from0 && rec.Timestamp < to {
			all = append(all, rec.Offset)
			if !stopped {
				first = append(first, rec.Offset)
			}
		}
	}
	if len(all) != 7 || len(first) == 7 {
		t.Fatalf("the sample has %d records in the range, %d before the first late one", len(all), len(first))
	}
	if a := s.records(&r); a.err != nil || !slices.Equal(a.offsets, first) || a.end != EndRange {
		t.Errorf("without lateness: %v, want %v", a, first)
	}
	r.Lateness = 24 * 3600 * 1000
	if a := s.records(&r); a.err != nil || !slices.Equal(a.offsets, all) {
		t.Errorf("with 24 hours: %v, want %v", a, all)
	}
}
