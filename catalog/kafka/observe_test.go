package kafka

import (
	"slices"
	"testing"
	"time"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bounded is a partition that the cluster knows.
func bounded(number int32, start, end int64) cluster.Partition {
	return cluster.Partition{
		Number: number, LogStart: start, LocalStart: start + 1, LastStable: end - 1, HighWatermark: end,
		Lineage: []segment.EpochStart{{Epoch: 4, StartOffset: start}},
	}
}

func unbounded(number int32) cluster.Partition {
	return cluster.Partition{Number: number, Leader: -1, LogStart: -1, LocalStart: -1, LastStable: -1, HighWatermark: -1}
}

// settled is a follower of a topic that holds records, and of a cluster that has topics.
func settled(t *testing.T, c *calm, records ...Record) (*stand, *Follower) {
	t.Helper()
	s := newStand(t, 4)
	s.write(t, 4, records...)
	f := s.open(t, Options{Cluster: c})
	ready(t, f)
	return s, f
}

// TestBoundsComeFromTheCluster, for all partitions of a topic that the tier holds something of, and for no other.
func TestBoundsComeFromTheCluster(t *testing.T) {
	c := &calm{}
	c.say(
		cluster.Topic{ID: segment.UUID{5}, Name: "elsewhere", Partitions: []cluster.Partition{bounded(0, 0, 5)}},
		cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(0, 7, 9), unbounded(1), unbounded(2), bounded(3, 20, 200)}},
	)
	_, f := settled(t, c, finished(1, orders3, 0, 99)...)
	view := f.Snapshot()
	if topics := view.Topics(); len(topics) != 1 || !slices.Equal(topics[0].Partitions, []int32{0, 3}) {
		t.Errorf("%+v", topics)
	}
	p, _ := view.Partition(orders3)
	if got, want := p.Bounds(), (tier.Bounds{Start: 20, LocalStart: 21, HighWatermark: 200, LastStable: 199}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if want := []segment.EpochStart{{Epoch: 4, StartOffset: 0}}; !slices.Equal(p.Lineage(), want) {
		t.Errorf("%v, want %v", p.Lineage(), want)
	}
	if refreshed(t, f) != view {
		t.Error("a view that says the same made another one")
	}
	// The start moves, and what the cluster forgets stays.
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{unbounded(0), unbounded(1), bounded(2, 1, 2), bounded(3, 30, 300)}})
	view = refreshed(t, f)
	p, _ = view.Partition(orders3)
	q, _ := view.Partition(tier.PartitionID{Topic: ordersID})
	if p.Bounds().Start != 30 || q.Bounds().Start != 7 || len(view.Topics()[0].Partitions) != 3 {
		t.Errorf("%+v and %+v", p.Bounds(), q.Bounds())
	}
	// A view that is older than the last one is not believed.
	old := *c.View()
	old.At = old.At.Add(-time.Hour)
	old.Topics = nil
	f.Observe(&old)
	f.Observe(nil)
	if f.Snapshot() != view {
		t.Error("an old view was taken over")
	}
}

// TestH7EverythingDeleted: a topic of which all segments are gone keeps its bounds while the cluster has it.
func TestH7EverythingDeleted(t *testing.T) {
	c := &calm{}
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{unbounded(0), unbounded(1), unbounded(2), bounded(3, 300, 300)}})
	first := started(1, orders3, 0, 99)
	_, f := settled(t, c, first, moved(first, tier.CopyFinished), moved(first, tier.DeleteStarted), moved(first, tier.DeleteFinished))
	p, ok := f.Snapshot().Partition(orders3)
	if !ok || p.Bounds().Start != 300 || p.TieredEnd() != 300 {
		t.Fatalf("%+v", p)
	}
	c.say()
	if topics := refreshed(t, f).Topics(); len(topics) != 0 {
		t.Errorf("%+v is left when the topic is gone", topics)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) != 0 || len(f.bounds.bounds) != 0 {
		t.Errorf("%v and %v are kept", f.known, f.bounds.bounds)
	}
}

