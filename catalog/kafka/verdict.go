package kafka

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"coldtap/catalog"
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

// verdicts say of which partitions the bounds can be relied on. Immutable. A topic that is in none was not asked about.
type verdicts struct {
	topics map[segment.UUID]*verdict
	denied []string // names, ascending, at most deniedShown
	count  int      // of denied topics
}

// verdict is of one topic.
type verdict struct {
	name   string
	reason *catalog.Error // why no partition's are, nil = all are but those of silent
	silent map[int32]silence
}

// silence is of a partition whose bounds were never told, or whose new leader has not told its leader epochs yet, so
// that nothing of older ones may be read.
type silence struct {
	leader  int32 // -1 = none
	pending bool
}

// fine is the verdict for most topics.
var fine = &verdict{}

// Known is nil once the cluster has told the partition's log start and high watermark to this process, whatever became
// of its leader since. It is nil, too, when the cluster says that there is no such topic id, or that the topic has no
// such partition: what the records tell of the bounds is all there is then. A topic that the cluster denies is not
// known; if it was known before, that holds for another minute. The error is a *catalog.Error of Kind NotReady that
// says why.
//
// While the leader of a new epoch has not told its leader epochs, the partition is not known either: the view holds
// nothing of older epochs then, and that is no end.
//
// It takes no lock, and allocates for an error only. Its answer goes with a Snapshot that is the same before and after
// it.
func (f *Follower) Known(partition tier.PartitionID) error {
	all := f.verdicts.Load()
	if all == nil {
		return errNotAsked
	}
	v := all.topics[partition.Topic]
	switch {
	case v == nil:
		return errNotAsked
	case v.reason != nil:
		return v.reason
	}
	if s, silent := v.silent[partition.Partition]; silent {
		if s.pending {
			return notReady(fmt.Errorf("the new leader of %s-%d, broker %d, has not told the log's leader epochs yet", v.name, partition.Partition, s.leader))
		}
		if s.leader < 0 {
			return notReady(fmt.Errorf("%s-%d has no leader, and none has told its bounds yet", v.name, partition.Partition))
		}
		return notReady(fmt.Errorf("the leader of %s-%d, broker %d, has not told its bounds yet", v.name, partition.Partition, s.leader))
	}
	return nil
}

// errNotAsked passes within a round of asking the cluster, 1 s.
var errNotAsked = notReady(errors.New("the cluster has not been asked about the topic yet"))

func denies(name string) error { return fmt.Errorf("the cluster denies DESCRIBE on topic %s", name) }

// hold judges the partitions that are about to be cut, before the tier is told: who then finds nothing of older epochs
// has been warned. Under the lock.
func (f *Follower) hold() {
	old := f.verdicts.Load()
	if old == nil || len(f.bounds.pending) == 0 {
		return
	}
	all := *old
	all.topics = maps.Clone(old.topics)
	for id := range f.bounds.pending {
		v := all.topics[id.Topic]
		if v == nil || v.reason != nil {
			continue
		}
		if _, silent := v.silent[id.Partition]; silent {
			continue
		}
		held := &verdict{name: f.bounds.named[id.Topic], silent: map[int32]silence{id.Partition: {-1, true}}}
		maps.Copy(held.silent, v.silent)
		all.topics[id.Topic] = held
	}
	f.verdicts.Store(&all)
}

// weigh judges all topics by the newest view, after it was told to the tier; under the lock.
func (f *Follower) weigh() {
	seen := f.seen.Load()
	if seen == nil {
		return
	}
	all := &verdicts{topics: make(map[segment.UUID]*verdict, len(f.known))}
	for i := range seen.Topics {
		t := &seen.Topics[i]
		if _, known := f.known[t.ID]; known || f.bounds.owners[t.Name] == t.ID {
			all.topics[t.ID] = f.bounds.verdict(t, seen)
		}
		if seen.Missing[t.ID] == cluster.TopicDenied {
			all.denied = append(all.denied, t.Name)
		}
	}
	for id, s := range f.known {
		if all.topics[id] != nil {
			continue
		}
		switch seen.Missing[id] {
		case cluster.TopicGone:
			all.topics[id] = fine
		case cluster.TopicDenied:
			all.topics[id] = &verdict{reason: notReady(denies(s.name))}
			all.denied = append(all.denied, s.name)
		case cluster.TopicUnclear:
			all.topics[id] = &verdict{reason: notReady(fmt.Errorf("the brokers do not agree on whether there is a topic %s of id %s", s.name, id))}
		}
	}
	all.count = len(all.denied)
	slices.Sort(all.denied)
	all.denied = slices.Clip(all.denied[:min(all.count, deniedShown)])
	f.verdicts.Store(all)
}

// verdict judges a topic that a view shows.
func (b *told) verdict(t *cluster.Topic, seen *cluster.View) *verdict {
	v := fine
	var newest time.Time
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.BoundsAt.After(newest) {
			newest = p.BoundsAt
		}
		id := tier.PartitionID{Topic: t.ID, Partition: p.Number}
		if b.heard[id] && !b.pending[id] {
			continue
		}
		if v == fine {
			v = &verdict{name: t.Name, silent: map[int32]silence{}}
		}
		v.silent[p.Number] = silence{p.Leader, b.heard[id]}
	}
	if seen.Missing[t.ID] == cluster.TopicDenied && (v != fine || seen.At.Sub(newest) > deniedPatience) {
		return &verdict{reason: notReady(denies(t.Name))}
	}
	return v
}
