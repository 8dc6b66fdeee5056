package observe

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/cluster"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"
)

// TestBoundsComeFromTheCluster, for all partitions of a topic that the tier holds something of, and for no other.
func TestBoundsComeFromTheCluster(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	c.Say(
		cluster.Topic{ID: segment.UUID{5}, Name: "elsewhere", Partitions: []cluster.Partition{bounded(0, 0, 5)}},
		orders(bounded(0, 7, 9), unbounded(1), unbounded(2), bounded(3, 20, 200)),
	)
	h := start(t, c, copied(1, "orders", orders3, 0, 99)...)
	view := h.tier.Snapshot()
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
	if h.refreshed(t) != view {
		t.Error("a view that says the same made another one")
	}
	// The start moves, and what the cluster forgets stays.
	c.Say(orders(unbounded(0), unbounded(1), bounded(2, 1, 2), bounded(3, 30, 300)))
	view = h.refreshed(t)
	p, _ = view.Partition(orders3)
	q, _ := view.Partition(tier.PartitionID{Topic: ordersID})
	if p.Bounds().Start != 30 || q.Bounds().Start != 7 || len(view.Topics()[0].Partitions) != 3 {
		t.Errorf("%+v and %+v", p.Bounds(), q.Bounds())
	}
	// A view that is older than the last one is not believed.
	old := *c.View()
	old.At = old.At.Add(-time.Hour)
	old.Topics = nil
	h.Observe(&old)
	h.Observe(nil)
	if h.tier.Snapshot() != view {
		t.Error("an old view was taken over")
	}
}

// TestH7EverythingDeleted: a topic of which all segments are gone keeps its bounds while the cluster has it.
func TestH7EverythingDeleted(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	c.Say(orders(unbounded(0), unbounded(1), unbounded(2), bounded(3, 300, 300)))
	h := start(t, c, append(copied(1, "orders", orders3, 0, 99), moved(1, orders3, tier.DeleteStarted), moved(1, orders3, tier.DeleteFinished))...)
	p, ok := h.tier.Snapshot().Partition(orders3)
	if !ok || p.Bounds().Start != 300 || p.TieredEnd() != 300 {
		t.Fatalf("%+v", p)
	}
	c.Say()
	if topics := h.refreshed(t).Topics(); len(topics) != 0 {
		t.Errorf("%+v is left when the topic is gone", topics)
	}
	if b := h.observed; len(h.topics)+len(b.bounds)+len(b.complete)+len(b.pending)+len(b.lineage)+len(b.names)+len(b.states) != 0 {
		t.Errorf("%v and %+v are kept", h.topics, b)
	}
}

// TestTopicsOfOneName: the cluster's present one has the name, whatever the events' times; the other is reached by its
// id until its last segment is deleted.
func TestTopicsOfOneName(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	orphan := tier.PartitionID{Topic: segment.UUID{8}, Partition: 0}
	const left = 99_999 // the newest event
	c.Say(cluster.Topic{ID: orphan.Topic, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 60)}})
	h := start(t, c, append(copied(1, "orders", orders3, 0, 99), copied(left, "orders", orphan, 0, 49)...)...)
	named := func(want segment.UUID) {
		t.Helper()
		if topic, ok := h.tier.Snapshot().TopicByName("orders"); !ok || topic.ID != want {
			t.Errorf("orders is %v, want %v", topic.ID, want)
		}
	}
	named(orphan.Topic)

	c.Say(orders(unbounded(0), unbounded(1), unbounded(2), bounded(3, 0, 200)))
	h.refreshed(t)
	named(ordersID)
	p, ok := h.tier.Snapshot().Partition(orphan)
	if !ok || !p.Readable(segmentID(left)) || p.Bounds() != (tier.Bounds{Start: 0, LocalStart: -1, HighWatermark: -1, LastStable: -1}) {
		t.Errorf("the orphan is %+v", p)
	}
	// An event of the old topic does not bring the name back.
	h.apply(moved(left, orphan, tier.CopyFinished))
	h.refreshed(t)
	named(ordersID)

	// The topic is created once more, and nothing of the new one is tiered yet: its name is no longer another's.
	third := segment.UUID{9}
	c.Say(cluster.Topic{ID: third, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 3)}})
	h.refreshed(t)
	named(third)
	if !slices.Contains(c.Watched(), third) {
		t.Error("it is not watched")
	}
	// No topic of the cluster has the name any more.
	c.Say()
	h.refreshed(t)
	named(orphan.Topic) // the newest event
	if _, ok := h.tier.Snapshot().TopicByID(ordersID); !ok {
		t.Error("the other one cannot be reached")
	}
	h.apply(moved(left, orphan, tier.DeleteStarted), moved(left, orphan, tier.DeleteFinished))
	if _, ok := h.refreshed(t).TopicByID(orphan.Topic); ok {
		t.Error("the orphan is left without segments")
	}
	named(ordersID)
}

// TestLineageIsTakenBack when a leader that answers has none to report, and kept while it does not answer.
func TestLineageIsTakenBack(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	say := func(lineage ...segment.EpochStart) {
		p := bounded(3, 0, 200)
		p.Lineage = lineage
		c.Say(orders(p))
	}
	say(segment.EpochStart{Epoch: 4, StartOffset: 0}, segment.EpochStart{Epoch: 5, StartOffset: 50})
	h := start(t, c, copied(1, "orders", orders3, 0, 99)...)
	if h.readable(orders3, 1) {
		t.Fatal("a segment of a log that was lost is readable")
	}
	say()
	c.Hang(0)
	if h.refreshed(t); h.readable(orders3, 1) {
		t.Error("a leader that does not answer took it back")
	}
	c.Hang()
	if h.refreshed(t); !h.readable(orders3, 1) {
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
			c := &scriptedcluster.Cluster{}
			c.Say(orders(old))
			h := start(t, c, append(copied(1, "orders", orders3, 50, 99), copied(2, "orders", orders3, 100, 199)...)...)
			if !h.readable(orders3, 2) {
				t.Fatal("it is not readable before the election")
			}
			c.Say(orders(now))
			p, _ := h.refreshed(t).Partition(orders3)
			if p.Readable(segmentID(2)) || p.TieredEnd() != 100 {
				t.Errorf("tiered up to %d", p.TieredEnd())
			}
			if _, ok := p.Find(99); ok != (name == "shorter") {
				t.Errorf("offset 99: %v", ok)
			}
		})
	}
}

