package observe

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

// Cluster is a live cluster: *cluster.Client.
type Cluster interface {
	View() *cluster.View
	Refresh(ctx context.Context) error
	RefreshOnly(ctx context.Context, partitions ...cluster.PartitionID) error
	Watch(topics map[segment.UUID]string)
}

// Options of an Observer; all are needed.
type Options struct {
	Cluster Cluster
	Op      string        // of the errors
	Refresh time.Duration // the age up to which a view of the cluster counts as of now

	// Applied is given the number of changes that the tier got, and those that it dropped.
	Applied func(changes int, rejected []tier.Rejected)
	// Withdrawn is given the segments that left CopyFinished, after the view without them is out.
	Withdrawn func(segments ...*tier.Segment)
}

// Observer keeps a tier up to date with a live cluster. All methods may be called concurrently, but for Restart,
// Publish and Apply, which are called one at a time, and Run, which is called once.
type Observer struct {
	opt Options

	wanted   chan struct{}             // the set of topics changed: the cluster has to be asked
	answered atomic.Pointer[tier.Tier] // the tier for which the cluster has answered
	newest   atomic.Pointer[cluster.View]
	denied   atomic.Pointer[[]string] // names of topics, ascending; nil before the first view

	// Under mu changes are applied, of the cluster or of the catalog.
	mu       sync.Mutex
	tier     *tier.Tier // nil until it is published
	topics   Topics     // that the tier holds something of, or that a reader named, and that are not gone
	observed observed
}

// observed is what the tier has of the views so far, so that a view that says the same again costs nothing.
type observed struct {
	bounds   map[tier.PartitionID]tier.Bounds
	complete map[tier.PartitionID]bool // log start and high watermark were reported at least once
	pending  map[tier.PartitionID]bool // cut until the leader of a new epoch reports its leader epochs
	lineage  map[tier.PartitionID][]segment.EpochStart
	owners   map[string]segment.UUID
	names    map[segment.UUID]string
	states   map[segment.UUID]topicState
}

// New makes an Observer of a cluster, which has no tier yet.
func New(opt Options) *Observer {
	return &Observer{opt: opt, wanted: make(chan struct{}, 1), topics: Topics{}}
}

// Empty makes a tier that holds nothing, and of which nothing is certain.
func (o *Observer) Empty() *tier.Tier {
	t := tier.New()
	t.Apply(o.notAsked())
	return t
}

// Restart lets go of the tier, which keeps what it has, and begins with the topics that the next one will hold
// something of; Apply adds to them.
func (o *Observer) Restart(topics Topics) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tier = nil
	if o.topics = topics; topics == nil {
		o.topics = Topics{}
	}
}

// Publish gives a tier all that was observed, and keeps it up to date from now on. out is called when that is done and
// before anything else is applied.
func (o *Observer) Publish(t *tier.Tier, out func()) {
	o.mu.Lock()
	o.observed = observed{
		map[tier.PartitionID]tier.Bounds{}, map[tier.PartitionID]bool{}, map[tier.PartitionID]bool{},
		map[tier.PartitionID][]segment.EpochStart{}, map[string]segment.UUID{}, map[segment.UUID]string{},
		map[segment.UUID]topicState{},
	}
	o.tier = t
	changes := o.news([]tier.Change{o.notAsked()})
	outcome := t.ApplyAll(changes)
	out()
	o.mu.Unlock()
	o.opt.Applied(len(changes), outcome.Rejected)
	o.ask()
}

// Observe takes over what the cluster says of the topics that the tier holds something of: bounds and lineage of all
// their partitions, and which id has a name now. A topic that is gone from the cluster is forgotten as soon as a record
// says that its segments are being deleted; without such a record it keeps what it has, but loses its name to a topic
// that was created after it. One that is missing for another reason (cluster.TopicDenied, say) keeps everything. nil
// changes nothing.
func (o *Observer) Observe(v *cluster.View) {
	if v == nil {
		return
	}
	o.mu.Lock()
	if seen := o.newest.Load(); seen == v || seen != nil && sentAt(v).Before(sentAt(seen)) {
		o.mu.Unlock()
		return
	}
	o.newest.Store(v)
	if o.tier == nil {
		o.mu.Unlock()
		return
	}
	changes := o.news(nil)
	outcome := o.tier.ApplyAll(changes)
	o.mu.Unlock()
	o.applied(changes, outcome)
}

func (o *Observer) applied(changes []tier.Change, outcome tier.Outcome) {
	o.opt.Applied(len(changes), outcome.Rejected)
	o.opt.Withdrawn(outcome.Withdrawn...)
}

// Apply applies changes that the catalog found, about topics. Of a tier that is published, what follows from what the
// cluster says is applied with them: changes that empty a partition wait for its answer why, up to explainTimeout. A
// tier that is not published yet (see Publish) is only given the changes.
func (o *Observer) Apply(ctx context.Context, t *tier.Tier, changes []tier.Change, topics []Topic) {
	o.mu.Lock()
	published := o.tier == t
	o.mu.Unlock()
	if published {
		o.explain(ctx, emptied(t.Snapshot(), changes))
	}
	o.mu.Lock()
	added := false
	for _, topic := range topics {
		added = o.topics.add(topic) || added
	}
	if published {
		changes = o.forgetDeleted(changes, t.Snapshot())
		if o.observed.forget(changes) {
			changes = o.certainty(changes)
		}
	}
	outcome := t.ApplyAll(changes)
	o.mu.Unlock()
	o.applied(changes, outcome)
	if added && published {
		o.ask()
	}
}

