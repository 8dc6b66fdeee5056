package kafka

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// TestKnown: bounds count once they were told, and where nobody can tell any.
func TestKnown(t *testing.T) {
	of := func(number int32) tier.PartitionID { return tier.PartitionID{Topic: ordersID, Partition: number} }
	gone, denied := segment.UUID{8}, segment.UUID{9}
	silent, unlikely := unbounded(1), bounded(4, 0, 200)
	silent.Leader = 9
	unlikely.HighWatermark, unlikely.LastStable = -1, -1
	c := &calm{hung: []int32{9}, denied: []segment.UUID{denied}}
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 9), silent, unbounded(2), bounded(3, 0, 200), unlikely}})
	records := finished(1, orders3, 0, 99)
	for n, name := range map[segment.UUID]string{gone: "gone", denied: "denied"} {
		more := finished(n[0], tier.PartitionID{Topic: n}, 0, 99)
		more[0].(*Segment).Topic, more[1].(*Update).Topic = name, name
		records = append(records, more...)
	}
	_, f := settled(t, c, records...)
	for _, tt := range []struct {
		name string
		id   tier.PartitionID
		why  string // empty: known
	}{
		{"told", of(3), ""},
		{"its leader is silent", of(1), "the leader of orders-1, broker 9, has not told"},
		{"it has no leader", of(2), "orders-2 has no leader"},
		{"told bounds that cannot be true", of(4), "has not told its bounds"},
		{"the topic has no such partition", of(5), ""},
		{"the topic is gone", tier.PartitionID{Topic: gone}, ""},
		{"the topic is denied", tier.PartitionID{Topic: denied}, "the cluster denies DESCRIBE on topic denied"},
		{"nobody asked", tier.PartitionID{Topic: segment.UUID{77}}, "has not been asked"},
	} {
		err := f.doubt(tt.id)
		if tt.why == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			if n := testing.AllocsPerRun(100, func() { _ = f.doubt(tt.id) }); n != 0 {
				t.Errorf("%s: %v allocations", tt.name, n)
			}
			continue
		}
		wantKind(t, err, catalog.NotReady)
		if !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if s := f.Status(); !slices.Equal(s.Denied, []string{"denied"}) || s.DeniedTopics != 1 {
		t.Errorf("%+v", s)
	}
	wantKind(t, f.Refresh(t.Context(), tier.PartitionID{Topic: denied}), catalog.Unavailable)

	// Told once is enough, whatever becomes of the leader.
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 9), bounded(1, 0, 9), bounded(2, 0, 9), bounded(3, 0, 200)}})
	refreshed(t, f)
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{unbounded(0), unbounded(1), unbounded(2), unbounded(3)}})
	refreshed(t, f)
	for n := range int32(4) {
		if err := f.doubt(of(n)); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingIsKnownBeforeTheCluster has said a word.
func TestNothingIsKnownBeforeTheCluster(t *testing.T) {
	f := newStand(t, 4).open(t, Options{Cluster: &calm{away: fmt.Errorf("away")}})
	wantKind(t, f.doubt(orders3), catalog.NotReady)
}

// TestDeniedAfterItWasKnown: the bounds of before are used for a minute, then no more; they are back with the right.
func TestDeniedAfterItWasKnown(t *testing.T) {
	c := &calm{}
	orders := cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(3, 20, 200)}}
	c.say(orders)
	_, f := settled(t, c, finished(1, orders3, 0, 99)...)
	told := c.View().At
	orders.Partitions[0].BoundsAt = told
	observe := func(after time.Duration, missing map[segment.UUID]cluster.Absence) error {
		f.Observe(&cluster.View{ClusterID: "stand", At: told.Add(after), Topics: []cluster.Topic{orders}, Missing: missing})
		return f.doubt(orders3)
	}
	denied := map[segment.UUID]cluster.Absence{ordersID: cluster.TopicDenied}
	if err := observe(deniedPatience, denied); err != nil {
		t.Error(err)
	}
	if s := f.Status(); !slices.Equal(s.Denied, []string{"orders"}) {
		t.Errorf("%+v", s)
	}
	wantKind(t, observe(deniedPatience+1, denied), catalog.NotReady)
	if p, ok := f.Snapshot().Partition(orders3); !ok || p.Bounds().Start != 20 || p.Bounds().HighWatermark != 200 {
		t.Errorf("%+v", p)
	}
	if err := observe(2*deniedPatience, nil); err != nil { // its leader is silent, which is no matter
		t.Error(err)
	}
	if s := f.Status(); len(s.Denied) != 0 || s.DeniedTopics != 0 {
		t.Errorf("%+v", s)
	}
}

