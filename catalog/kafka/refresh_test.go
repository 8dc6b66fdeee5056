package kafka

import (
	"testing"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"
)

// TestRefreshIsForAPartition: it says yes only when the partition's own leader has answered after the call, and what
// other leaders do is no matter.
func TestRefreshIsForAPartition(t *testing.T) {
	of := func(number int32) tier.PartitionID { return tier.PartitionID{Topic: ordersID, Partition: number} }
	elsewhere := segment.UUID{5}
	unlikely, pending, hung := bounded(4, 0, 200), bounded(5, 0, 200), bounded(1, 0, 200)
	unlikely.HighWatermark, unlikely.LastStable = -1, -1
	pending.LineagePending = true
	hung.Leader = 9
	c := &scriptedcluster.Cluster{}
	c.Hang(9)
	c.Say(
		cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 9), hung, unbounded(2), bounded(3, 0, 200), unlikely, pending}},
		cluster.Topic{ID: elsewhere, Name: "elsewhere", Partitions: []cluster.Partition{unbounded(0)}},
	)
	gone := tier.PartitionID{Topic: segment.UUID{8}}
	records := finished(1, orders3, 0, 99)
	for n, id := range []tier.PartitionID{of(0), of(1), of(2), of(4), of(5), of(6), gone} {
		more := finished(byte(n+2), id, 0, 99)
		if id == gone {
			more[0].(*Segment).Topic, more[1].(*Update).Topic = "gone", "gone"
		}
		records = append(records, more...)
	}
	_, f := settled(t, c, records...) // leaders that are away hold nothing back
	for _, tt := range []struct {
		name string
		id   tier.PartitionID
		ok   bool
	}{
		{"its leader answers", of(3), true},
		{"no partition in particular", tier.PartitionID{}, true},
		{"its leader hangs", of(1), false},
		{"it has no leader", of(2), false},
		{"its bounds contradict each other", of(4), false},
		{"its lineage is not known", of(5), false},
		{"the cluster has the topic, and no such partition", of(6), true},
		{"the cluster has no such topic", gone, true},
		{"the tier holds nothing of the topic", tier.PartitionID{Topic: elsewhere}, true},
		{"nobody has heard of it", tier.PartitionID{Topic: segment.UUID{77}}, true},
	} {
		err := f.Refresh(t.Context(), tt.id)
		if tt.ok && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if !tt.ok {
			if err == nil {
				t.Errorf("%s: no error", tt.name)
				continue
			}
			wantKind(t, err, catalog.Unavailable)
		}
	}
	c.Hang()
	if err := f.Refresh(t.Context(), of(1)); err != nil {
		t.Error(err)
	}
}

// TestRefreshWhileALeaderOfTheMetadataTopicIsAway fails for what is filed there, and for nothing else.
func TestRefreshWhileALeaderOfTheMetadataTopicIsAway(t *testing.T) {
	s := newHarness(t, 2)
	for p := range int32(2) {
		if err := s.MoveTopicPartition(Name, p, p); err != nil {
			t.Fatal(err)
		}
	}
	s.newWriter(t)
	f := s.open(t, Options{})
	ready(t, f)
	s.mu.Lock()
	s.noOffsets = 1
	s.mu.Unlock()
	var filed [2]tier.PartitionID
	for n := range int32(16) {
		id := tier.PartitionID{Topic: ordersID, Partition: n}
		filed[PartitionOf(id, 2)] = id
	}
	if err := f.Refresh(t.Context(), filed[0]); err != nil {
		t.Error(err)
	}
	wantKind(t, f.Refresh(t.Context(), filed[1]), catalog.Unavailable)
	wantKind(t, f.Refresh(t.Context(), tier.PartitionID{}), catalog.Unavailable)
	s.mu.Lock()
	s.noOffsets = -1
	s.mu.Unlock()
	if err := f.Refresh(t.Context(), filed[1]); err != nil {
		t.Error(err)
	}
}
