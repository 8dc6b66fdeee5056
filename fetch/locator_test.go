package fetch

import (
	"context"
	"math"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// scripted is a Source whose view changes with each refresh.
type scripted struct {
	model     *tier.Tier
	refreshes int
	script    []func() // what each refresh brings
}

func (s *scripted) Snapshot() *tier.Snapshot { return s.model.Snapshot() }
func (s *scripted) Ready() error             { return nil }
func (s *scripted) ClusterID() string        { return "scripted" }
func (s *scripted) Refresh(context.Context, tier.PartitionID) error {
	if s.refreshes++; s.refreshes <= len(s.script) {
		s.script[s.refreshes-1]()
	}
	return nil
}

// apply changes the view.
func (s *scripted) apply(changes ...tier.Change) { s.model.Apply(changes...) }

var scriptedPartition = tier.PartitionID{Topic: testTopic}

// segments adds finished segments, numbered from 1, which begin at the given offsets; the last one is the tier's end.
func (s *scripted) segments(bases ...int64) {
	for i, base := range bases[:len(bases)-1] {
		s.apply(tier.SegmentLoaded{Segment: tier.Segment{ID: idOf(i + 1), Partition: scriptedPartition, Topic: "t", BaseOffset: base,
			EndOffset: bases[i+1] - 1, MaxTimestamp: base, Size: 1, State: tier.CopyFinished,
			Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: base}}}})
	}
}

func (s *scripted) bounds(start, localStart, highWatermark int64) {
	s.apply(tier.BoundsChanged{Partition: scriptedPartition, Bounds: tier.Bounds{Start: start, LocalStart: localStart,
		HighWatermark: highWatermark, LastStable: highWatermark}})
}

func (s *scripted) remove(n int) {
	s.apply(tier.SegmentUpdated{Partition: scriptedPartition, ID: idOf(n), State: tier.DeleteStarted, At: 2})
}

// What an offset means that no segment holds is decided in a view from after a refresh, unless the start that was
// reported says it.
func TestLocate(t *testing.T) {
	forAll := position{end: math.MaxInt64, earliest: math.MinInt64}
	at := func(offset int64) position { p := forAll; p.offset = offset; return p }
	for _, tt := range []struct {
		name      string
		before    func(s *scripted) // the view that the read begins with holds 0 to 29 in three segments, and start 0
		request   Request
		at        position
		script    []func(s *scripted)
		want      site // its seg is compared by number
		segment   int
		kind      Kind
		refreshes int
	}{
		{name: "in a segment", at: at(10), want: site{offset: 10}, segment: 2},
		{name: "last of a segment", at: at(19), want: site{offset: 19}, segment: 2},
		{name: "at the read's end", at: position{offset: 12, end: 12}, want: site{offset: 12, end: EndRange}},
		{name: "at the tier's end", at: at(30), want: site{offset: 30, end: EndTier}},
		{name: "segments that are too early", at: position{offset: 3, end: math.MaxInt64, earliest: 15}, want: site{offset: 20}, segment: 3},
		{name: "all segments are too early", at: position{offset: 3, end: 25, earliest: 99}, want: site{offset: 25, end: EndRange}},
		{name: "below the start that was reported", before: func(s *scripted) { s.bounds(10, -1, -1) }, at: at(9), kind: OutOfRange},
		{name: "a gap that stays", before: func(s *scripted) { s.remove(2) }, at: at(12), kind: Missing, refreshes: 1},
		{name: "a gap that is filled", before: func(s *scripted) { s.remove(2) }, at: at(12), refreshes: 1,
			script: []func(*scripted){func(s *scripted) {
				s.apply(tier.SegmentLoaded{Segment: tier.Segment{ID: idOf(9), Partition: scriptedPartition, Topic: "t", BaseOffset: 10, EndOffset: 19,
					Size: 1, State: tier.CopyFinished, Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: 10}}}})
			}}, want: site{offset: 12}, segment: 9},
		{name: "deletes at a start that has not moved", before: func(s *scripted) { s.remove(1) }, at: at(5), kind: OutOfRange, refreshes: 1},
		{name: "the same, for the earliest offset", before: func(s *scripted) { s.remove(1) }, request: Request{Start: FromEarliest}, at: at(0),
			want: site{offset: 10}, segment: 2, refreshes: 1},
		{name: "the same, and the brokers have it", before: func(s *scripted) { s.remove(1); s.bounds(0, 5, 40) }, at: at(6),
			want: site{offset: 6, end: EndTier}, refreshes: 1},
		{name: "the start moves with the refresh", before: func(s *scripted) { s.remove(1) }, request: Request{Start: FromEarliest}, at: at(0),
			script: []func(*scripted){func(s *scripted) { s.bounds(20, -1, -1) }}, want: site{offset: 20}, segment: 3, refreshes: 1},
		{name: "the tier has shrunk", before: func(s *scripted) { s.remove(3) }, at: at(25), kind: OutOfRange, refreshes: 1},
		{name: "the tier has shrunk, and the brokers have it", before: func(s *scripted) { s.remove(3); s.bounds(0, 0, 40) }, at: at(25),
			want: site{offset: 25, end: EndTier}, refreshes: 1},
	} {
		s := &scripted{model: tier.New()}
		for _, f := range tt.script {
			s.script = append(s.script, func() { f(s) })
		}
		s.apply(tier.TopicSeen{ID: testTopic, Name: "t", At: 1})
		s.bounds(0, -1, -1)
		s.segments(0, 10, 20, 30)
		w := &waiter{}
		l := &locator{svc: &Service{cfg: Config{Source: s}}, wait: w}
		r := tt.request
		r.Topic = "t"
		if err := l.resolve(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		if tt.before != nil {
			tt.before(s)
		}
		got, err := l.locate(t.Context(), tt.at)
		n := 0
		if got.seg != nil {
			n = int(got.seg.ID[15])
		}
		got.seg = nil
		if kindOf(err) != tt.kind || tt.kind == 0 && (got != tt.want || n != tt.segment) || s.refreshes != tt.refreshes {
			t.Errorf("%s: %+v in segment %d, %v after %d refreshes", tt.name, got, n, err, s.refreshes)
		}
	}
}