// TestTopicsOfOneName: the cluster's present one has the name, whatever the events' times; the other is reached by its
// id until its last segment is deleted.
func TestTopicsOfOneName(t *testing.T) {
	c := &calm{}
	orphan := tier.PartitionID{Topic: segment.UUID{8}, Partition: 0}
	left := started(2, orphan, 0, 49)
	left.EventTime = 99_999
	c.say(cluster.Topic{ID: orphan.Topic, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 60)}})
	s, f := settled(t, c, append(finished(1, orders3, 0, 99), left, moved(left, tier.CopyFinished))...)
	named := func(want segment.UUID) {
		t.Helper()
		if topic, ok := f.Snapshot().TopicByName("orders"); !ok || topic.ID != want {
			t.Errorf("orders is %v, want %v", topic.ID, want)
		}
	}
	named(orphan.Topic)

	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{unbounded(0), unbounded(1), unbounded(2), bounded(3, 0, 200)}})
	refreshed(t, f)
	named(ordersID)
	p, ok := f.Snapshot().Partition(orphan)
	if !ok || !p.Readable(left.ID) || p.Bounds() != (tier.Bounds{Start: 0, LocalStart: -1, HighWatermark: -1, LastStable: -1}) {
		t.Errorf("the orphan is %+v", p)
	}
	// An event of the old topic does not bring the name back.
	s.write(t, 4, moved(left, tier.CopyFinished))
	refreshed(t, f)
	named(ordersID)

	// The topic is created once more, and nothing of the new one is tiered yet: its name is no longer anybody else's.
	third := segment.UUID{9}
	c.say(cluster.Topic{ID: third, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 3)}})
	refreshed(t, f)
	named(third)
	if !slices.Contains(c.watches(), third) {
		t.Errorf("%v are watched", c.watches())
	}
	// Nobody has the name any more.
	c.say()
	refreshed(t, f)
	named(orphan.Topic) // the newest event
	if _, ok := f.Snapshot().TopicByID(ordersID); !ok {
		t.Error("the other one cannot be reached")
	}
	s.write(t, 4, moved(left, tier.DeleteStarted), moved(left, tier.DeleteFinished))
	if _, ok := refreshed(t, f).TopicByID(orphan.Topic); ok {
		t.Error("the orphan is left without segments")
	}
	named(ordersID)
}

// TestLineageIsTakenBack when a leader that answers has none to tell, and kept while it does not answer.
func TestLineageIsTakenBack(t *testing.T) {
	c := &calm{}
	say := func(lineage ...segment.EpochStart) {
		p := bounded(3, 0, 200)
		p.Lineage = lineage
		c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{p}})
	}
	say(segment.EpochStart{Epoch: 4, StartOffset: 0}, segment.EpochStart{Epoch: 5, StartOffset: 50})
	tiered := finished(1, orders3, 0, 99)
	_, f := settled(t, c, tiered...)
	id := tiered[0].(*Segment).ID
	if isReadable(f.Snapshot(), orders3, id) {
		t.Fatal("a segment of a log that was lost is readable")
	}
	say()
	c.mu.Lock()
	c.hung = []int32{0}
	c.mu.Unlock()
	if isReadable(refreshed(t, f), orders3, id) {
		t.Error("a leader that does not answer took it back")
	}
	c.mu.Lock()
	c.hung = nil
	c.mu.Unlock()
	if !isReadable(refreshed(t, f), orders3, id) {
		t.Error("it was not taken back")
	}
}

// TestDivergentSegmentIsNotServed, although the new leader has written nothing, and when it has nothing at all.
func TestDivergentSegmentIsNotServed(t *testing.T) {
	old := bounded(3, 50, 200)
	old.Lineage = []segment.EpochStart{{Epoch: 4, StartOffset: 50}}
	shorter, empty := bounded(3, 50, 100), bounded(3, 100, 100)
	shorter.Lineage = []segment.EpochStart{{Epoch: 4, StartOffset: 50}, {Epoch: 8, StartOffset: 100}}
	empty.LastStable, empty.LocalStart = 100, 100
	empty.Lineage = []segment.EpochStart{{Epoch: 8, StartOffset: 100}}
	for name, now := range map[string]cluster.Partition{"shorter": shorter, "empty": empty} {
		t.Run(name, func(t *testing.T) {
			c := &calm{}
			c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{old}})
			kept, lost := finished(1, orders3, 50, 99), finished(2, orders3, 100, 199)
			_, f := settled(t, c, append(kept, lost...)...)
			if !isReadable(f.Snapshot(), orders3, lost[0].(*Segment).ID) {
				t.Fatal("it is not readable before the election")
			}
			c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{now}})
			p, _ := refreshed(t, f).Partition(orders3)
			if p.Readable(lost[0].(*Segment).ID) || p.TieredEnd() != 100 {
				t.Errorf("tiered up to %d", p.TieredEnd())
			}
			if _, ok := p.Find(99); ok != (name == "shorter") {
				t.Errorf("offset 99: %v", ok)
			}
		})
	}
}

