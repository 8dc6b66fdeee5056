package fetch

import (
	"context"
	"errors"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// liveSource is a harness's source that follows a cluster.
type liveSource struct {
	*harnessSource
	recent  bool
	include func(name string) error
}

func (s *liveSource) Recent(tier.PartitionID) bool { return s.recent }
func (s *liveSource) Include(_ context.Context, name string, _ segment.UUID) error {
	return s.include(name)
}

// TestBeyondTheTierBrokersAreAskedOnDoubtOnly: whoever is sent to the brokers needs no newer answer than one of just
// now; that an offset is out of range does.
func TestBeyondTheTierBrokersAreAskedOnDoubtOnly(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	id := tier.PartitionID{Topic: testTopic}
	s.apply(tier.BoundsChanged{Partition: id, Bounds: tier.Bounds{Start: 0, LocalStart: 0, HighWatermark: 50, LastStable: 40}})
	src := &liveSource{harnessSource: (*harnessSource)(s)}
	s.Service.cfg.Source = src
	for _, tt := range []struct {
		offset int64
		recent bool
		asked  int
		kind   Kind
	}{
		{0, false, 0, 0},
		{20, true, 0, 0},
		{50, true, 0, 0},
		{20, false, 1, 0},
		{51, true, 1, OutOfRange},
	} {
		asked := 0
		s.refresh = func() error { asked++; return nil }
		src.recent = tt.recent
		r := Request{Topic: "t", Offset: tt.offset, EndOffset: -1, EndTimestamp: -1, MaxBytes: 1 << 20, Timeout: 1e9}
		a := s.stretch(&r)
		if kindOf(a.err) != tt.kind || tt.kind == 0 && (a.end != EndTier || a.next != tt.offset) || asked != tt.asked {
			t.Errorf("offset %d, recent %t: ends for %v at %d with %v, asked %d times", tt.offset, tt.recent, a.end, a.next, a.err, asked)
		}
	}
}

// TestTopicsThatTheClusterHas are answered though nothing of them is tiered; others are unknown, or not known now.
func TestTopicsThatTheClusterHas(t *testing.T) {
	s := newHarness(t, shape{})
	id := tier.PartitionID{Topic: testTopic}
	away := errors.New("away")
	s.Service.cfg.Source = &liveSource{(*harnessSource)(s), true, func(name string) error {
		switch name {
		case "idle":
			s.apply(tier.TopicSeen{ID: testTopic, Name: "idle"},
				tier.BoundsChanged{Partition: id, Bounds: tier.Bounds{Start: 3, LocalStart: 3, HighWatermark: 9, LastStable: 9}})
		case "later":
			return away
		}
		return nil
	}}
	r := Request{Topic: "idle", Start: FromEarliest, EndOffset: -1, EndTimestamp: -1, MaxBytes: 1 << 20, Timeout: 1e9}
	if a := s.stretch(&r); a.err != nil || a.end != EndTier || a.next != 3 {
		t.Errorf("ends for %v at %d with %v", a.end, a.next, a.err)
	}
	if info, err := s.Service.Topic("idle", segment.UUID{}); err != nil || len(info.Partitions) != 1 || info.Partitions[0].TieredEnd != 3 {
		t.Errorf("%+v, %v", info, err)
	}
	for name, kind := range map[string]Kind{"nobody.has.it": TopicUnknown, "later": NotReady} {
		if _, err := s.Service.Topic(name, segment.UUID{}); kindOf(err) != kind {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Service.Partition(name, segment.UUID{}, 0); kindOf(err) != kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A partition whose leader has told nothing is none that is not there.
	s.apply(uncertain(1, away))
	if _, err := s.Service.Partition("idle", segment.UUID{}, 1); kindOf(err) != NotReady {
		t.Errorf("partition 1: %v", err)
	}
}

// TestATopicThatIsDeletedUnderAReader is unknown from then on, and not out of range.
func TestATopicThatIsDeletedUnderAReader(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	id := tier.PartitionID{Topic: testTopic}
	s.apply(tier.BoundsChanged{Partition: id, Bounds: tier.Bounds{Start: 0, LocalStart: 0, HighWatermark: 50, LastStable: 40}})
	s.refresh = func() error {
		s.apply(tier.PartitionForgotten{Partition: id})
		return nil
	}
	r := Request{Topic: "t", Offset: 20, EndOffset: -1, EndTimestamp: -1, MaxBytes: 1 << 20, Timeout: 1e9}
	if a := s.stretch(&r); kindOf(a.err) != TopicUnknown {
		t.Errorf("%v", a.err)
	}
}