// TestDeniedTopicIsNotForgotten: that it is not listed does not mean that it is gone, even when nothing is left of it.
func TestDeniedTopicIsNotForgotten(t *testing.T) {
	c := &calm{denied: []segment.UUID{ordersID}}
	first := started(1, orders3, 0, 99)
	_, f := settled(t, c, first, moved(first, tier.CopyFinished), moved(first, tier.DeleteStarted), moved(first, tier.DeleteFinished))
	wantKind(t, f.doubt(orders3), catalog.NotReady)
	c.mu.Lock()
	c.denied = nil
	c.mu.Unlock()
	c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(3, 300, 300)}})
	if p, ok := refreshed(t, f).Partition(orders3); !ok || p.Bounds().Start != 300 {
		t.Errorf("%+v", p)
	}
	if err := f.doubt(orders3); err != nil {
		t.Error(err)
	}
}

// TestManyDeniedTopics are shown in part.
func TestManyDeniedTopics(t *testing.T) {
	c := &calm{}
	var records []Record
	for n := range byte(2 * deniedShown) {
		id := segment.UUID{100 + n}
		c.denied = append(c.denied, id)
		s := started(n, tier.PartitionID{Topic: id}, 0, 9)
		s.Topic = fmt.Sprintf("topic-%02d", n)
		records = append(records, s)
	}
	_, f := settled(t, c, records...)
	if s := f.Status(); len(s.Denied) != deniedShown || s.Denied[0] != "topic-00" || s.DeniedTopics != 2*deniedShown {
		t.Errorf("%+v", s)
	}
}

