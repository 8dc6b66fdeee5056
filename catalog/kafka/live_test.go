package kafka

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// follow is a follower and a cluster's client, wired as a gateway does it, that ask when they are told to only.
func (s *harness) follow(t *testing.T, opt Options) *Follower {
	t.Helper()
	var f *Follower
	opened := make(chan struct{})
	client, err := cluster.Open(cluster.Config{Bootstrap: s.ListenAddrs(), Interval: time.Hour}, func(v *cluster.View) {
		<-opened
		f.Observe(v)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	opt.Cluster, opt.Brokers = client, client.Brokers()
	f = s.open(t, opt)
	close(opened)
	ready(t, f)
	return f
}

// create makes a topic with three records in each partition, and gives its partitions.
func (s *harness) create(t *testing.T, name string, partitions int32) (of []tier.PartitionID) {
	t.Helper()
	if err := s.CreateTopic(name, partitions, nil); err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		for range 3 {
			if err := s.writer.ProduceSync(t.Context(), &kgo.Record{Topic: name, Partition: p, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		of = append(of, tier.PartitionID{Topic: s.TopicInfo(name).TopicID, Partition: p})
	}
	return of
}

// tiered are the records of a segment of a topic that exists.
func tiered(n byte, name string, of tier.PartitionID, base, end int64) []Record {
	first := started(n, of, base, end)
	first.Topic, first.Epochs[0].Epoch = name, 0
	return []Record{first, moved(first, tier.CopyFinished)}
}

func (s *harness) requests() map[int16]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := maps.Clone(s.asked)
	delete(counts, kmsg.Fetch.Int16()) // of following
	delete(counts, kmsg.ApiVersions.Int16())
	return counts
}

// TestARefreshAsksAboutItsPartition: seven requests, and none for a second one that comes before the answer is old.
func TestARefreshAsksAboutItsPartition(t *testing.T) {
	s := newHarness(t, 4)
	of := s.create(t, "live", 3)
	for i, id := range of {
		s.write(t, 4, tiered(byte(i), "live", id, 0, 1)...)
	}
	f := s.follow(t, Options{Refresh: time.Hour})
	s.writer.Close() // its requests are not to be counted
	if err := f.Refresh(t.Context(), of[0]); err != nil {
		t.Fatal(err) // finds connections and versions
	}
	s.resetCounts()
	called := time.Now()
	if err := f.Refresh(t.Context(), of[1]); err != nil {
		t.Fatal(err)
	}
	want := map[int16]int{kmsg.Metadata.Int16(): 1, kmsg.ListOffsets.Int16(): 1 + 5}
	if got := s.requests(); !maps.Equal(got, want) {
		t.Errorf("requests by key %v, want %v", got, want)
	}
	v := f.observer.View()
	topic, _ := v.Topic(of[0].Topic)
	if topic.Partitions[1].BoundsAt.Before(called) || !topic.Partitions[0].BoundsAt.Before(called) {
		t.Errorf("%+v", topic.Partitions)
	}
	if !f.Recent(of[1]) {
		t.Error("what was told just now is not recent")
	}

	// It was in vain: nobody asks again before the answer is old, however many want to know.
	ctx, cancel := context.WithCancel(t.Context())
	outcomes := make(chan error)
	for range 20 {
		go func() { outcomes <- f.Refresh(ctx, of[1]) }()
	}
	until(t, f, func() bool { return f.refreshes.Waiting() == 20 && len(f.refreshes.Wanted()) == 0 })
	// What concerns another partition does not wait behind them.
	if err := f.Refresh(t.Context(), of[2]); err != nil {
		t.Fatal(err)
	}
	cancel()
	for range 20 {
		wantKind(t, <-outcomes, catalog.Unavailable)
	}
	for key, n := range want {
		want[key] = 2 * n
	}
	if got := s.requests(); !maps.Equal(got, want) {
		t.Errorf("requests by key %v, want %v", got, want)
	}
}

// TestADeletedTopicGoesInOneStep: no view has a part of it, or its partitions without segments, whichever of its
// partitions' records come first.
func TestADeletedTopicGoesInOneStep(t *testing.T) {
	s := newHarness(t, 4)
	of := s.create(t, "live", 2)
	var dropped []segment.UUID
	first := [][]Record{tiered(1, "live", of[0], 0, 1), tiered(2, "live", of[1], 0, 1)}
	s.write(t, 4, slices.Concat(first...)...)
	told := make(chan segment.UUID, 10)
	f := s.follow(t, Options{OnDelete: func(seg *tier.Segment) { told <- seg.ID }})
	if err := s.DeleteTopic("live"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			view := f.Snapshot()
			topic, ok := view.TopicByName("live")
			if !ok {
				return
			}
			for _, id := range of {
				p, ok := view.Partition(id)
				if !ok || len(topic.Partitions) != 2 || p.TieredEnd() != 2 || len(p.Segments(false)) != 1 {
					t.Errorf("a view shows %+v with %v of it", p, topic.Partitions)
					return
				}
			}
		}
	}()
	s.write(t, 4, moved(first[0][0].(*Segment), tier.DeleteStarted))
	<-done
	for range 2 {
		dropped = append(dropped, <-told)
	}
	if dropped[0] == dropped[1] {
		t.Errorf("caches were told of %v", dropped)
	}
	if err := f.Refresh(t.Context(), of[0]); err != nil {
		t.Error(err)
	}
	// What comes behind does not bring it back.
	s.write(t, 4, moved(first[1][0].(*Segment), tier.DeleteStarted), moved(first[1][0].(*Segment), tier.DeleteFinished))
	if topics := refreshed(t, f).Topics(); len(topics) != 0 {
		t.Errorf("%+v is left", topics)
	}
}

// hesitant is a cluster that takes a few rounds until its answers fit each other.
type hesitant struct {
	*scriptedcluster.Cluster
	rounds int
	then   cluster.Partition
}

func (h *hesitant) RefreshOnly(ctx context.Context, _ ...cluster.PartitionID) error {
	if h.rounds--; h.rounds == 0 {
		h.Say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{h.then}})
	}
	return h.Refresh(ctx)
}

