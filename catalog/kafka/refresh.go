package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	// reachPatience is how long the view may take to get to ends that were just told; following is 0.5 s behind at most.
	reachPatience = 2 * time.Second
	// refreshTimeout bounds a refresh: metadata topic 6 s (offsets, and again where a leader has moved, the way to them),
	// the cluster's present round and the one after it 2 s each when a leader hangs.
	refreshTimeout = 10 * time.Second
	// roundGrace is what a round of asking the cluster may take beyond the interval at which they begin.
	roundGrace = 250 * time.Millisecond
	// unknownPause is the time between looks at a partition whose bounds are not known.
	unknownPause = 100 * time.Millisecond
)

// refresh collects those who wait for a newer view: calls that wait together share one look.
type refresh struct {
	kick chan struct{}

	mu      sync.Mutex
	waiting []waiter
	closed  bool
}

type waiter struct {
	of     tier.PartitionID
	answer chan<- look
}

func newRefresh() *refresh { return &refresh{kick: make(chan struct{}, 1)} }

var errClosed = errors.New("the follower is closed")

// join asks for a look at a partition that begins after the call.
func (r *refresh) join(of tier.PartitionID) (<-chan look, error) {
	answer := make(chan look, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	r.waiting = append(r.waiting, waiter{of, answer})
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return answer, nil
}

// take gives those who wait for what may be looked at now, and when the next ones may be; zero: nobody waits.
func (r *refresh) take(now time.Time, from func(of tier.PartitionID) time.Time) (ready []waiter, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var later []waiter
	for _, w := range r.waiting {
		switch at := from(w.of); {
		case !at.After(now):
			ready = append(ready, w)
		default:
			later = append(later, w)
			if next.IsZero() || at.Before(next) {
				next = at
			}
		}
	}
	r.waiting = later
	return ready, next
}

// close refuses all that wait and will wait; false when it was closed before.
func (r *refresh) close() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.closed
	r.closed = true
	for _, w := range r.waiting {
		w.answer <- look{err: errClosed}
	}
	r.waiting = nil
	return !before
}

// look is what a refresh has come to.
type look struct {
	began  time.Time
	err    error           // of the whole
	count  int32           // metadata partitions
	behind map[int32]error // metadata partitions of which the view may not hold all
}

// Refresh catches up with the topic's ends and the cluster's bounds as they are now. When it returns nil, all that the
// cluster held of the partition before the call is in Snapshot: the records, and the bounds and the lineage that its
// leader told after the call began. A leader that does not answer fails the refreshes for its own partitions only, and
// those of no partition in particular if it leads one of the metadata topic. A partition or topic that the cluster does
// not have needs no leader's answer, nor does one of which the tier holds nothing. A topic that the cluster denies
// fails.
//
// What it costs the brokers is seven requests about the partition. A look that finds nothing new is not repeated within
// Options.Refresh: who asks again waits until then, together with everybody else who does.
//
// Errors are *catalog.Error, of kind NotReady while the first replay runs and else Unavailable. It takes at most 10 s.
func (f *Follower) Refresh(ctx context.Context, partition tier.PartitionID) error {
	answer, err := f.refresh.join(partition)
	if err != nil {
		return unavailable(err)
	}
	select {
	case l := <-answer:
		err = f.judge(&l, partition)
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && !f.published.Load():
		return notReady(err)
	}
	return unavailable(err)
}

// judge says whether a look is good enough for a partition.
func (f *Follower) judge(l *look, partition tier.PartitionID) error {
	if l.err != nil {
		return l.err
	}
	if partition == (tier.PartitionID{}) {
		for _, err := range l.behind {
			return err
		}
		return nil
	}
	if err := l.behind[PartitionOf(partition, l.count)]; err != nil {
		return err
	}
	return f.boundsSince(partition, l.began)
}

// boundsSince says why the bounds that the tier has of a partition are not from after began, nil if they are.
func (f *Follower) boundsSince(of tier.PartitionID, began time.Time) error {
	v := f.seen.Load()
	if v == nil {
		return errors.New("the cluster has not been seen yet")
	}
	topic, ok := v.Topic(of.Topic)
	switch v.Missing[of.Topic] {
	case cluster.TopicDenied:
		return denies(f.nameOf(of.Topic))
	case cluster.TopicUnclear:
		return fmt.Errorf("the brokers do not agree on whether there is a topic %s of id %s", f.nameOf(of.Topic), of.Topic)
	}
	if !ok || !f.isWatched(topic.ID, topic.Name) {
		return nil
	}
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		if p.Number != of.Partition {
			continue
		}
		switch {
		case p.Leader < 0:
			return fmt.Errorf("%s-%d has no leader", topic.Name, p.Number)
		case p.BoundsAt.Before(began):
			return fmt.Errorf("the leader of %s-%d, broker %d, does not tell its bounds", topic.Name, p.Number, p.Leader)
		case p.LogStart < 0 || p.HighWatermark < 0:
			return fmt.Errorf("the leader of %s-%d, broker %d, tells bounds that cannot be true", topic.Name, p.Number, p.Leader)
		case p.LineagePending:
			return fmt.Errorf("the leader of %s-%d, broker %d, has not told the leader epochs of its log", topic.Name, p.Number, p.Leader)
		}
	}
	return nil
}