// View is the newest view that was observed, nil before the first.
func (o *Observer) View() *cluster.View { return o.newest.Load() }

// Answered says whether the cluster was asked about all topics of a tier since it was published.
func (o *Observer) Answered(t *tier.Tier) bool { return o.answered.Load() == t }

// Topics are those that the tier holds something of.
func (o *Observer) Topics() Topics {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.topics.recorded()
}

func (o *Observer) notReady(err error) *catalog.Error {
	return &catalog.Error{Kind: catalog.NotReady, Op: o.opt.Op, Err: err}
}

// sentAt is when the last requests behind a view were sent.
func sentAt(v *cluster.View) time.Time {
	if v.Newest.After(v.At) {
		return v.Newest
	}
	return v.At
}

// news appends what is new in the newest view; under the lock.
func (o *Observer) news(changes []tier.Change) []tier.Change {
	view := o.newest.Load()
	if view == nil {
		return changes
	}
	names := make(map[string]bool, len(o.topics))
	for _, t := range o.topics {
		names[t.Name] = true
	}
	owners := make(map[string]segment.UUID, len(names))
	present := make(map[segment.UUID]bool, len(o.topics))
	for i := range view.Topics {
		topic := &view.Topics[i]
		if names[topic.Name] {
			owners[topic.Name] = topic.ID
		} else if _, ok := o.topics[topic.ID]; !ok {
			continue
		}
		present[topic.ID] = true
		changes = o.observed.topic(changes, topic, sentAt(view))
	}
	for name := range names {
		id := owners[name]
		if o.observed.owners[name] == id {
			continue
		}
		o.observed.owners[name] = id
		changes = append(changes, tier.TopicOwned{Name: name, ID: id})
		if _, ok := o.topics[id]; !ok && !id.IsZero() {
			o.ask() // the name's topic was made anew, and the new one is not watched yet
		}
	}
	snapshot := o.tier.Snapshot()
	for id := range o.topics {
		if !present[id] && view.Missing[id] == cluster.TopicGone {
			changes = o.gone(changes, snapshot, id)
		}
	}
	for id := range o.observed.names {
		if _, ok := o.topics[id]; !ok && !present[id] {
			changes = o.gone(changes, snapshot, id)
		}
	}
	changes = o.forgetIncluded(changes, snapshot)
	o.observed.clearPending(view)
	return o.certainty(changes)
}

// topic appends what is new of a topic that exists; at is when the view's requests were sent.
func (b *observed) topic(changes []tier.Change, topic *cluster.Topic, at time.Time) []tier.Change {
	if b.names[topic.ID] != topic.Name {
		b.names[topic.ID] = topic.Name
		changes = append(changes, tier.TopicSeen{ID: topic.ID, Name: topic.Name})
	}
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		id := tier.PartitionID{Topic: topic.ID, Partition: p.Number}
		if p.LineagePending {
			b.pending[id] = true
		}
		now := tier.Bounds{
			Start: p.LogStart, LocalStart: p.LocalStart, HighWatermark: p.HighWatermark, LastStable: p.LastStable,
		}
		if old, ok := b.bounds[id]; p.LogStart >= 0 && (!ok || old != now) {
			b.bounds[id] = now
			if p.HighWatermark >= 0 {
				b.complete[id] = true
			}
			changes = append(changes, tier.BoundsChanged{Partition: id, Bounds: now})
		}
		if len(p.Lineage) > 0 && !slices.Equal(b.lineage[id], p.Lineage) {
			b.lineage[id] = p.Lineage
			changes = append(changes, tier.LineageChanged{Partition: id, Epochs: p.Lineage})
		}
		// A leader that answers and has no lineage to report takes back what was reported.
		if _, ok := b.lineage[id]; ok && len(p.Lineage) == 0 && p.BoundsAt.Equal(at) {
			delete(b.lineage, id)
			changes = append(changes, tier.LineageChanged{Partition: id})
		}
	}
	return changes
}

// clearPending takes back that partitions are pending which the view shows whole again.
func (b *observed) clearPending(view *cluster.View) {
	if len(b.pending) == 0 {
		return
	}
	still := make(map[tier.PartitionID]bool, len(b.pending))
	for i := range view.Topics {
		for j := range view.Topics[i].Partitions {
			id := tier.PartitionID{Topic: view.Topics[i].ID, Partition: view.Topics[i].Partitions[j].Number}
			if b.pending[id] && view.Topics[i].Partitions[j].LineagePending {
				still[id] = true
			}
		}
	}
	b.pending = still
}

// forget drops what was observed of partitions that changes take out of the tier, and says whether there were any:
// while the cluster has one, its next view brings it back.
func (b *observed) forget(changes []tier.Change) (some bool) {
	for _, c := range changes {
		if gone, ok := c.(tier.PartitionForgotten); ok {
			some = true
			delete(b.bounds, gone.Partition)
			delete(b.complete, gone.Partition)
			delete(b.pending, gone.Partition)
			delete(b.lineage, gone.Partition)
		}
	}
	return some
}
