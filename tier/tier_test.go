package tier

import (
	"slices"
	"sync"
	"testing"

	"coldtap/segment"
)

func TestImpossibleChangesAreDroppedAndNamed(t *testing.T) {
	update := func(n uint64, s State) Change { return SegmentUpdated{Partition: part0, ID: id(n), State: s} }
	elsewhere := PartitionID{Topic: topicA, Partition: 7}
	bad := seg(1, 0, 99)
	for _, c := range []struct {
		name   string
		before []Change
		change Change
		reason string
	}{
		{"update of an unknown id", finished(seg(1, 0, 99, 0, 0)), update(2, CopyFinished), ReasonUnknownSegment},
		{"update in an unknown partition", nil, update(1, CopyFinished), ReasonUnknownSegment},
		{"update in another partition", finished(seg(1, 0, 99, 0, 0)), SegmentUpdated{Partition: elsewhere, ID: id(1), State: DeleteStarted}, ReasonUnknownSegment},
		{"finished after it was deleted", append(finished(seg(1, 0, 99, 0, 0)), deleted(1)...), update(1, CopyFinished), ReasonUnknownSegment},
		{"deleted twice", append(finished(seg(1, 0, 99, 0, 0)), deleted(1)...), update(1, DeleteFinished), ReasonUnknownSegment},
		{"finished again after delete started", append(finished(seg(1, 0, 99, 0, 0)), update(1, DeleteStarted)), update(1, CopyFinished), ReasonIllegalTransition},
		{"deleted without delete started", finished(seg(1, 0, 99, 0, 0)), update(1, DeleteFinished), ReasonIllegalTransition},
		{"update to started", added(seg(1, 0, 99, 0, 0)), update(1, CopyStarted), ReasonIllegalTransition},
		{"started again after finished", finished(seg(1, 0, 99, 0, 0)), SegmentAdded{seg(1, 0, 99, 0, 0)}, ReasonIllegalTransition},
		{"added as finished", nil, SegmentAdded{inState(seg(1, 0, 99, 0, 0), CopyFinished)}, ReasonIllegalTransition},
		{"unknown state", finished(seg(1, 0, 99, 0, 0)), update(1, 4), ReasonUnknownState},
		{"added in an unknown state", nil, SegmentAdded{inState(seg(1, 0, 99, 0, 0), -1)}, ReasonUnknownState},
		{"loaded in an unknown state", nil, SegmentLoaded{inState(seg(1, 0, 99, 0, 0), 9)}, ReasonUnknownState},
		{"no epochs", nil, SegmentAdded{bad}, ReasonMalformed},
		{"loaded without epochs", nil, SegmentLoaded{bad}, ReasonMalformed},
		{"lineage that goes back", nil, lineageIs(2, 0, 1, 50), ReasonMalformed},
		{"hole without offsets", nil, HoleRecorded{part0, Hole{From: 5, To: 5}}, ReasonMalformed},
		{"topic without a name", nil, TopicSeen{ID: topicA}, ReasonMalformed},
		{"no change at all", nil, nil, ReasonMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !slices.Contains(Reasons(), c.reason) {
				t.Errorf("%q is not among Reasons", c.reason)
			}
			tr := build(t, c.before)
			before := tr.Snapshot()
			rejected := tr.Apply(c.change)
			if len(rejected) != 1 || rejected[0].Reason != c.reason {
				t.Fatalf("rejected %+v, want %s", rejected, c.reason)
			}
			if tr.Snapshot() != before {
				t.Error("a dropped change published a new view")
			}
			// What comes after goes on as if it had not been.
			more := finished(seg(50, 100, 199, 0, 100))
			if r := tr.Apply(more...); len(r) > 0 {
				t.Fatalf("the next changes were refused: %+v", r)
			}
			wantAt(t, partition(t, tr), map[int64]uint64{150: 50})
		})
	}
}

func TestRepeatsAreLegal(t *testing.T) {
	s := seg(1, 0, 99, 0, 0)
	tr := build(t, added(s), added(s), finished(s), []Change{
		SegmentUpdated{Partition: part0, ID: id(1), State: CopyFinished, At: 5, BrokerID: 3, Custom: []byte("c")},
	})
	got, _ := partition(t, tr).Find(5)
	if string(got.Custom) != "c" || got.EventTime != 5 || got.BrokerID != 3 || got.Topic != "t" || got.Size != 1000 {
		t.Errorf("after the repeat: %+v", got)
	}
	tr.Apply(SegmentUpdated{Partition: part0, ID: id(1), State: CopyFinished})
	if got, _ := partition(t, tr).Find(5); got.Custom != nil {
		t.Error("custom metadata outlived an update that had none")
	}
	if string(got.Custom) != "c" {
		t.Error("a segment that was handed out has changed")
	}
	for range 3 {
		if r := tr.Apply(SegmentUpdated{Partition: part0, ID: id(1), State: DeleteStarted}); len(r) > 0 {
			t.Fatalf("a retried delete was refused: %+v", r)
		}
	}
}