// TestRights: a user that may read the metadata topic and describe the served ones needs no more. What it may not
// describe is not answered for; a right that is given or taken is noticed without a restart.
func TestRights(t *testing.T) {
	allow := func(topic string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	s := newStand(t, 4, kfake.SeedTopics(1, "open", "hidden"), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "a"),
		kfake.User("PLAIN", "reader", "r", allow(Name, kmsg.ACLOperationRead), allow("open", kmsg.ACLOperationDescribe)))
	admin, err := kgo.NewClient(append(s.options(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(),
		kgo.SASL(plain.Auth{User: "admin", Pass: "a"}.AsMechanism()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	s.writer = admin
	of := map[string]tier.PartitionID{}
	for n, name := range []string{"open", "hidden"} {
		for range 20 {
			if err := admin.ProduceSync(t.Context(), &kgo.Record{Topic: name, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		of[name] = tier.PartitionID{Topic: s.TopicInfo(name).TopicID}
		tiered := started(byte(n), of[name], 0, 9)
		tiered.Topic, tiered.Epochs[0].Epoch = name, 0
		s.write(t, 4, tiered, moved(tiered, tier.CopyFinished))
		if err := s.DeleteRecords(name, 0, 5); err != nil {
			t.Fatal(err)
		}
	}

	reach := cluster.Config{Bootstrap: s.ListenAddrs(), Interval: time.Hour}
	if reach.SASL, err = (cluster.SASLOptions{Name: "PLAIN", Username: "reader", Password: "r"}).Mechanism(); err != nil {
		t.Fatal(err)
	}
	var follower atomic.Pointer[Follower]
	client, err := cluster.Open(reach, func(v *cluster.View) {
		if f := follower.Load(); f != nil {
			f.Observe(v)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f := s.open(t, Options{Cluster: client, Brokers: client.Brokers()})
	follower.Store(f)
	ready(t, f)

	check := func(when string, known bool) {
		t.Helper()
		for name, id := range of {
			err := f.Refresh(t.Context(), id)
			want := known || name == "open"
			if want != (err == nil) {
				t.Errorf("%s, refresh of %s: %v", when, name, err)
			}
			if !want && !strings.Contains(err.Error(), "denies DESCRIBE on topic hidden") {
				t.Errorf("%s, refresh of %s: %v", when, name, err)
			}
			p, _ := f.Snapshot().Partition(id)
			if want && (f.doubt(id) != nil || p.Bounds().Start != 5 || p.Bounds().HighWatermark != 20) {
				t.Errorf("%s, %s: %v, %+v", when, name, f.doubt(id), p.Bounds())
			}
		}
	}
	check("at the start", false)
	wantKind(t, f.doubt(of["hidden"]), catalog.NotReady)

	grant := kmsg.NewPtrCreateACLsRequest()
	entry := kmsg.NewCreateACLsRequestCreation()
	entry.ResourceType, entry.ResourceName, entry.ResourcePatternType = kmsg.ACLResourceTypeTopic, "hidden", kmsg.ACLResourcePatternTypeLiteral
	entry.Principal, entry.Host, entry.Operation, entry.PermissionType = "User:reader", "*", kmsg.ACLOperationDescribe, kmsg.ACLPermissionTypeAllow
	grant.Creations = append(grant.Creations, entry)
	if resp, err := grant.RequestWith(t.Context(), admin); err != nil || kerr.ErrorForCode(resp.Results[0].ErrorCode) != nil {
		t.Fatal(err, resp)
	}
	check("granted", true)

	revoke := kmsg.NewPtrDeleteACLsRequest()
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.ResourceName, filter.ResourcePatternType = entry.ResourceType, &entry.ResourceName, entry.ResourcePatternType
	filter.Operation, filter.PermissionType = entry.Operation, entry.PermissionType
	revoke.Filters = append(revoke.Filters, filter)
	if resp, err := revoke.RequestWith(t.Context(), admin); err != nil || len(resp.Results[0].MatchingACLs) != 1 {
		t.Fatal(err, resp)
	}
	check("revoked", false)
	if err := f.doubt(of["hidden"]); err != nil {
		t.Errorf("at once: %v", err)
	}
	if s := f.Status(); !slices.Equal(s.Denied, []string{"hidden"}) {
		t.Errorf("%+v", s)
	}
}

// A cut partition is never mistaken for one that ends at its start: the view that is cut says so.
func TestACutIsNoEnd(t *testing.T) {
	id := tier.PartitionID{Topic: ordersID, Partition: 3}
	whole, cut := bounded(3, 0, 200), bounded(3, 0, 200)
	whole.LeaderEpoch = 4
	cut.LeaderEpoch, cut.Lineage, cut.LineagePending = 9, []segment.EpochStart{{Epoch: 9, StartOffset: 0}}, true
	c := &calm{}
	say := func(p cluster.Partition) *cluster.View {
		c.say(cluster.Topic{ID: ordersID, Name: "orders", Partitions: []cluster.Partition{bounded(0, 0, 9), bounded(1, 0, 9), bounded(2, 0, 9), p}})
		return c.View()
	}
	say(whole)
	_, f := settled(t, c, finished(1, id, 0, 99)...)
	end := func() int64 {
		p, _ := f.Snapshot().Partition(id)
		return p.TieredEnd()
	}
	if end() != 100 || f.doubt(id) != nil {
		t.Fatalf("before: tiered end %d, %v", end(), f.doubt(id))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			f.Observe(say(cut))
			f.Observe(say(whole))
		}
		f.Observe(say(cut))
	}()
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
		}
		view := f.Snapshot()
		p, _ := view.Partition(id)
		if at := p.TieredEnd(); (at == 100) != (p.Certainty().Reason == nil) || p.Certainty() != view.Certainty(id) {
			t.Fatalf("a view that ends at %d is given out with %+v", at, p.Certainty())
		}
	}
	wantKind(t, f.doubt(id), catalog.NotReady)
	if err := f.doubt(id); end() != 0 || !strings.Contains(err.Error(), "has not told the log's leader epochs yet") {
		t.Errorf("cut: tiered end %d, %v", end(), err)
	}
	f.Observe(say(whole))
	if end() != 100 || f.doubt(id) != nil {
		t.Errorf("whole again: tiered end %d, %v", end(), f.doubt(id))
	}
}