// TestBoundsOutliveAPartitionThatRecordsForget, for as long as the cluster has it; until it is asked, they are unknown.
func TestBoundsOutliveAPartitionThatRecordsForget(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	c.Say(orders(bounded(3, 20, 200)))
	h := start(t, c, copied(1, "orders", orders3, 0, 99)...)
	h.apply(tier.PartitionForgotten{Partition: orders3})
	if _, ok := h.tier.Snapshot().Partition(orders3); ok || h.doubt(orders3) == nil {
		t.Errorf("just forgotten: listed %t, %v", ok, h.doubt(orders3))
	}
	p, ok := h.refreshed(t).Partition(orders3)
	if !ok || p.Bounds().Start != 20 || len(p.Segments(true)) != 0 || len(p.Lineage()) != 1 || p.Certainty() != (tier.Certainty{}) {
		t.Errorf("%+v, %v", p, ok)
	}
	if !slices.Equal(h.withdrawn, []segment.UUID{segmentID(1)}) {
		t.Errorf("%v were withdrawn", h.withdrawn)
	}
}

// running is start with Run under way.
func running(t *testing.T, c *scriptedcluster.Cluster, changes ...tier.Change) *harness {
	h := start(t, c, changes...)
	go h.Run(t.Context())
	synctest.Wait()
	return h
}

// TestTopicMadeAnewIsWatched as soon as a view shows that a name has passed to it, before anything of it is tiered.
func TestTopicMadeAnewIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scriptedcluster.Cluster{}
		c.Say(orders(bounded(3, 0, 200)))
		h := running(t, c, copied(1, "orders", orders3, 0, 99)...)
		again := segment.UUID{9}
		c.Say(cluster.Topic{ID: again, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 3)}})
		v := *c.View()
		v.Topics = []cluster.Topic{{ID: again, Name: "orders", Partitions: []cluster.Partition{unbounded(0)}}}
		h.Observe(&v) // the bounds of an id that is not watched were not asked for
		synctest.Wait()
		topic, ok := h.tier.Snapshot().TopicByName("orders")
		if !ok || topic.ID != again || !slices.Equal(topic.Partitions, []int32{0}) || !slices.Contains(c.Watched(), again) {
			t.Errorf("%+v", topic)
		}
	})
}

// TestNewTopicsAreWatched as soon as the first record of one comes, and asked about until the cluster answers.
func TestNewTopicsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scriptedcluster.Cluster{}
		h := running(t, c)
		c.Say(orders(bounded(3, 5, 200)))
		c.SetAway(errors.New("away"))
		h.apply(copied(1, "orders", orders3, 0, 99)...)
		synctest.Wait()
		if err := h.doubt(orders3); err == nil || err.Error() != "test: the cluster has not been asked about the topic yet" {
			t.Errorf("before the cluster answers: %v", err)
		}
		c.SetAway(nil)
		time.Sleep(maxPause)
		synctest.Wait()
		if p, ok := h.tier.Snapshot().Partition(orders3); !ok || p.Bounds().Start != 5 || h.doubt(orders3) != nil || !slices.Contains(c.Watched(), ordersID) {
			t.Errorf("%+v, %v", p, h.doubt(orders3))
		}
	})
}

// TestAViewIsTakenOverOnce, although the cluster's client reports it and the one who asked looks at it too.
func TestAViewIsTakenOverOnce(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	c.Say(orders(bounded(3, 0, 200)))
	applied := 0
	h := start(t, c, copied(1, "orders", orders3, 0, 99)...)
	h.opt.Applied = func(int, []tier.Rejected) { applied++ }
	h.Observe(c.View())
	h.Observe(c.View())
	if applied != 0 {
		t.Errorf("it was taken over %d times more", applied)
	}
	if h.refreshed(t); applied != 1 {
		t.Errorf("a new one was taken over %d times", applied)
	}
}

// TestATierBeforeItIsPublished is given what records say only, and what was observed until then at once.
func TestATierBeforeItIsPublished(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	c.Say(orders(bounded(3, 20, 200)))
	h := prepare(c, copied(1, "orders", orders3, 0, 99)...)
	if err := h.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, _ := h.tier.Snapshot().Partition(orders3); p.StartReported() || h.Answered(h.tier) {
		t.Errorf("before it is published: %+v, answered: %t", p.Bounds(), h.Answered(h.tier))
	}
	h.Publish(h.tier, func() {
		if p, _ := h.tier.Snapshot().Partition(orders3); p.Bounds().Start != 20 || p.Certainty() != (tier.Certainty{}) {
			t.Errorf("when it is published: %+v", p)
		}
	})
	if h.Answered(h.tier) {
		t.Error("the cluster was not asked since it was published")
	}
	if h.refreshed(t); !h.Answered(h.tier) {
		t.Error("the cluster was asked")
	}
	// Another tier is on its way: this one stays as it is.
	h.Restart(nil)
	before := h.tier.Snapshot()
	c.Say(orders(bounded(3, 30, 200)))
	if h.refreshed(t) != before || len(h.Topics()) != 0 {
		t.Error("it changed")
	}
}