func TestApplyCopiesWhatItIsGiven(t *testing.T) {
	s := seg(1, 0, 99, 0, 0)
	s.Custom = []byte("c")
	tr := build(t, added(s), []Change{SegmentUpdated{Partition: part0, ID: id(1), State: CopyFinished, Custom: s.Custom}})
	s.Custom[0], s.Epochs[0].Epoch = 'x', 77
	if got, ok := partition(t, tr).Find(5); !ok || string(got.Custom) != "c" {
		t.Errorf("the caller's buffer shows through: %+v", got)
	}
}

func TestOfTwoTopicsWithOneNameTheNewestEventWins(t *testing.T) {
	old, recreated := seg(1, 0, 99, 0, 0), seg(2, 0, 49, 0, 0)
	old.EventTime, recreated.EventTime = 100, 200
	recreated.Partition.Topic = topicB
	tr := build(t, added(old), added(recreated))
	chosen := func() segment.UUID {
		t.Helper()
		topic, ok := tr.Snapshot().TopicByName("t")
		if !ok || len(tr.Snapshot().Topics()) != 1 || tr.Snapshot().Topics()[0].ID != topic.ID {
			t.Fatalf("topics %+v", tr.Snapshot().Topics())
		}
		return topic.ID
	}
	if chosen() != topicB {
		t.Error("the re-created topic is hidden by the old one")
	}
	tr.Apply(SegmentUpdated{Partition: part0, ID: id(1), State: CopyFinished, At: 300})
	if chosen() != topicA {
		t.Error("the newest event is the first topic's")
	}
	tr.Apply(TopicSeen{ID: topicB, Name: "t", At: 400})
	if chosen() != topicB {
		t.Error("TopicSeen was not taken as an event")
	}
	for _, u := range []segment.UUID{topicA, topicB} {
		if topic, ok := tr.Snapshot().TopicByID(u); !ok || topic.Name != "t" || !slices.Equal(topic.Partitions, []int32{0}) {
			t.Errorf("by id: %+v %v", topic, ok)
		}
	}
	tr.Apply(PartitionForgotten{PartitionID{Topic: topicB}})
	if chosen() != topicA {
		t.Error("a topic that is gone still holds the name")
	}
}

// The newest event names a topic; an older segment keeps the name that it was copied under.
func TestNewestEventNamesTheTopic(t *testing.T) {
	old := seg(1, 0, 99, 0, 0)
	old.Topic, old.EventTime = "before", 100
	tr := build(t, []Change{TopicSeen{ID: topicA, Name: "now", At: 200}}, added(old))
	if s, ok := partition(t, tr).Segment(id(1)); !ok || s.Topic != "before" {
		t.Errorf("the segment's topic is %q", s.Topic)
	}
	for _, c := range []struct {
		name string
		at   int64
		want string
	}{{"older", 199, "now"}, {"same time", 200, "same time"}, {"newer", 300, "newer"}} {
		tr.Apply(TopicSeen{ID: topicA, Name: c.name, At: c.at})
		if topic, ok := tr.Snapshot().TopicByID(topicA); !ok || topic.Name != c.want {
			t.Errorf("after an event that is %s: %q, want %q", c.name, topic.Name, c.want)
		}
	}
}

func TestBoundsThatWereNotReportedAreUnknown(t *testing.T) {
	b := partition(t, build(t, finished(seg(1, 5, 9, 0, 5)))).Bounds()
	if want := (Bounds{Start: 5, LocalStart: -1, HighWatermark: -1, LastStable: -1}); b != want {
		t.Errorf("%+v, want %+v", b, want)
	}
}