// TestDeleteOnDisableIsSeenInOneStep: the tier is not shown as empty before the log start has moved to the local log.
func TestDeleteOnDisableIsSeenInOneStep(t *testing.T) {
	before, after := bounded(3, 0, 300), bounded(3, 200, 300)
	before.LocalStart, after.LocalStart = 200, 200
	c := &hesitant{&scriptedcluster.Cluster{}, 3, after}
	c.Say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{before}})
	s := newHarness(t, 4)
	a, b := finished(1, orders3, 0, 99), finished(2, orders3, 100, 199)
	s.write(t, 4, append(a, b...)...)
	f := s.open(t, Options{Cluster: c})
	ready(t, f)
	s.write(t, 4, moved(a[0].(*Segment), tier.DeleteStarted), moved(b[0].(*Segment), tier.DeleteStarted))
	until(t, f, func() bool {
		p, ok := f.Snapshot().Partition(orders3)
		if !ok {
			t.Fatal("it is gone")
		}
		now := p.Bounds()
		if empty := len(p.Segments(false)) == 0; empty && (now.Start < now.LocalStart || p.TieredEnd() != 200) {
			t.Fatalf("an empty tier with %+v", now)
		} else {
			return empty
		}
		return false
	})
}

// TestTopicsOfWhichNothingIsTiered are in the view once somebody has named them, with the brokers' bounds, as one is of
// which everything was deleted; and leave it when nobody has for a while.
func TestTopicsOfWhichNothingIsTiered(t *testing.T) {
	s := newHarness(t, 4)
	of := s.create(t, "idle", 2)
	path := t.TempDir() + "/metadata"
	f := s.follow(t, Options{Snapshot: path, Refresh: time.Hour})
	if topics := f.Snapshot().Topics(); len(topics) != 0 {
		t.Errorf("%+v are listed before anybody asked", topics)
	}
	s.resetCounts()
	for range 3 {
		if err := f.Include(t.Context(), "nobody.has.it", segment.UUID{}); err != nil {
			t.Error(err)
		}
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("a topic that the cluster does not list cost %v", got)
	}
	if err := f.Include(t.Context(), "idle", segment.UUID{}); err != nil {
		t.Fatal(err)
	}
	view := f.Snapshot()
	if topic, ok := view.TopicByName("idle"); !ok || topic.ID != of[0].Topic || len(topic.Partitions) != 2 {
		t.Fatalf("%+v", topic)
	}
	p, _ := view.Partition(of[1])
	if now := p.Bounds(); p.TieredEnd() != 0 || now.Start != 0 || now.HighWatermark != 3 || f.uncertain(of[1]) != nil {
		t.Errorf("%+v, tiered up to %d, known: %v", now, p.TieredEnd(), f.uncertain(of[1]))
	}
	if topics := f.state().topics; len(topics) != 0 {
		t.Errorf("%v are kept in the snapshot file", topics)
	}
	if err := f.Include(t.Context(), "", of[0].Topic); err != nil { // by its id
		t.Fatal(err)
	}
	// Its first segment makes it one like others.
	s.write(t, 4, tiered(1, "idle", of[0], 0, 1)...)
	if p, ok := refreshed(t, f).Partition(of[0]); !ok || p.TieredEnd() != 2 || len(f.state().topics) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestFollowsALiveCluster: a follower and a cluster's client, wired as a gateway does it.
func TestFollowsALiveCluster(t *testing.T) {
	s := newHarness(t, 4)
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
