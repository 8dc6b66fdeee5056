package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"coldtap/catalog/observe"
	"coldtap/cluster"
	"coldtap/internal/errkind"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// askTimeout bounds what is asked when a replay begins.
	askTimeout = 5 * time.Second
	// leastFetchWait and mostFetchWait bound how long a broker may hold a Fetch when there is nothing new: half of
	// Options.Refresh, so that the view is known to be current within it.
	leastFetchWait = 50 * time.Millisecond
	mostFetchWait  = 10 * time.Second

	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// relocateEvery is how soon a topic that was created again or got partitions is noticed while everything else works.
	relocateEvery = 30 * time.Second
)

// restart is why a replay must begin again: what was read is not the beginning of what the topic holds.
type restart struct{ error }

// errRetry ends a follow whose trouble was reported already.
var errRetry = errors.New("try again")

// run follows until ctx ends. Whatever the brokers answer, there is a pause between attempts that failed: a leader that
// refuses the earliest offset that it answered itself would else be asked 3,000 times a second.
func (f *Follower) run(ctx context.Context) {
	f.replay = f.restore()
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := f.follow(ctx, pause)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > 2*maxPause {
			pause = firstPause
		}
		if err == nil {
			continue
		}
		if why, ok := errors.AsType[restart](err); ok {
			f.restartReplay(why.error)
		}
		if !errors.Is(err, errRetry) {
			f.noteTrouble(err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		pause = min(2*pause, maxPause)
	}
}

// noteTrouble keeps an error for Status, nil when following works again, and logs what lasts.
func (f *Follower) noteTrouble(err error) {
	now := time.Now()
	f.progress.failed(err)
	f.metrics.polled(err)
	if err == nil {
		if lasted, logged := f.trouble.Over(now); logged {
			f.log.Info("the metadata topic is followed again", "after", lasted.Round(time.Millisecond))
		}
		return
	}
	if kind, passing := troubleKind(err); f.trouble.Failed(now, kind, passing) {
		f.log.Warn("the metadata topic cannot be followed", "error", err)
	}
}

// troubleKind gives the kind of an error, which is the same whichever broker had it. passing says that a broker's
// restart or an election may end it.
func troubleKind(err error) (kind string, passing bool) {
	switch {
	case errors.Is(err, cluster.ErrNoTopic):
		return "no topic", true
	case errors.As(err, new(restart)):
		return "read anew", true
	case errors.As(err, new(*segment.Error)):
		return "unreadable", false
	}
	k := cluster.KindOf(err)
	return k.String(), k != cluster.Unauthorized && k != cluster.Denied
}

// delivery is what came of one Fetch.
type delivery struct {
	broker  int32
	digests []digest
	at      time.Time // when the answer came
	err     error     // of the request, or of a partition that is not asked again
}

// follow fetches for as long as the topic's leaders stay. It returns nil when they have changed, and errRetry a pause
// after a leader has failed; until then the records of the other leaders are applied.
func (f *Follower) follow(ctx context.Context, pause time.Duration) error {
	at, err := f.locate(ctx, f.located)
	if err != nil {
		return err
	}
	f.located = at
	if err := f.resume(ctx, at); err != nil {
		return err
	}
	f.leaders.Store(at)

	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	defer fetching.Wait()
	defer cancel()
	deliveries := make(chan delivery)
	trouble := error(nil)
	silent := map[int32]bool{} // leaders that have not answered yet: the answers of others do not end the trouble
	for broker, partitions := range at.ByBroker() {
		if broker < 0 {
			trouble = fmt.Errorf("%w: %v", cluster.ErrNoLeader, partitions)
			continue
		}
		var from []wanted
		for _, p := range partitions {
			from = append(from, wanted{p, position{offset: f.replay.positions[p], epoch: f.replay.epochs[p]}})
		}
		silent[broker] = true
		fetching.Go(func() { f.fetch(ctx, at, broker, from, deliveries) })
	}
	var retry <-chan time.Time
	if trouble != nil {
		f.noteTrouble(trouble)
		retry = time.After(pause)
	}
	relocate := time.NewTicker(relocateEvery)
	defer relocate.Stop()
	located := make(chan *cluster.Leaders, 1)
	for {
		if f.replay.targets != nil && !f.replay.caughtUp && reached(f.replay.positions, f.replay.targets) {
			f.publish()
		}
		f.save(time.Now())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-deliveries:
			f.apply(ctx, &d)
			switch {
			case d.err == nil && trouble == nil:
				if delete(silent, d.broker); len(silent) == 0 {
					f.noteTrouble(nil)
				}
			case d.err != nil && errors.As(d.err, new(restart)):
				return d.err
			case d.err != nil && trouble == nil:
				trouble = d.err
				f.noteTrouble(trouble)
				retry = time.After(pause)
			}
		case <-retry:
			return errRetry
		case <-relocate.C:
			fetching.Go(func() {
				if now, err := f.locate(ctx, at); err == nil {
					select {
					case located <- now:
					default:
					}
				}
			})
		case now := <-located:
			if !now.Equal(at) {
				return nil
			}
		}
	}
}

