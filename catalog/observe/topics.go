package observe

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
	// then the brokers are asked anew, if a reader names it again.
	includedFor = 10 * time.Minute
	// includedMost bounds those topics, since brokers are asked for their bounds each round. The oldest one goes.
	includedMost = 256
)

// Topic is one that the tier holds something of, or that a reader named.
type Topic struct {
	ID   segment.UUID
	Name string
	At   int64 // ms, of the newest event

	included time.Time // when a reader named it, while no record does; zero: a record does
}

// Topics are a tier's, by id.
type Topics map[segment.UUID]Topic

// add takes in what a record says; added says that the topic was not there.
func (ts Topics) add(t Topic) (added bool) {
	old, ok := ts[t.ID]
	if !ok || t.At >= old.At {
		ts[t.ID] = t
	}
	return !ok
}

// recorded leaves out the topics that only readers named.
func (ts Topics) recorded() Topics {
	list := maps.Clone(ts)
	maps.DeleteFunc(list, func(_ segment.UUID, t Topic) bool { return !t.included.IsZero() })
	return list
}

// Include brings a topic into the view, by its name or else its id, that the cluster has and that no record names:
// without segments, with the bounds that its leaders report. So a topic of which nothing is tiered yet looks like one
// of which nothing is tiered any more. Whether tiering is enabled for it takes rights to ask that a reader need not
// have (DescribeConfigs), and makes no difference: its records are with the brokers.
//
// refresh is called when the cluster may have it since the newest view. nil: it is in the tier's view, or the cluster
// has no such topic that we may describe. Errors are *catalog.Error of Kind NotReady.
func (o *Observer) Include(ctx context.Context, name string, id segment.UUID, refresh func() error) error {
	t, recent := o.find(name, id)
	if t == nil && !recent {
		if err := refresh(); err != nil {
			return o.notReady(fmt.Errorf("whether the cluster has the topic is not known: %w", err))
		}
		t, _ = o.find(name, id)
	}
	if t == nil {
		return nil
	}
	o.mu.Lock()
	if has, ok := o.topics[t.ID]; !ok {
		o.topics[t.ID] = Topic{ID: t.ID, Name: t.Name, included: time.Now()}
	} else if !has.included.IsZero() && time.Since(has.included) < o.opt.Refresh {
		o.mu.Unlock()
		return o.listed(t) // another reader has asked just now
	}
	o.mu.Unlock()
	if err := o.Ask(ctx); err != nil {
		return o.notReady(fmt.Errorf("the bounds of topic %s are not known: %w", t.Name, err))
	}
	return o.listed(t)
}

// listed says why a topic of the cluster is not in the view, nil when it is.
func (o *Observer) listed(t *cluster.Topic) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tier != nil {
		if _, ok := o.tier.Snapshot().TopicByID(t.ID); ok {
			return nil
		}
	}
	return o.notReady(fmt.Errorf("the leaders of topic %s have not told its bounds yet", t.Name))
}

// find gives a topic of the newest view of the cluster. recent says that the view is of now.
func (o *Observer) find(name string, id segment.UUID) (t *cluster.Topic, recent bool) {
	v := o.newest.Load()
	if v == nil {
		return nil, false
	}
	for i := range v.Topics {
		if has := &v.Topics[i]; (id.IsZero() || has.ID == id) && (name == "" || has.Name == name) {
			t = has
		}
	}
	return t, time.Since(v.At) < o.opt.Refresh+RoundGrace
}

// forgetIncluded appends what takes topics out of the view that readers named too long ago; under the lock.
func (o *Observer) forgetIncluded(changes []tier.Change, view *tier.Snapshot) []tier.Change {
	var oldest segment.UUID
	count := 0
	forget := func(id segment.UUID) {
		name := o.topics[id].Name
		changes = o.forgetTopic(changes, view, id)
		if o.observed.owners[name] == id {
			delete(o.observed.owners, name)
			changes = append(changes, tier.TopicOwned{Name: name})
		}
	}
	for id, t := range o.topics {
		switch {
		case t.included.IsZero():
			continue
		case time.Since(t.included) > includedFor:
			forget(id)
			continue
		}
		if count++; count == 1 || t.included.Before(o.topics[oldest].included) {
			oldest = id
		}
	}
	if count > includedMost {
		forget(oldest)
	}
	return changes
}
