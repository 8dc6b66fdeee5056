package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	// reachPatience is how long the view may take to get to ends that were just told; following is 0.5 s behind at most.
	reachPatience = 2 * time.Second
	// refreshTimeout bounds a refresh: metadata topic 6 s (offsets, and again where a leader has moved, the way to them), the
	// cluster's present round and the one after it 2 s each when a leader hangs.
	refreshTimeout = 10 * time.Second
)

// refresh collects those who wait for a newer view: calls that wait together share one look.
type refresh struct {
	kick chan struct{}

	mu      sync.Mutex
	waiting []chan look
	closed  bool
}

func newRefresh() *refresh { return &refresh{kick: make(chan struct{}, 1)} }

var errClosed = errors.New("the follower is closed")

// join asks for a look that begins after the call.
func (r *refresh) join() (<-chan look, error) {
	answer := make(chan look, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	r.waiting = append(r.waiting, answer)
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return answer, nil
}

func (r *refresh) take() []chan look {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waiting
	r.waiting = nil
	return w
}

// close refuses all that wait and will wait; false when it was closed before.
func (r *refresh) close() bool {
	r.mu.Lock()
	before := r.closed
	r.closed = true
	r.mu.Unlock()
	for _, answer := range r.take() {
		answer <- look{err: errClosed}
	}
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
// cluster held of the partition before the call is in Snapshot: the records, and the bounds and the lineage that its leader
// told after the call began. A leader that does not answer fails the refreshes for its own partitions only, and those of
// no partition in particular if it leads one of the metadata topic. A partition or topic that the cluster does not have
// needs no leader's answer, nor does one of which the tier holds nothing. A topic that the cluster denies fails.
//
// Errors are *catalog.Error, of kind NotReady while the first replay runs and else Unavailable. It takes at most 10 s.
func (f *Follower) Refresh(ctx context.Context, partition tier.PartitionID) error {
	answer, err := f.refresh.join()
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

func (f *Follower) answerRefreshes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.refresh.kick:
		}
		waiting := f.refresh.take()
		if len(waiting) == 0 {
			continue
		}
		l := f.catchUp(ctx)
		for _, answer := range waiting {
			answer <- l
		}
	}
}

// catchUp waits until the view holds what the topic holds now, then asks the cluster for its bounds: in this order, since
// brokers move a log's start before they delete the segments below.
func (f *Follower) catchUp(ctx context.Context) (l look) {
	l.began = time.Now()
	at := f.place.Load()
	if at == nil || !f.published.Load() {
		l.err = errors.New("the metadata topic is still being read")
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	ends, failed := f.brokers.offsetsOfMost(ctx, at, latest)
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
			ends, failed = f.brokers.offsetsOfMost(ctx, now, latest)
		}
	}
	l.count, l.behind = int32(len(ends)), failed
	waiting, done := context.WithTimeout(ctx, reachPatience)
	defer done()
	for _, p := range f.progress.reach(waiting, ends) {
		l.behind[p] = fmt.Errorf("partition %d of the metadata topic is not read to its end yet", p)
	}
	l.err = f.ask(ctx)
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
