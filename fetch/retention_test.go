package fetch

import (
	"io"
	"strings"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

var testPartition = tier.PartitionID{Topic: testTopic}

// retention is a harness over plain segments whose deletes are seen before the start that they follow.
type retention struct {
	*harness
	segs      [3]*tier.Segment
	refreshes int
}

func newRetention(t *testing.T, b tier.Bounds) *retention {
	r := &retention{harness: newHarness(t, shape{chunk: 4 << 10, window: -1})}
	r.segs = r.plain()
	r.bounds(b)
	r.onRefresh(func() error { return nil })
	return r
}

func (r *retention) bounds(b tier.Bounds) {
	r.apply(tier.BoundsChanged{Partition: testPartition, Bounds: b})
}

func (r *retention) onRefresh(f func() error) {
	r.refresh = func() error { r.refreshes++; return f() }
}

func (r *retention) deleting(segs ...*tier.Segment) {
	for _, seg := range segs {
		r.apply(tier.SegmentUpdated{Partition: testPartition, ID: seg.ID, State: tier.DeleteStarted, At: 2})
	}
}

func noCluster(start int64) tier.Bounds {
	return tier.Bounds{Start: start, LocalStart: -1, HighWatermark: -1, LastStable: -1}
}

func inCluster(start, local int64) tier.Bounds {
	return tier.Bounds{Start: start, LocalStart: local, HighWatermark: 400, LastStable: 400}
}

func start(kind StartKind) *Request {
	r := from(0)
	r.Start, r.Timestamp = kind, plainTime
	return r
}

// H4, H3: a retention pass of which the deletes are known and the new log start is not yet. A read from the earliest
// offset, or by time, goes on with what is left; one of an offset that is gone is out of range. None finds a gap.
func TestH4DeletesAreSeenBeforeTheStart(t *testing.T) {
	for name, read := range map[string]struct {
		do   func(*retention) *answer
		kind Kind // 0: all from the new start on
	}{
		"earliest":      {func(r *retention) *answer { return r.records(start(FromEarliest)) }, 0},
		"earliest, raw": {func(r *retention) *answer { return r.raw(start(FromEarliest)) }, 0},
		"timestamp":     {func(r *retention) *answer { return r.records(start(FromTimestamp)) }, 0},
		"look-up by time": {func(r *retention) *answer {
			found, err := r.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, plainTime, ReadUncommitted, 0)
			if err == nil && found.Offset != 100 {
				t.Errorf("found %+v", found)
			}
			a := r.records(from(100))
			a.start, a.err = 100, err
			return a
		}, 0},
		"offset": {func(r *retention) *answer { return r.records(from(50)) }, OutOfRange},
		"under way": {func(r *retention) *answer {
			st, err := r.Open(t.Context(), from(0))
			if err != nil {
				t.Fatal(err)
			}
			a := &answer{}
			var rec segment.Record
			for err = st.NextRecord(t.Context(), &rec); err == nil; err = st.NextRecord(t.Context(), &rec) {
				if rec.Offset == 2 {
					r.deleting(r.segs[0])
				}
			}
			a.close(st, err)
			if a.next > 10 {
				t.Errorf("it read on to %d", a.next)
			}
			return a
		}, OutOfRange},
		"bytes first": {func(r *retention) *answer {
			r.loadLog = func(id segment.UUID, _ int64) error {
				if id == r.segs[0].ID {
					return failure(Missing, nil, "404")
				}
				return nil
			}
			return r.records(start(FromEarliest))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, what := range []string{"the start follows", "the start does not follow", "nobody answers"} {
				r := newRetention(t, inCluster(0, 300))
				switch name {
				case "under way":
				case "bytes first":
				default:
					r.deleting(r.segs[0])
				}
				r.onRefresh(func() error {
					if name == "bytes first" {
						r.deleting(r.segs[0])
					}
					switch what {
					case "the start follows":
						r.bounds(inCluster(100, 300))
					case "nobody answers":
						return io.ErrUnexpectedEOF
					}
					return nil
				})
				refreshes := 1
				if name == "bytes first" && what == "the start does not follow" {
					refreshes = 2 // one for the bytes, one for the place
				}
				a := read.do(r)
				switch {
				case what == "nobody answers":
					wantKind(t, what, a, NotReady)
				case read.kind != 0:
					if e := wantKind(t, what, a, read.kind); e.Bounds.Start != 100 || e.Bounds.TieredEnd != 300 {
						t.Errorf("%s: bounds %+v", what, e.Bounds)
					}
				default:
					want(t, what, a, offsetsOf(100, 299), EndTier, 300)
					if a.start != 100 {
						t.Errorf("%s: the start is %d", what, a.start)
					}
				}
				if r.refreshes != refreshes {
					t.Errorf("%s: %d refreshes", what, r.refreshes)
				}
			}
		})
	}
}

