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
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// TestNothingIsKnownBeforeTheCluster has said a word.
func TestNothingIsKnownBeforeTheCluster(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	c.SetAway(fmt.Errorf("away"))
	f := newHarness(t, 4).open(t, Options{Cluster: c})
	wantKind(t, f.uncertain(orders3), catalog.NotReady)
	wantKind(t, f.Include(t.Context(), "orders", segment.UUID{}), catalog.NotReady)
}

// TestManyDeniedTopics are shown in part.
func TestManyDeniedTopics(t *testing.T) {
	c := &scriptedcluster.Cluster{}
	var records []Record
	var denied []segment.UUID
	for n := range byte(2 * deniedShown) {
		id := segment.UUID{100 + n}
		denied = append(denied, id)
		s := started(n, tier.PartitionID{Topic: id}, 0, 9)
		s.Topic = fmt.Sprintf("topic-%02d", n)
		records = append(records, s)
	}
	c.Deny(denied...)
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
	s := newHarness(t, 4, kfake.SeedTopics(1, "open", "hidden"), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "a"),
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
			if !want {
				wantKind(t, err, catalog.Unavailable)
				if !strings.Contains(err.Error(), "denies DESCRIBE on topic hidden") {
					t.Errorf("%s, refresh of %s: %v", when, name, err)
				}
			}
			p, _ := f.Snapshot().Partition(id)
			if want && (f.uncertain(id) != nil || p.Bounds().Start != 5 || p.Bounds().HighWatermark != 20) {
				t.Errorf("%s, %s: %v, %+v", when, name, f.uncertain(id), p.Bounds())
			}
		}
	}
	check("at the start", false)
	wantKind(t, f.uncertain(of["hidden"]), catalog.NotReady)

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
	if err := f.uncertain(of["hidden"]); err != nil {
		t.Errorf("at once: %v", err)
	}
	if s := f.Status(); !slices.Equal(s.Denied, []string{"hidden"}) {
		t.Errorf("%+v", s)
	}
}
