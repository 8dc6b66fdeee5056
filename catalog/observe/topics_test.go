package observe

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"
)

// TestIncludedTopics: a topic that a reader names is in the view while readers name it, or once something of it is
// tiered.
func TestIncludedTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scriptedcluster.Cluster{}
		c.Say(orders(bounded(0, 0, 3), unbounded(1)))
		h := start(t, c)
		include := func(name string, id segment.UUID, refreshed error) error {
			return h.Include(t.Context(), name, id, func() error {
				if refreshed == nil {
					h.refreshed(t)
				}
				return refreshed
			})
		}
		asked := c.Asked()
		if err := include("nobody.has.it", segment.UUID{}, errors.New("a view of now is enough")); err != nil || c.Asked() != asked {
			t.Errorf("%v", err)
		}
		if err := include("orders", segment.UUID{}, nil); err != nil {
			t.Fatal(err)
		}
		of := tier.PartitionID{Topic: ordersID}
		p, ok := h.tier.Snapshot().Partition(of)
		if !ok || p.TieredEnd() != 0 || p.Bounds().HighWatermark != 3 || h.doubt(of) != nil || len(h.Topics()) != 0 {
			t.Errorf("%+v, %v", p, h.doubt(of))
		}
		asked = c.Asked()
		if err := include("orders", ordersID, nil); err != nil || c.Asked() != asked {
			t.Errorf("%v, although it has just been asked for", err)
		}
		time.Sleep(includedFor)
		if topics := h.refreshed(t).Topics(); len(topics) != 1 {
			t.Errorf("%+v are left after %s", topics, includedFor)
		}
		time.Sleep(time.Nanosecond)
		if topics := h.refreshed(t).Topics(); len(topics) != 0 {
			t.Errorf("%+v are kept for ever", topics)
		}
		if err := include("", ordersID, nil); err != nil {
			t.Fatal(err)
		}
		// Its first segment makes it one like others.
		h.apply(copied(1, "orders", of, 0, 1)...)
		time.Sleep(2 * includedFor)
		if p, ok := h.refreshed(t).Partition(of); !ok || p.TieredEnd() != 2 || len(h.Topics()) != 1 {
			t.Errorf("%+v", p)
		}
		// A view that is not of now does not say that there is no topic.
		time.Sleep(time.Hour)
		err := include("nobody.has.it", segment.UUID{}, errors.New("away"))
		if e, ok := errors.AsType[*catalog.Error](err); !ok || e.Kind != catalog.NotReady || e.Error() != "test: whether the cluster has the topic is not known: away" {
			t.Error(err)
		}
		// Leaders that report nothing.
		c.Say(cluster.Topic{ID: segment.UUID{9}, Name: "silent", Partitions: []cluster.Partition{unbounded(0)}})
		h.refreshed(t)
		err = include("silent", segment.UUID{}, nil)
		if e, ok := errors.AsType[*catalog.Error](err); !ok || e.Kind != catalog.NotReady || e.Error() != "test: the leaders of topic silent have not told its bounds yet" {
			t.Error(err)
		}
	})
}

// TestIncludedTopicsAreBounded: the one that was named first goes.
func TestIncludedTopicsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scriptedcluster.Cluster{}
		h := start(t, c)
		var topics []cluster.Topic
		for n := range includedMost + 1 {
			id := segment.UUID{1, byte(n >> 8), byte(n)}
			topics = append(topics, cluster.Topic{ID: id, Name: "t" + id.String(), Partitions: []cluster.Partition{bounded(0, 0, 9)}})
		}
		c.Say(topics...)
		h.refreshed(t)
		for _, topic := range topics {
			time.Sleep(time.Nanosecond)
			if err := h.Include(t.Context(), topic.Name, segment.UUID{}, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		view := h.tier.Snapshot()
		if _, ok := view.TopicByName(topics[0].Name); ok || len(view.Topics()) != includedMost {
			t.Errorf("%d topics, the first one among them: %t", len(view.Topics()), ok)
		}
	})
}