// Deletes at a start that does not move: nobody jumps over what the brokers still have.
func TestDeletesWithoutAStart(t *testing.T) {
	for _, c := range []struct {
		what   string
		bounds tier.Bounds
		offset int64
		start  int64 // of OutOfRange; -1: the answer ends with the tier, and the broker goes on
	}{
		{"no cluster", noCluster(0), 60, 100},
		{"nothing left at the brokers", inCluster(0, 290), 60, 100},
		{"brokers that don't tell their start", inCluster(0, -1), 60, 100},
		{"a part is left at the brokers", inCluster(0, 80), 60, 80},
		{"all is left at the brokers", inCluster(0, 60), 60, -1},
	} {
		r := newRetention(t, c.bounds)
		r.deleting(r.segs[0])
		a := r.records(from(c.offset))
		if c.start < 0 {
			want(t, c.what, a, nil, EndTier, c.offset)
		} else if e := wantKind(t, c.what, a, OutOfRange); e.Bounds.Start != c.start {
			t.Errorf("%s: bounds %+v", c.what, e.Bounds)
		}
	}
}

// A gap in the middle stays one, and so does one at the start that no delete explains.
func TestGapsStayGaps(t *testing.T) {
	r := newRetention(t, inCluster(0, 300))
	r.deleting(r.segs[1])
	for _, a := range []*answer{r.records(from(150)), r.raw(from(150))} {
		if e := wantKind(t, "in the middle", a, Missing); e.NextOffset != 150 {
			t.Errorf("%+v", e)
		}
	}
	if a := r.records(start(FromEarliest)); len(a.offsets) != 100 || a.kind() != Missing {
		t.Errorf("up to it: %v", a)
	}
	late := start(FromTimestamp)
	late.Timestamp += 150
	wantKind(t, "by time", r.records(late), Missing)
	if r.refreshes != 4 {
		t.Errorf("%d refreshes for 4 reads", r.refreshes)
	}

	s := newHarness(t, shape{})
	s.topic("t", 0)
	s.add(stored{base: 100, end: 109, log: dense(100, 109, false)})
	wantKind(t, "at the start", s.records(start(FromEarliest)), Missing)
}

// H6: below a start that was told, out of range is certain; below one that only follows from the first segment, it is
// after a refresh.
func TestH6BelowTheStart(t *testing.T) {
	r := newRetention(t, noCluster(-1))
	r.deleting(r.segs[0])
	wantKind(t, "derived", r.records(from(50)), OutOfRange)
	if r.refreshes != 1 {
		t.Errorf("%d refreshes", r.refreshes)
	}
	r.onRefresh(func() error { return io.ErrUnexpectedEOF })
	wantKind(t, "derived, nobody answers", r.records(from(50)), NotReady)
	again := *r.segs[0]
	again.ID = idOf(9)
	r.onRefresh(func() error {
		r.logs[again.ID] = &storedLog{harness: r.harness, id: again.ID, log: r.logs[r.segs[0].ID].log, files: r.logs[r.segs[0].ID].files}
		r.apply(tier.SegmentLoaded{Segment: again})
		return nil
	})
	want(t, "another copy has come", r.records(from(50)), offsetsOf(50, 299), EndTier, 300)

	r = newRetention(t, noCluster(100))
	r.onRefresh(func() error { return io.ErrUnexpectedEOF })
	wantKind(t, "told", r.records(from(50)), OutOfRange)
	if r.refreshes != 0 {
		t.Errorf("%d refreshes", r.refreshes)
	}
}

