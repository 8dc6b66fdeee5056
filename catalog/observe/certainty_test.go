package observe

import (
	"errors"
	"slices"
	"testing"
	"time"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"
)

// TestCertainty: bounds count once they were reported, and where there is no leader to report any.
func TestCertainty(t *testing.T) {
	of := func(number int32) tier.PartitionID { return tier.PartitionID{Topic: ordersID, Partition: number} }
	gone, denied, split := segment.UUID{8}, segment.UUID{9}, segment.UUID{10}
	silent, unlikely, cut := unbounded(1), bounded(4, 0, 200), bounded(6, 0, 200)
	silent.Leader, cut.Leader, cut.LineagePending = 9, 2, true
	unlikely.HighWatermark, unlikely.LastStable = -1, -1
	c := &scriptedcluster.Cluster{}
	c.Hang(9)
	c.Deny(denied)
	c.Say(orders(bounded(0, 0, 9), silent, unbounded(2), bounded(3, 0, 200), unlikely, cut))
	changes := copied(1, "orders", orders3, 0, 99)
	for name, id := range map[string]segment.UUID{"gone": gone, "denied": denied, "split": split} {
		changes = append(changes, copied(int(id[0]), name, tier.PartitionID{Topic: id}, 0, 99)...)
	}
	h := start(t, c, changes...)
	v := *c.View()
	v.Missing = map[segment.UUID]cluster.Absence{gone: cluster.TopicGone, denied: cluster.TopicDenied, split: cluster.TopicUnclear}
	h.Observe(&v)
	for _, tt := range []struct {
		name  string
		id    tier.PartitionID
		state tier.BoundsState
		why   string // empty: they can be relied on
	}{
		{"reported", of(3), tier.BoundsCertain, ""},
		{"its leader is silent", of(1), tier.BoundsUnknown, "test: the leader of orders-1, broker 9, has not told its bounds yet"},
		{"it has no leader", of(2), tier.BoundsUnknown, "test: orders-2 has no leader, and none has told its bounds yet"},
		{"reported bounds that cannot be true", of(4), tier.BoundsUnknown, "test: the leader of orders-4, broker 0, has not told its bounds yet"},
		{"no leader epochs", of(6), tier.BoundsUnknown, "test: the new leader of orders-6, broker 2, has not told the log's leader epochs yet"},
		{"the topic has no such partition", of(5), tier.BoundsCertain, ""},
		{"the topic is gone", tier.PartitionID{Topic: gone}, tier.BoundsCertain, ""},
		{"the topic is denied", tier.PartitionID{Topic: denied}, tier.BoundsDenied, "test: the cluster denies DESCRIBE on topic denied"},
		{"a partition of it that the tier holds nothing of", tier.PartitionID{Topic: denied, Partition: 7}, tier.BoundsDenied, "test: the cluster denies DESCRIBE on topic denied"},
		{"brokers differ", tier.PartitionID{Topic: split}, tier.BoundsUnknown, "test: the brokers do not agree on whether there is a topic split of id " + split.String()},
		{"not asked", tier.PartitionID{Topic: segment.UUID{77}}, tier.BoundsUnknown, "test: the cluster has not been asked about the topic yet"},
	} {
		view := h.tier.Snapshot()
		is := view.Certainty(tt.id)
		if is.State != tt.state || (is.Reason == nil) != (tt.why == "") {
			t.Errorf("%s: %+v", tt.name, is)
		}
		if p, ok := view.Partition(tt.id); ok && p.Certainty() != is {
			t.Errorf("%s: the partition has %+v", tt.name, p.Certainty())
		}
		if n := testing.AllocsPerRun(100, func() { _ = view.Certainty(tt.id) }); n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
		if tt.why == "" {
			continue
		}
		if e, ok := errors.AsType[*catalog.Error](is.Reason); !ok || e.Kind != catalog.NotReady || e.Error() != tt.why {
			t.Errorf("%s: %v", tt.name, is.Reason)
		}
	}
	if !slices.Equal(h.Denied(), []string{"denied"}) {
		t.Errorf("denied: %v", h.Denied())
	}
	// What a refresh comes to.
	asked := c.View().At
	for id, why := range map[tier.PartitionID]string{
		of(3):                     "",
		of(1):                     "the leader of orders-1, broker 9, does not tell its bounds",
		of(2):                     "orders-2 has no leader",
		of(4):                     "the leader of orders-4, broker 0, tells bounds that cannot be true",
		of(6):                     "the leader of orders-6, broker 2, has not told the leader epochs of its log",
		of(5):                     "",
		{Topic: gone}:             "",
		{Topic: denied}:           "the cluster denies DESCRIBE on topic denied",
		{Topic: split}:            "the brokers do not agree on whether there is a topic split of id " + split.String(),
		{Topic: segment.UUID{77}}: "",
	} {
		if err := h.Since(id, asked); (err == nil) != (why == "") || err != nil && err.Error() != why {
			t.Errorf("refreshed %v: %v, want %q", id, err, why)
		}
		if got, want := h.Recent(id, asked.Add(-1)), id.Topic == ordersID && id.Partition != 1 && id.Partition != 2 && id.Partition != 5; got != want {
			t.Errorf("recent %v: %t", id, got)
		}
	}
	if err := h.Since(of(3), asked.Add(1)); err == nil || h.Recent(of(3), asked) {
		t.Errorf("reported before: %v", err)
	}

	// Reported once is enough, whatever becomes of the leader.
	c.Say(orders(bounded(0, 0, 9), bounded(1, 0, 9), bounded(2, 0, 9), bounded(3, 0, 200)))
	h.refreshed(t)
	answered := c.View().At
	c.Hang(0)
	h.refreshed(t)
	for n := range int32(4) {
		if is := h.tier.Snapshot().Certainty(of(n)); is != (tier.Certainty{State: tier.BoundsStale, Since: answered}) {
			t.Errorf("%+v", is)
		}
	}
	before := h.tier.Snapshot()
	if h.refreshed(t) != before {
		t.Error("that they are still stale made another view")
	}
	c.Say(orders(unbounded(0), unbounded(1), unbounded(2), unbounded(3)))
	h.refreshed(t)
	for n := range int32(4) {
		if err := h.doubt(of(n)); err != nil {
			t.Error(err)
		}
	}
	c.Say(orders(bounded(0, 0, 9), bounded(1, 0, 9), bounded(2, 0, 9), bounded(3, 0, 200)))
	c.Hang()
	h.refreshed(t)
	if is := h.tier.Snapshot().Certainty(of(0)); is != (tier.Certainty{}) {
		t.Errorf("its leader answers again: %+v", is)
	}
}

