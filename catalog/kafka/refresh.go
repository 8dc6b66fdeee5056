package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"coldtap/catalog/observe"
	"coldtap/cluster"
	"coldtap/internal/refresh"
	"coldtap/tier"
)

const (
	// reachTimeout is how long the view may take to get to ends that a leader has just answered; following is 0.5 s behind
	// at most.
	reachTimeout = 2 * time.Second
	// locateTimeout is how long a refresh asks for the leaders of the metadata topic.
	locateTimeout = 2 * time.Second
	// refreshTimeout bounds a refresh: 6 s for the metadata topic (offsets, its leaders, and offsets once more), and 2 s
	// each for the cluster's present round and the one after it when a leader hangs.
	refreshTimeout = 10 * time.Second
	// unknownPause is the least time between refreshes of a partition whose bounds are not certain.
	unknownPause = 100 * time.Millisecond
)

// caughtUp is what a refresh has come to.
type caughtUp struct {
	began      time.Time
	err        error            // of the whole
	partitions int32            // of the metadata topic
	behind     cluster.Failures // metadata partitions of which the view may not hold all
}

var errClosed = errors.New("the follower is closed")

// Refresh catches up with the topic's ends and the cluster's bounds as they are now. When it returns nil, all that the
// cluster held of the partition before the call is in Snapshot: the records, and the bounds and the lineage that its
// leader answered after the call began. A leader that does not answer fails the refreshes for its own partitions only;
// if it leads a partition of the metadata topic, refreshes with the zero PartitionID fail too. A partition or topic
// that the cluster does not have needs no leader's answer, nor does one of which the tier holds nothing. A topic that
// the cluster denies fails.
//
// It sends seven requests about the partition. After one that found nothing new, the next one about the partition
// begins no sooner than Options.Refresh after it: calls that come before wait, and share it.
//
// Errors are *catalog.Error, of kind NotReady while the first replay runs and else Unavailable. It takes at most 10 s.
func (f *Follower) Refresh(ctx context.Context, partition tier.PartitionID) error {
	c, err := f.refreshes.Ask(ctx, partition)
	answered := err == nil
	if answered {
		err = f.suffices(&c, partition)
	}
	switch {
	case err == nil:
		return nil
	case answered && !f.published.Load():
		return notReady(err)
	}
	return unavailable(err)
}

// suffices says why a refresh is not good enough for a partition, nil if it is.
func (f *Follower) suffices(c *caughtUp, partition tier.PartitionID) error {
	if c.err != nil {
		return c.err
	}
	if partition == (tier.PartitionID{}) {
		for _, err := range c.behind {
			return err
		}
		return nil
	}
	if err := c.behind[PartitionOf(partition, c.partitions)]; err != nil {
		return err
	}
	return f.observer.Since(partition, c.began)
}

// Recent says that the view of a partition, its bounds and what is tiered, is at most Options.Refresh old. That is
// enough to send a reader to the brokers, which hold what lies beyond the tier whether or not it has just been tiered.
// For more than that Refresh is needed.
func (f *Follower) Recent(of tier.PartitionID) bool {
	least := time.Now().Add(-f.opt.Refresh - observe.RoundGrace)
	return f.published.Load() && f.uncertain(of) == nil && f.progress.heldSince(of, least) && f.observer.Recent(of, least)
}

// uncertain says why the view's bounds of a partition cannot be relied on, nil when they can.
func (f *Follower) uncertain(of tier.PartitionID) error { return f.Snapshot().Certainty(of).Reason }

// answer is one refresh, for the calls that share it. A partition for which nothing new was found rests for
// Options.Refresh.
func (f *Follower) answer(ctx context.Context, l *refresh.Look[tier.PartitionID, caughtUp]) {
	before := make([]extent, len(l.Keys))
	for i, of := range l.Keys {
		before[i] = f.extent(of)
	}
	c := f.catchUp(ctx, l.Keys)
	for i, of := range l.Keys {
		if of != (tier.PartitionID{}) && f.extent(of) == before[i] {
			l.Rest(of, func() time.Time {
				if f.uncertain(of) != nil { // what is missing may come any moment
					return c.began.Add(min(f.opt.Refresh, unknownPause))
				}
				return c.began.Add(f.opt.Refresh)
			})
		}
	}
	l.End(c)
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
// bounds: in this order, since brokers move a log's start before they delete the segments below. The zero id stands for
// everything.
func (f *Follower) catchUp(ctx context.Context, of []tier.PartitionID) (c caughtUp) {
	c.began = time.Now()
	at := f.leaders.Load()
	if at == nil || !f.published.Load() {
		c.err = errors.New("the metadata topic is still being read")
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	c.partitions = int32(len(at.Partitions))
	filed := make(map[int32]bool, len(of)) // the metadata partitions with their records
	for _, id := range of {
		filed[PartitionOf(id, c.partitions)] = true
	}
	if slices.Contains(of, tier.PartitionID{}) { // everything
		filed, of = nil, nil
	}
	var ends []int64
	if ends, c.behind = f.opt.Brokers.ListOffsets(ctx, at, cluster.Latest, filed); len(c.behind) > 0 { // a leader may have moved
		locating, done := context.WithTimeout(ctx, locateTimeout)
		now, err := f.locate(locating, at)
		done()
		switch {
		case err != nil:
			c.err = errors.Join(err, c.behind.Err())
			return c
		case now.TopicID != at.TopicID || now.ClusterID != at.ClusterID || len(now.Partitions) != len(at.Partitions):
			c.err = errors.New("the metadata topic is another one, or has other partitions, than the one that was read")
			return c
		case !now.Equal(at) || !areTimeouts(c.behind):
			ends, c.behind = f.opt.Brokers.ListOffsets(ctx, now, cluster.Latest, filed)
		}
	}
	waiting, done := context.WithTimeout(ctx, reachTimeout)
	defer done()
	for _, p := range f.progress.reach(waiting, ends) {
		c.behind[p] = fmt.Errorf("partition %d of the metadata topic is not read to its end yet", p)
	}
	c.err = f.observer.Ask(ctx, of...)
	return c
}

// areTimeouts says that leaders do not answer at all: to ask them once more would take as long again.
func areTimeouts(failed cluster.Failures) bool {
	for _, err := range failed {
		if !errors.Is(err, context.DeadlineExceeded) {
			return false
		}
	}
	return true
}
