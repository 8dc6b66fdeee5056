package observe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

// deniedPatience is how long bounds are used that were reported before the cluster denied the topic. The one of them
// that misleads is the log start: it moves up when records are deleted, so that what is above the one that was reported
// may be deleted, while what is below it stays so for ever. A minute is ample for brokers that learn of a right one by
// one.
const deniedPatience = time.Minute

// topicState is what a topic's tier.TopicCertainty is made of: comparing two costs less than making their sentences.
type topicState struct {
	name   string
	absent cluster.Absence // TopicDenied or TopicUnclear: of all its partitions; else those are certain but for except
	except map[int32]partitionState
}

// partitionState is of a partition whose leader has not reported its bounds, or not since.
type partitionState struct {
	state   tier.BoundsState // BoundsUnknown or BoundsStale
	leader  int32            // -1 = none
	pending bool             // the new leader has not reported its leader epochs yet: nothing of older ones may be read
	since   time.Time        // of BoundsStale
}

func (s topicState) equal(o topicState) bool {
	return s.name == o.name && s.absent == o.absent && maps.Equal(s.except, o.except)
}

// notAsked is of every topic until the cluster was asked about it, which takes a round, 1 s.
func (o *Observer) notAsked() tier.Change {
	return tier.CertaintyChanged{Certainty: &tier.TopicCertainty{All: tier.Certainty{
		State: tier.BoundsUnknown, Reason: o.notReady(errors.New("the cluster has not been asked about the topic yet")),
	}}}
}

// certain is the certainty of most topics.
var certain = &tier.TopicCertainty{}

// certainty appends what has become of the certainty of bounds with the newest view, of which everything else is in
// changes; under the lock.
//
// Bounds are certain once the cluster has reported the partition's log start and high watermark to this process, and
// when it says that there is no such topic id, or that the topic has no such partition: what the records say of the
// bounds is all there is then. Without a leader that answers they become stale. A topic that the cluster denies is not
// known; if it was known before, that holds for another minute.
//
// While the leader of a new epoch has not reported its leader epochs, the partition is not known either: the view holds
// nothing of older epochs then, and that is no end.
func (o *Observer) certainty(changes []tier.Change) []tier.Change {
	view := o.newest.Load()
	if view == nil {
		return changes
	}
	now := make(map[segment.UUID]topicState, len(o.topics))
	var denied []string
	for i := range view.Topics {
		t := &view.Topics[i]
		if _, known := o.topics[t.ID]; known || o.observed.owners[t.Name] == t.ID {
			now[t.ID] = o.observed.state(t, view)
		}
		if view.Missing[t.ID] == cluster.TopicDenied {
			denied = append(denied, t.Name)
		}
	}
	for id, s := range o.topics {
		if _, ok := now[id]; ok {
			continue
		}
		switch absent := view.Missing[id]; absent {
		case cluster.TopicGone:
			now[id] = topicState{}
		case cluster.TopicDenied:
			now[id] = topicState{name: s.Name, absent: absent}
			denied = append(denied, s.Name)
		case cluster.TopicUnclear:
			now[id] = topicState{name: s.Name, absent: absent}
		}
	}
	slices.Sort(denied)
	o.denied.Store(&denied)
	for id, s := range now {
		if was, ok := o.observed.states[id]; !ok || !s.equal(was) {
			changes = append(changes, tier.CertaintyChanged{Topic: id, Certainty: o.describe(id, s)})
		}
	}
	for id := range o.observed.states {
		if _, ok := now[id]; !ok {
			changes = append(changes, tier.CertaintyChanged{Topic: id})
		}
	}
	o.observed.states = now
	return changes
}

// state gives the state of a topic that a view shows.
func (b *observed) state(t *cluster.Topic, view *cluster.View) topicState {
	s := topicState{name: t.Name}
	unreported := false
	var newest time.Time
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.BoundsAt.After(newest) {
			newest = p.BoundsAt
		}
		id := tier.PartitionID{Topic: t.ID, Partition: p.Number}
		var now partitionState
		switch {
		case !b.complete[id] || b.pending[id]:
			unreported = true
			now = partitionState{state: tier.BoundsUnknown, leader: p.Leader, pending: b.complete[id]}
		case p.BoundsAt.Before(view.At):
			now = partitionState{state: tier.BoundsStale, since: p.BoundsAt}
		default:
			continue
		}
		if s.except == nil {
			s.except = map[int32]partitionState{}
		}
		s.except[p.Number] = now
	}
	if view.Missing[t.ID] == cluster.TopicDenied && (unreported || view.At.Sub(newest) > deniedPatience) {
		return topicState{name: t.Name, absent: cluster.TopicDenied}
	}
	return s
}

// describe gives the certainty of a topic in a state.
func (o *Observer) describe(id segment.UUID, s topicState) *tier.TopicCertainty {
	switch s.absent {
	case cluster.TopicDenied:
		return &tier.TopicCertainty{All: tier.Certainty{State: tier.BoundsDenied, Reason: o.notReady(denies(s.name))}}
	case cluster.TopicUnclear:
		return &tier.TopicCertainty{All: tier.Certainty{State: tier.BoundsUnknown, Reason: o.notReady(unclear(s.name, id))}}
	}
	if len(s.except) == 0 {
		return certain
	}
	c := &tier.TopicCertainty{Except: make(map[int32]tier.Certainty, len(s.except))}
	for number, p := range s.except {
		is := tier.Certainty{State: p.state, Since: p.since}
		if p.state == tier.BoundsUnknown {
			is.Reason = o.notReady(p.reason(s.name, number))
		}
		c.Except[number] = is
	}
	return c
}

func denies(name string) error { return fmt.Errorf("the cluster denies DESCRIBE on topic %s", name) }

func unclear(name string, id segment.UUID) error {
	return fmt.Errorf("the brokers do not agree on whether there is a topic %s of id %s", name, id)
}

// reason says why the partition's bounds are unknown.
func (p partitionState) reason(topic string, number int32) error {
	switch {
	case p.pending:
		return fmt.Errorf("the new leader of %s-%d, broker %d, has not told the log's leader epochs yet",
			topic, number, p.leader)
	case p.leader < 0:
		return fmt.Errorf("%s-%d has no leader, and none has told its bounds yet", topic, number)
	}
	return fmt.Errorf("the leader of %s-%d, broker %d, has not told its bounds yet", topic, number, p.leader)
}

// Denied are the names of the topics that the cluster denies, ascending.
func (o *Observer) Denied() []string {
	if denied := o.denied.Load(); denied != nil {
		return *denied
	}
	return nil
}
