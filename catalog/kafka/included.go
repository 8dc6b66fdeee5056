package kafka

import (
	"context"
	"fmt"
	"maps"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	// includedFor is how long the bounds of a topic are kept that a reader named and of which nothing was ever tiered:
	// then the brokers are asked anew, if somebody names it again.
	includedFor = 10 * time.Minute
	// includedMost bounds those topics, since brokers are asked for their bounds each round. The oldest one goes.
	includedMost = 256
)

// recorded leaves out the topics that only readers named.
func (k known) recorded() known {
	list := maps.Clone(k)
	maps.DeleteFunc(list, func(_ segment.UUID, s sighting) bool { return !s.asked.IsZero() })
	return list
}

// Include brings a topic into the view, by its name or else its id, that the cluster has and of which no record tells:
// without segments, with the bounds that its leaders tell. So a topic of which nothing is tiered yet looks like one of
// which nothing is tiered any more. Whether tiering is enabled for it takes rights to ask that a reader need not have
// (DescribeConfigs), and makes no difference: its records are with the brokers.
//
// nil: it is in the view, or the cluster has no such topic that we may describe. Errors are *catalog.Error of Kind
// NotReady.
func (f *Follower) Include(ctx context.Context, name string, id segment.UUID) error {
	t, recent := f.lookUp(name, id)
	if t == nil && !recent {
		if err := f.Refresh(ctx, tier.PartitionID{}); err != nil {
			return notReady(fmt.Errorf("whether the cluster has the topic is not known: %w", err))
		}
		t, _ = f.lookUp(name, id)
	}
	if t == nil {
		return nil
	}
	f.mu.Lock()
	if s, ok := f.known[t.ID]; !ok {
		f.known[t.ID] = sighting{id: t.ID, name: t.Name, asked: time.Now()}
	} else if !s.asked.IsZero() && time.Since(s.asked) < f.opt.Refresh {
		f.mu.Unlock()
		return f.listed(t) // another reader has asked just now
	}
	f.mu.Unlock()
	if err := f.ask(ctx); err != nil {
		return notReady(fmt.Errorf("the bounds of topic %s are not known: %w", t.Name, err))
	}
	return f.listed(t)
}

// listed says why a topic of the cluster is not in the view, nil when it is.
func (f *Follower) listed(t *cluster.Topic) error {
	if _, ok := f.Snapshot().TopicByID(t.ID); ok {
		return nil
	}
	return notReady(fmt.Errorf("the leaders of topic %s have not told its bounds yet", t.Name))
}

// lookUp finds a topic in the newest view of the cluster. recent says that the view is from within Options.Refresh.
func (f *Follower) lookUp(name string, id segment.UUID) (t *cluster.Topic, recent bool) {
	v := f.seen.Load()
	if v == nil {
		return nil, false
	}
	for i := range v.Topics {
		if has := &v.Topics[i]; (id.IsZero() || has.ID == id) && (name == "" || has.Name == name) {
			t = has
		}
	}
	return t, time.Since(v.At) < f.opt.Refresh+roundGrace
}

// forgetIncluded appends what takes topics out of the view that nobody needs to know of any more; under the lock.
func (f *Follower) forgetIncluded(changes []tier.Change, view *tier.Snapshot) []tier.Change {
	var oldest segment.UUID
	count := 0
	forget := func(id segment.UUID) {
		name := f.known[id].name
		changes = f.forgetTopic(changes, view, id)
		if f.bounds.owners[name] == id {
			delete(f.bounds.owners, name)
			changes = append(changes, tier.TopicOwned{Name: name})
		}
	}
	for id, s := range f.known {
		switch {
		case s.asked.IsZero():
			continue
		case time.Since(s.asked) > includedFor:
			forget(id)
			continue
		}
		if count++; count == 1 || s.asked.Before(f.known[oldest].asked) {
			oldest = id
		}
	}
	if count > includedMost {
		forget(oldest)
	}
	return changes
}