// locate asks for the leaders of the metadata topic; last are those that are known.
func (f *Follower) locate(ctx context.Context, last *cluster.Leaders) (*cluster.Leaders, error) {
	return f.opt.Brokers.Leaders(ctx, f.opt.Topic, last)
}

// resume checks that what was replayed is the beginning of the topic as it is now, and sets the replay's targets.
func (f *Follower) resume(ctx context.Context, at *cluster.Leaders) error {
	r := f.replay
	switch {
	case r.topicID == (segment.UUID{}) && r.positions == nil:
	case r.clusterID != at.ClusterID:
		return restart{fmt.Errorf("it was read from cluster %q, this is %q", r.clusterID, at.ClusterID)}
	case r.topicID != at.TopicID:
		return restart{fmt.Errorf("it was read of topic id %v, now it is %v", r.topicID, at.TopicID)}
	case len(r.positions) > len(at.Partitions):
		return restart{fmt.Errorf("it had %d partitions, now it has %d", len(r.positions), len(at.Partitions))}
	case r.targets != nil && len(r.positions) == len(at.Partitions):
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	then := time.Now()
	starts, ends, err := startsAndEnds(ctx, f.opt.Brokers, at)
	if err != nil {
		return err
	}
	for i, p := range r.positions {
		switch {
		case p < starts[i]:
			return restart{fmt.Errorf("partition %d begins at %d now, it was read up to %d", i, starts[i], p)}
		case p > ends[i]:
			return restart{fmt.Errorf("partition %d ends at %d now, it was read up to %d", i, ends[i], p)}
		}
	}
	r.clusterID, r.topicID = at.ClusterID, at.TopicID
	if n := len(r.positions); n > 0 && n < len(starts) {
		f.log.Warn("the metadata topic has got more partitions: brokers file segments elsewhere from now on", "before", n, "now", len(starts))
	}
	if r.fromFile && r.targets == nil {
		f.metrics.loaded("used")
	}
	for _, start := range starts[len(r.positions):] {
		r.positions, r.epochs = append(r.positions, start), append(r.epochs, -1)
	}
	r.targets, r.then = ends, then
	f.progress.restart(r.positions, ends, then)
	return nil
}

// startsAndEnds asks for all partitions of a topic; all leaders must answer.
func startsAndEnds(ctx context.Context, brokers *cluster.Brokers, at *cluster.Leaders) (starts, ends []int64, err error) {
	starts, failed := brokers.ListOffsets(ctx, at, cluster.Earliest, nil)
	if len(failed) == 0 {
		ends, failed = brokers.ListOffsets(ctx, at, cluster.Latest, nil)
	}
	return starts, ends, failed.Err()
}

// fetch delivers what one leader has, until ctx ends or the leader fails.
func (f *Follower) fetch(ctx context.Context, at *cluster.Leaders, broker int32, from []wanted, to chan<- delivery) {
	opened := newEntries(&f.largeBatch)
	defer opened.close()
	wait := min(max(f.opt.Refresh/2, leastFetchWait), mostFetchWait)
	for len(from) > 0 {
		opened.release() // the answer before was delivered
		d := delivery{broker: broker}
		portions, err := fetch(ctx, f.opt.Brokers, at, broker, from, wait)
		d.at, d.err = time.Now(), err
		for i := range portions {
			p := &portions[i]
			k := index(from, p.partition)
			if k < 0 || opened.full() { // what is left of a full answer is asked for again
				continue
			}
			w := from[k]
			g, err := f.digest(opened, w, p, int32(len(at.Partitions)))
			if err != nil {
				d.err = err
				from = append(from[:k], from[k+1:]...)
			} else if g.next != w.position {
				// What was just answered for comes last: brokers fill an answer in the order of the request.
				from = append(append(from[:k], from[k+1:]...), wanted{w.partition, g.next})
			}
			if g.next.offset > w.offset || err == nil {
				d.digests = append(d.digests, g)
			}
		}
		select {
		case to <- d:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func index(list []wanted, partition int32) int {
	for i := range list {
		if list[i].partition == partition {
			return i
		}
	}
	return -1
}

// digest makes a digest of a portion. Beside an error it holds what came before the fault.
func (f *Follower) digest(opened *entries, w wanted, p *portion, partitions int32) (digest, error) {
	d := digest{partition: w.partition, next: w.position, end: p.end, newest: -1}
	switch {
	case errors.Is(p.err, errDiverged):
		return d, restart{fmt.Errorf("partition %d, read up to %d in leader epoch %d: %w", w.partition, w.offset, w.epoch, p.err)}
	case errors.Is(p.err, kerr.OffsetOutOfRange):
		return d, restart{fmt.Errorf("partition %d does not hold offset %d any more", w.partition, w.offset)}
	case p.err != nil:
		return d, fmt.Errorf("partition %d: %w", w.partition, p.err)
	}
	next, err := opened.each(p, w.position, func(r *segment.Record) error {
		d.add(r, partitions)
		return nil
	}, d.addUnreadable)
	d.next = next
	if err != nil {
		return d, fmt.Errorf("partition %d cannot be read beyond offset %d: %w", w.partition, next.offset, err)
	}
	return d, nil
}

// apply applies a delivery to the replay's tier.
func (f *Follower) apply(ctx context.Context, d *delivery) {
	r := f.replay
	var changes []tier.Change
	var topics []observe.Topic
	for i := range d.digests {
		changes = append(changes, d.digests[i].changes...)
		topics = append(topics, d.digests[i].topics...)
	}
	f.observer.Apply(ctx, r.tier, changes, topics)
	for i := range d.digests {
		g := &d.digests[i]
		r.positions[g.partition], r.epochs[g.partition] = g.next.offset, g.next.epoch
		f.unsaved += g.records
		f.metrics.read(g, d.at)
		for _, bad := range g.faults {
			f.unreadable(g.partition, bad)
		}
	}
	f.progress.applied(d.digests, d.at)
}

// unreadable counts a record that is passed over, and logs the first of each kind.
func (f *Follower) unreadable(partition int32, bad fault) {
	f.metrics.unreadable.WithLabelValues(errkind.Label(bad.err.Kind)).Inc()
	if f.reported[bad.err.Kind] {
		return
	}
	f.reported[bad.err.Kind] = true
	f.log.Warn("a record of the metadata topic cannot be used and is passed over; others like it are only counted",
		"kind", errkind.Label(bad.err.Kind), "partition", partition, "offset", bad.offset, "error", bad.err)
}