// H6: whether an offset above the tier exists is the brokers' to say, all of whose bounds need not be known.
func TestH6AboveTheTier(t *testing.T) {
	const unknown = -1
	for _, c := range []struct {
		local, high, stable int64
		kind                Kind // 0: the answer ends with the tier
	}{
		{unknown, unknown, unknown, OutOfRange},
		{290, 400, 400, 0},
		{unknown, 400, unknown, 0},
		{unknown, unknown, 400, 0},
		{290, unknown, unknown, NotReady},
		{290, unknown, 320, NotReady},
		{290, 349, 349, OutOfRange},
		{unknown, 350, 349, 0},
	} {
		r := newRetention(t, noCluster(0))
		r.onRefresh(func() error {
			r.bounds(tier.Bounds{LocalStart: c.local, HighWatermark: c.high, LastStable: c.stable})
			return nil
		})
		a := r.records(from(350))
		if c.kind != 0 {
			wantKind(t, "above", a, c.kind)
		} else if want(t, "above", a, nil, EndTier, 350); !a.bounds.Clustered() {
			t.Errorf("%+v: nobody has it by %+v", c, a.bounds)
		}
		if r.refreshes != 1 {
			t.Errorf("%+v: %d refreshes", c, r.refreshes)
		}
	}
}

// A tier that shrinks under a stream does not end it as if all had been read.
func TestTierShrinksUnderAStream(t *testing.T) {
	for _, c := range []struct {
		what   string
		before tier.Bounds
		after  tier.Bounds
		err    error
		kind   Kind
	}{
		{"retention takes all", noCluster(0), noCluster(300), nil, OutOfRange},
		{"the topic is deleted, no cluster knows it", noCluster(0), noCluster(0), nil, OutOfRange},
		{"tiering is turned off, and brokers have the log", inCluster(0, 0), inCluster(0, 0), nil, 0},
		{"tiering is turned off, and brokers have the end", inCluster(0, 200), inCluster(200, 200), nil, OutOfRange},
		{"nobody answers", inCluster(0, 200), inCluster(0, 200), io.ErrUnexpectedEOF, NotReady},
	} {
		r := newRetention(t, c.before)
		r.onRefresh(func() error {
			if c.err == nil {
				r.bounds(c.after)
			}
			return c.err
		})
		read := 0
		a := r.records(from(0), func(*segment.Record) {
			if read++; read == 3 {
				r.deleting(r.segs[:]...)
			}
		})
		if c.kind != 0 {
			wantKind(t, c.what, a, c.kind)
		} else if want(t, c.what, a, offsetsOf(0, a.next-1), EndTier, a.next); a.next < 3 || a.next > 10 {
			t.Errorf("%s: it read on to %d", c.what, a.next)
		}
	}
}

// What may not have been told yet is asked for.
func TestUnknownBounds(t *testing.T) {
	local := start(FromEarliestLocal)
	for _, c := range []struct {
		what    string
		request *Request
		after   tier.Bounds
		err     error
		kind    Kind
		message string
		next    int64
	}{
		{"no cluster", local, noCluster(0), nil, BadRequest, "without a cluster", 0},
		{"brokers that don't tell it", local, inCluster(0, -1), nil, BadRequest, "not known now", 0},
		{"it is told", local, inCluster(0, 290), nil, 0, "", 300},
		{"nobody answers", local, inCluster(0, -1), io.ErrUnexpectedEOF, NotReady, "refreshed", 0},
	} {
		r := newRetention(t, noCluster(0))
		r.onRefresh(func() error { r.bounds(c.after); return c.err })
		a := r.records(c.request)
		if c.kind == 0 {
			want(t, c.what, a, offsetsOf(290, 299), EndTier, c.next)
		} else if e := wantKind(t, c.what, a, c.kind); !strings.Contains(e.Error(), c.message) {
			t.Errorf("%s: %v", c.what, e)
		}
	}

	for _, kind := range []StartKind{FromEarliest, FromLatest, FromOffset} {
		s := newHarness(t, shape{})
		s.apply(tier.SegmentAdded{Segment: tier.Segment{ID: idOf(1), Partition: testPartition, Topic: "t", BaseOffset: 70, EndOffset: 79,
			EventTime: 1, Epochs: []segment.EpochStart{{StartOffset: 70}}, Size: 1}})
		r := start(kind)
		want(t, "nothing known", s.records(r), nil, EndTier, 0)
		s.refresh = func() error { return io.ErrUnexpectedEOF }
		wantKind(t, "nothing known, nobody answers", s.records(r), NotReady)
		r.Offset = 80
		s.refresh = func() error {
			s.apply(tier.BoundsChanged{Partition: testPartition, Bounds: tier.Bounds{Start: 70, LocalStart: 70, HighWatermark: 80, LastStable: 80}})
			return nil
		}
		next := map[StartKind]int64{FromEarliest: 70, FromLatest: 80, FromOffset: 80}[kind]
		want(t, "told on asking", s.records(r), nil, EndTier, next)
	}
}
