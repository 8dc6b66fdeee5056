package kafka

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

const (
	// deniedPatience is how long bounds are used that were told before the cluster denied the topic. The one of them that
	// misleads is the log start: it moves up when records are deleted, so that what is above the one that was told may be
	// deleted, while what is below it stays so for ever. A minute is ample for brokers that learn of a right one by one.
	deniedPatience = time.Minute
	// deniedShown bounds Status.Denied.
	deniedShown = 10
)

// topicState is why bounds of a topic cannot be relied on, or are from before: what a tier.TopicCertainty is made of.
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
var notAsked = tier.CertaintyChanged{Certainty: &tier.TopicCertainty{All: tier.Certainty{
	State: tier.BoundsUnknown, Reason: notReady(errors.New("the cluster has not been asked about the topic yet")),
}}}

// certain is the certainty of most topics.
var certain = &tier.TopicCertainty{}

func denies(name string) error { return fmt.Errorf("the cluster denies DESCRIBE on topic %s", name) }

// doubt says why the view's bounds of a partition cannot be relied on, nil when they can.
func (f *Follower) doubt(of tier.PartitionID) error { return f.Snapshot().Certainty(of).Reason }

// certainty appends what has become of the certainty of bounds with the newest view, of which everything else is in
// changes; under the lock.
//
// Bounds are certain once the cluster has reported the partition's log start and high watermark to this process, and
// when it says that there is no such topic id, or that the topic has no such partition: what the records tell of the
// bounds is all there is then. Without a leader that answers they become stale. A topic that the cluster denies is not
// known; if it was known before, that holds for another minute.
//
// While the leader of a new epoch has not reported its leader epochs, the partition is not known either: the view holds
// nothing of older epochs then, and that is no end.
func (f *Follower) certainty(changes []tier.Change) []tier.Change {
	seen := f.seen.Load()
	if seen == nil {
		return changes
	}
	now := make(map[segment.UUID]topicState, len(f.known))
	var denied []string
	for i := range seen.Topics {
		t := &seen.Topics[i]
		if _, known := f.known[t.ID]; known || f.bounds.owners[t.Name] == t.ID {
			now[t.ID] = f.bounds.state(t, seen)
		}
		if seen.Missing[t.ID] == cluster.TopicDenied {
			denied = append(denied, t.Name)
		}
	}
	for id, s := range f.known {
		if _, seen := now[id]; seen {
			continue
		}
		switch absent := seen.Missing[id]; absent {
		case cluster.TopicGone:
			now[id] = topicState{}
		case cluster.TopicDenied:
			now[id] = topicState{name: s.name, absent: absent}
			denied = append(denied, s.name)
		case cluster.TopicUnclear:
			now[id] = topicState{name: s.name, absent: absent}
		}
	}
	slices.Sort(denied)
	f.denied.Store(&denied)
	for id, s := range now {
		if was, ok := f.bounds.states[id]; !ok || !s.equal(was) {
			changes = append(changes, tier.CertaintyChanged{Topic: id, Certainty: s.certainty(id)})
		}
	}
	for id := range f.bounds.states {
		if _, ok := now[id]; !ok {
			changes = append(changes, tier.CertaintyChanged{Topic: id})
		}
	}
	f.bounds.states = now
	return changes
}

// state gives the state of a topic that a view shows.
func (b *told) state(t *cluster.Topic, seen *cluster.View) topicState {
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
		case !b.heard[id] || b.pending[id]:
			unreported = true
			now = partitionState{state: tier.BoundsUnknown, leader: p.Leader, pending: b.heard[id]}
		case p.BoundsAt.Before(seen.At):
			now = partitionState{state: tier.BoundsStale, since: p.BoundsAt}
		default:
			continue
		}
		if s.except == nil {
			s.except = map[int32]partitionState{}
		}
		s.except[p.Number] = now
	}
	if seen.Missing[t.ID] == cluster.TopicDenied && (unreported || seen.At.Sub(newest) > deniedPatience) {
		return topicState{name: t.Name, absent: cluster.TopicDenied}
	}
	return s
}

// certainty puts a topic's state in the tier's words.
func (s topicState) certainty(id segment.UUID) *tier.TopicCertainty {
	switch s.absent {
	case cluster.TopicDenied:
		return &tier.TopicCertainty{All: tier.Certainty{State: tier.BoundsDenied, Reason: notReady(denies(s.name))}}
	case cluster.TopicUnclear:
		return &tier.TopicCertainty{All: tier.Certainty{State: tier.BoundsUnknown, Reason: notReady(unclear(s.name, id))}}
	}
	if len(s.except) == 0 {
		return certain
	}
	c := &tier.TopicCertainty{Except: make(map[int32]tier.Certainty, len(s.except))}
	for number, p := range s.except {
		c.Except[number] = tier.Certainty{State: p.state, Since: p.since, Reason: p.reason(s.name, number)}
	}
	return c
}

func unclear(name string, id segment.UUID) error {
	return fmt.Errorf("the brokers do not agree on whether there is a topic %s of id %s", name, id)
}

// reason says why the partition's bounds cannot be relied on.
func (p partitionState) reason(topic string, number int32) error {
	switch {
	case p.state == tier.BoundsStale:
		return nil
	case p.pending:
		return notReady(fmt.Errorf("the new leader of %s-%d, broker %d, has not told the log's leader epochs yet", topic, number, p.leader))
	case p.leader < 0:
		return notReady(fmt.Errorf("%s-%d has no leader, and none has told its bounds yet", topic, number))
	}
	return notReady(fmt.Errorf("the leader of %s-%d, broker %d, has not told its bounds yet", topic, number, p.leader))
}