// isWatched says whether the cluster is asked for the bounds of a topic.
func (f *Follower) isWatched(id segment.UUID, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.known[id]
	return known || f.bounds.owners[name] == id
}

// nameOf is for errors.
func (f *Follower) nameOf(id segment.UUID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.known[id].name, f.bounds.named[id], id.String())
}

// Recent says that what the view tells of a partition, its bounds and what is tiered, is from within Options.Refresh:
// good enough to send a reader to the brokers with, who hold what lies beyond the tier whether or not it has just been
// tiered. For more than that it takes Refresh.
func (f *Follower) Recent(of tier.PartitionID) bool {
	least := time.Now().Add(-f.opt.Refresh - roundGrace)
	v := f.seen.Load()
	if !f.published.Load() || v == nil || f.doubt(of) != nil || !f.progress.heldSince(of, least) {
		return false
	}
	t, ok := v.Topic(of.Topic)
	if !ok {
		return false
	}
	i := slices.IndexFunc(t.Partitions, func(p cluster.Partition) bool { return p.Number == of.Partition })
	return i >= 0 && t.Partitions[i].BoundsAt.After(least)
}

// answerRefreshes looks for those who wait, one look at a time for all whose turn it is.
func (f *Follower) answerRefreshes(ctx context.Context) {
	vain := map[tier.PartitionID]time.Time{} // when looks began that found nothing new
	from := func(of tier.PartitionID) time.Time {
		at, ok := vain[of]
		switch {
		case !ok:
			return time.Time{}
		case f.doubt(of) != nil: // what is missing may come any moment
			return at.Add(min(f.opt.Refresh, unknownPause))
		}
		return at.Add(f.opt.Refresh)
	}
	turn := time.NewTimer(math.MaxInt64)
	defer turn.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.refresh.kick:
		case <-turn.C:
		}
		maps.DeleteFunc(vain, func(_ tier.PartitionID, at time.Time) bool { return time.Since(at) > f.opt.Refresh })
		ready, next := f.refresh.take(time.Now(), from)
		if len(ready) > 0 {
			before := map[tier.PartitionID]extent{}
			for _, w := range ready {
				before[w.of] = f.extent(w.of)
			}
			l := f.catchUp(ctx, before)
			for _, w := range ready {
				w.answer <- l
			}
			delete(before, tier.PartitionID{})
			for of, was := range before {
				if delete(vain, of); f.extent(of) == was {
					vain[of] = l.began
				}
			}
		}
		turn.Reset(math.MaxInt64)
		if !next.IsZero() {
			turn.Reset(time.Until(next))
		}
	}
}

// extent is what of a partition's view decides about reads beyond it.
type extent struct {
	listed     bool
	start, end int64
}

func (f *Follower) extent(of tier.PartitionID) extent {
	p, ok := f.Snapshot().Partition(of)
	if !ok {
		return extent{}
	}
	return extent{true, p.Bounds().Start, p.TieredEnd()}
}

// catchUp waits until the view holds what the topic holds now of some partitions, then asks the cluster for their
// bounds: in this order, since brokers move a log's start before they delete the segments below. The zero id is
// everything.
func (f *Follower) catchUp(ctx context.Context, of map[tier.PartitionID]extent) (l look) {
	l.began = time.Now()
	at := f.place.Load()
	if at == nil || !f.published.Load() {
		l.err = errors.New("the metadata topic is still being read")
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	l.count = int32(len(at.leaders))
	filed := make(map[int32]bool, len(of)) // metadata partitions
	for id := range of {
		filed[PartitionOf(id, l.count)] = true
	}
	only := slices.Collect(maps.Keys(of))
	if _, everything := of[tier.PartitionID{}]; everything {
		filed, only = nil, nil
	}
	ends, failed := f.brokers.offsetsOfMost(ctx, at, latest, filed)
	if len(failed) > 0 { // a leader may have moved, or an idle connection died
		locating, done := context.WithTimeout(ctx, leaderPatience)
		now, err := f.brokers.locate(locating)
		done()
		switch {
		case err != nil:
			for _, cause := range failed {
				err = errors.Join(err, cause)
				break
			}
			l.err = err
			return l
		case now.topicID != at.topicID || now.clusterID != at.clusterID || len(now.leaders) != len(at.leaders):
			l.err = errors.New("the metadata topic is another one, or has other partitions, than the one that was read")
			return l
		case !now.equal(at) || !hangs(failed):
			ends, failed = f.brokers.offsetsOfMost(ctx, now, latest, filed)
		}
	}
	l.behind = failed
	waiting, done := context.WithTimeout(ctx, reachPatience)
	defer done()
	for _, p := range f.progress.reach(waiting, ends) {
		l.behind[p] = fmt.Errorf("partition %d of the metadata topic is not read to its end yet", p)
	}
	l.err = f.ask(ctx, only...)
	return l
}

// hangs says that leaders do not answer at all: asking them once more would take as long again.
func hangs(failed map[int32]error) bool {
	for _, err := range failed {
		if !errors.Is(err, context.DeadlineExceeded) {
			return false
		}
	}
	return true
}