// TestBoundsOutliveAPartitionThatRecordsForget, for as long as the cluster has it.
func TestBoundsOutliveAPartitionThatRecordsForget(t *testing.T) {
	c := &calm{}
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(3, 20, 200)}})
	s, f := settled(t, c, finished(1, orders3, 0, 99)...)
	s.write(t, 4, &PartitionDelete{"orders", orders3, 1, 5000, DeleteFinished})
	p, ok := refreshed(t, f).Partition(orders3)
	if !ok || p.Bounds().Start != 20 || len(p.Segments(true)) != 0 || len(p.Lineage()) != 1 {
		t.Errorf("%+v, %v", p, ok)
	}
}

// TestTopicMadeAnewIsWatched as soon as a view shows that a name has passed to it, before anything of it is tiered.
func TestTopicMadeAnewIsWatched(t *testing.T) {
	c := &calm{}
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(3, 0, 200)}})
	_, f := settled(t, c, finished(1, orders3, 0, 99)...)
	again := segment.UUID{9}
	c.say(cluster.Topic{ID: again, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 3)}})
	v := *c.View()
	v.Topics = []cluster.Topic{{ID: again, Name: "orders", Partitions: []cluster.Partition{unbounded(0)}}}
	f.Observe(&v) // nobody has asked for the bounds of an id that is not watched
	until(t, f, func() bool {
		topic, ok := f.Snapshot().TopicByName("orders")
		return ok && topic.ID == again && slices.Equal(topic.Partitions, []int32{0})
	})
	if !slices.Contains(c.watches(), again) {
		t.Errorf("%v are watched", c.watches())
	}
}

// TestNewTopicsAreWatched as soon as the first record of one comes.
func TestNewTopicsAreWatched(t *testing.T) {
	c := &calm{}
	s, f := settled(t, c)
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(3, 5, 200)}})
	s.write(t, 4, finished(1, orders3, 0, 99)...)
	until(t, f, func() bool {
		p, ok := f.Snapshot().Partition(orders3)
		return ok && p.Bounds().Start == 5
	})
	if !slices.Equal(c.watches(), []segment.UUID{ordersID}) {
		t.Errorf("%v are watched", c.watches())
	}
}

// TestFollowsALiveCluster: a follower and a cluster's client, wired as a gateway does it.
func TestFollowsALiveCluster(t *testing.T) {
	s := newStand(t, 4)
	if err := s.CreateTopic("live", 2, nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.writer.ProduceSync(t.Context(), &kgo.Record{Topic: "live", Partition: 1, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	of := tier.PartitionID{Topic: s.TopicInfo("live").TopicID, Partition: 1}
	tiered := started(1, of, 0, 1)
	tiered.Topic = "live"
	tiered.Epochs[0].Epoch = 0
	s.write(t, 4, tiered, moved(tiered, tier.CopyFinished))

	f := s.follow(t, Options{})
	p, ok := refreshed(t, f).Partition(of)
	if !ok || p.Bounds().Start != 0 || p.Bounds().HighWatermark != 3 || p.TieredEnd() != 2 {
		t.Errorf("%+v, %t", p.Bounds(), ok)
	}
	if f.ClusterID() != "stand" || f.Status().ClusterAt.IsZero() {
		t.Errorf("cluster %q, %+v", f.ClusterID(), f.Status())
	}
	if err := s.DeleteRecords("live", 1, 1); err != nil {
		t.Fatal(err)
	}
	if p, _ := refreshed(t, f).Partition(of); p.Bounds().Start != 1 {
		t.Errorf("%+v after the log start moved", p.Bounds())
	}
	s.fail(kmsg.Metadata.Int16(), true)
	wantKind(t, f.Refresh(t.Context(), tier.PartitionID{}), catalog.Unavailable)
}