func TestTopicsAreListedWhileAPartitionIsKnown(t *testing.T) {
	p3 := PartitionID{topicA, 3}
	s := seg(1, 0, 99, 0, 0)
	s.Topic = ""
	tr := build(t, []Change{TopicSeen{ID: topicA, Name: "t", At: 1}})
	if len(tr.Snapshot().Topics()) != 0 {
		t.Error("a topic without partitions is listed")
	}
	tr.Apply(append(finished(s), BoundsChanged{p3, Bounds{Start: 0}}, LineageChanged{PartitionID{topicA, 5}, epochList(0, 0)})...)
	topic, ok := tr.Snapshot().TopicByName("t")
	if !ok || !slices.Equal(topic.Partitions, []int32{0, 3}) {
		t.Errorf("topic %+v %v, want partitions 0 and 3", topic, ok)
	}
	if _, ok := tr.Snapshot().Partition(PartitionID{topicA, 5}); ok {
		t.Error("a partition with nothing but a lineage is given")
	}
	tr.Apply(deleted(1)...)
	if topic, _ := tr.Snapshot().TopicByName("t"); !slices.Equal(topic.Partitions, []int32{3}) {
		t.Errorf("partitions %v, want 3 only", topic.Partitions)
	}
	tr.Apply(PartitionForgotten{p3})
	if _, ok := tr.Snapshot().TopicByName("t"); ok || tr.Snapshot().Segments() != 0 {
		t.Error("the topic outlived its partitions")
	}
	if _, ok := tr.Snapshot().TopicByName(""); ok {
		t.Error("a topic without a name is found by it")
	}
}

func TestSegmentLoadedTakesAnyState(t *testing.T) {
	tr := build(t, []Change{
		SegmentLoaded{inState(seg(1, 0, 99, 0, 0), CopyFinished)},
		SegmentLoaded{inState(seg(2, 100, 199, 0, 100), DeleteStarted)},
		SegmentLoaded{inState(seg(3, 200, 299, 0, 200), DeleteFinished)},
	})
	wantAt(t, partition(t, tr), map[int64]uint64{50: 1, 150: 0})
	if n := tr.Snapshot().Segments(); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
	tr.Apply(SegmentLoaded{inState(seg(1, 0, 99, 0, 0), DeleteStarted)})
	wantAt(t, partition(t, tr), map[int64]uint64{50: 0})
	tr.Apply(SegmentLoaded{inState(seg(1, 0, 99, 0, 0), DeleteFinished)}, SegmentLoaded{inState(seg(4, 0, 49, 0, 0), CopyFinished)},
		SegmentLoaded{inState(seg(4, 10, 69, 0, 10), CopyFinished)})
	wantAt(t, partition(t, tr), map[int64]uint64{5: 0, 60: 4})
	if n := len(partition(t, tr).Segments(true)); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
}

// While the start moves and its segment goes, and new ones come, no reader may miss an offset that is always there.
func TestReadersNeverMissWhatIsAlwaysThere(t *testing.T) {
	const rounds = 400
	tr := build(t, []Change{startIs(0)}, finished(seg(1, 0, 99, 0, 0), seg(2, 100, 199, 0, 100)))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				p, ok := tr.Snapshot().Partition(part0)
				if !ok {
					t.Error("the partition vanished")
					return
				}
				s, ok := p.Find(150)
				if !ok || s.ID != id(2) {
					t.Errorf("offset 150 is not found between start %d and end %d", p.Bounds().Start, p.TieredEnd())
					return
				}
				if start := p.Bounds().Start; start < p.TieredEnd() {
					if s, ok := p.Find(start); !ok {
						t.Errorf("the start %d itself is not readable", start)
						return
					} else if !p.Readable(s.ID) {
						t.Error("Find gave what the same view calls unreadable")
						return
					}
				}
				walkQuietly(p)
			}
		})
	}
	for i := range uint64(rounds) {
		n := 10 + i
		tr.Apply(append([]Change{startIs(100)}, deleted(1)...)...)
		tr.Apply(finished(seg(n, 200, 299, 0, 200))...)
		tr.Apply(append([]Change{startIs(0)}, finished(seg(1, 0, 99, 0, 0))...)...)
		tr.Apply(deleted(n)...)
	}
	close(done)
	readers.Wait()
}

func walkQuietly(p *Partition) {
	for s, ok := p.Find(p.Bounds().Start); ok; s, ok = p.Next(s) {
	}
}

func TestPartitionsYieldsAllOfThem(t *testing.T) {
	other := seg(2, 0, 49, 0, 0)
	other.Partition.Topic = topicB
	tr := build(t, finished(other, seg(1, 0, 99, 0, 0)), []Change{startIs(0), LineageChanged{PartitionID{topicB, 9}, epochList(0, 0)}})
	var got []PartitionID
	for p := range tr.Snapshot().Partitions() {
		got = append(got, p.ID())
	}
	if !slices.Equal(got, []PartitionID{part0, {Topic: topicB}}) {
		t.Errorf("partitions %v", got)
	}
}