// TestNothingIsCertainBeforeTheCluster has said a word.
func TestNothingIsCertainBeforeTheCluster(t *testing.T) {
	h := prepare(&scriptedcluster.Cluster{}, copied(1, "orders", orders3, 0, 99)...)
	if is := h.Empty().Snapshot().Certainty(orders3); is.State != tier.BoundsUnknown || is.Reason == nil {
		t.Errorf("an empty tier: %+v", is)
	}
	h.Publish(h.tier, func() {})
	if is := h.tier.Snapshot().Certainty(orders3); is.State != tier.BoundsUnknown || is.Reason == nil {
		t.Errorf("%+v", is)
	}
}

// TestDeniedAfterItWasKnown: the bounds of before are used for a minute, then no more; they are back with the right.
func TestDeniedAfterItWasKnown(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	topic := orders(bounded(3, 20, 200))
	c.Say(topic)
	h := start(t, c, copied(1, "orders", orders3, 0, 99)...)
	reported := c.View().At
	topic.Partitions[0].BoundsAt = reported
	observe := func(after time.Duration, missing map[segment.UUID]cluster.Absence) tier.BoundsState {
		h.Observe(&cluster.View{At: reported.Add(after), Topics: []cluster.Topic{topic}, Missing: missing})
		return h.tier.Snapshot().Certainty(orders3).State
	}
	denied := map[segment.UUID]cluster.Absence{ordersID: cluster.TopicDenied}
	if is := observe(deniedPatience, denied); is != tier.BoundsStale {
		t.Error(is)
	}
	if !slices.Equal(h.Denied(), []string{"orders"}) {
		t.Errorf("%v", h.Denied())
	}
	if is := observe(deniedPatience+1, denied); is != tier.BoundsDenied || h.doubt(orders3) == nil {
		t.Error(is)
	}
	if p, ok := h.tier.Snapshot().Partition(orders3); !ok || p.Bounds().Start != 20 || p.Bounds().HighWatermark != 200 {
		t.Errorf("%+v", p)
	}
	if is := observe(2*deniedPatience, nil); is != tier.BoundsStale { // its leader is silent, which does not matter
		t.Error(is)
	}
	if len(h.Denied()) != 0 {
		t.Errorf("%v", h.Denied())
	}
}

// TestDeniedTopicIsNotForgotten: that it is not listed does not mean that it is gone, even when nothing is left of it.
func TestDeniedTopicIsNotForgotten(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	c.Deny(ordersID)
	h := start(t, c, append(copied(1, "orders", orders3, 0, 99), moved(1, orders3, tier.DeleteStarted), moved(1, orders3, tier.DeleteFinished))...)
	if h.doubt(orders3) == nil {
		t.Error("it is certain")
	}
	c.Deny()
	c.Say(orders(bounded(3, 300, 300)))
	if p, ok := h.refreshed(t).Partition(orders3); !ok || p.Bounds().Start != 300 || h.doubt(orders3) != nil {
		t.Errorf("%+v, %v", p, h.doubt(orders3))
	}
}

// A cut partition is never mistaken for one that ends at its start: the view that is cut says so.
func TestACutIsNoEnd(t *testing.T) {
	whole, cut := bounded(3, 0, 200), bounded(3, 0, 200)
	whole.LeaderEpoch = 4
	cut.LeaderEpoch, cut.Lineage, cut.LineagePending = 9, []segment.EpochStart{{Epoch: 9, StartOffset: 0}}, true
	c := &scriptedcluster.Cluster{}
	say := func(p cluster.Partition) *cluster.View {
		return c.Say(orders(bounded(0, 0, 9), bounded(1, 0, 9), bounded(2, 0, 9), p))
	}
	say(whole)
	h := start(t, c, copied(1, "orders", orders3, 0, 99)...)
	check := func(want ...int64) {
		t.Helper()
		view := h.tier.Snapshot()
		p, _ := view.Partition(orders3)
		if at := p.TieredEnd(); !slices.Contains(want, at) || (at == 100) != (p.Certainty().Reason == nil) || p.Certainty() != view.Certainty(orders3) {
			t.Fatalf("a view that ends at %d is given out with %+v", at, p.Certainty())
		}
	}
	check(100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			h.Observe(say(cut))
			h.Observe(say(whole))
		}
		h.Observe(say(cut))
	}()
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
		}
		check(0, 100)
	}
	check(0)
	if err := h.doubt(orders3); err.Error() != "test: the new leader of orders-3, broker 0, has not told the log's leader epochs yet" {
		t.Errorf("cut: %v", err)
	}
	h.Observe(say(whole))
	check(100)
}
