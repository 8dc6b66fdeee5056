package fetch

import (
	"context"
	"time"

	"coldtap/tier"
)

// locator says where in the tier a read stands: topic and partition, the offset that a start means, and the segment
// that holds an offset. It alone asks for newer metadata, and alone says that an offset is out of range. It reads no
// log and no index.
type locator struct {
	svc  *Service
	wait *waiter
	locatorState
}

type locatorState struct {
	topic     tier.Topic
	isolation Isolation

	snap   *tier.Snapshot
	part   *tier.Partition // of snap
	bounds Bounds          // of part
	shown  Bounds          // as they were when the start was resolved

	start    int64 // that the request's start means
	earliest bool  // the request begins where the tier does
	moves    int   // how often a segment vanished
	ceded    bool  // deletes have taken the position from the tier, and the brokers still have it
}

// Bounds that are not known yet are reported within a round or a few of asking the brokers: a topic that is new, a
// leader that was elected a moment ago. A read waits so long before it is sent away.
const (
	unknownTries   = 10
	unknownTimeout = 2 * time.Second
)

// resolve finds the request's topic and partition.
func (l *locator) resolve(ctx context.Context, r *Request) error {
	snap, topic, p, err := l.svc.find(r.Topic, r.TopicID, r.Partition)
	began := time.Now()
	for tries := 0; err != nil && p != nil && tries < unknownTries && time.Since(began) < unknownTimeout; tries++ {
		if err := l.svc.refresh(ctx, l.wait, p.ID()); gaveUp(err) {
			return err
		}
		snap, topic, p, err = l.svc.find(r.Topic, r.TopicID, r.Partition)
	}
	if err != nil {
		return err
	}
	l.topic, l.isolation, l.earliest = topic, r.Isolation, r.Start == FromEarliest
	l.see(snap, p)
	l.shown = l.bounds
	return nil
}

// see makes p, of snap, the view of the partition.
func (l *locator) see(snap *tier.Snapshot, p *tier.Partition) {
	l.snap, l.part, l.bounds = snap, p, boundsOf(p)
}

// renew takes the newest view of the partition, which may be gone.
func (l *locator) renew() error {
	snap := l.svc.cfg.Source.Snapshot()
	if snap == l.snap {
		return nil
	}
	p, ok := snap.Partition(l.part.ID())
	if !ok {
		if _, ok := snap.TopicByID(l.topic.ID); !ok {
			return failure(TopicUnknown, nil, "topic %q was deleted", l.topic.Name)
		}
		return failure(PartitionUnknown, nil, "partition %d of topic %q left the tier", l.part.ID().Partition, l.topic.Name)
	}
	l.see(snap, p)
	return nil
}

// refresh asks for newer metadata and takes it.
func (l *locator) refresh(ctx context.Context) error {
	if err := l.svc.refresh(ctx, l.wait, l.part.ID()); err != nil {
		return err
	}
	return l.renew()
}

// refresh brings what concerns a partition up to date.
func (s *Service) refresh(ctx context.Context, w *waiter, id tier.PartitionID) error {
	p := w.start(ctx)
	err := w.done(p, nil, s.cfg.Source.Refresh(p, id))
	if err != nil && !gaveUp(err) {
		return failure(NotReady, err, "metadata could not be refreshed")
	}
	return err
}

// gaveUp says that the caller, or the request's time for waiting, ended a wait.
func gaveUp(err error) bool {
	kind := kindOf(err)
	return kind == Canceled || kind == TimedOut
}

// resolveStart turns the request's start into an offset. byTime: it takes a search, which begins at the offset.
func (l *locator) resolveStart(ctx context.Context, r *Request) (offset int64, byTime bool, err error) {
	b := &l.bounds
	switch {
	case r.Start == FromOffset && r.EndOffset >= 0 && r.EndOffset < r.Offset:
		return 0, false, failure(BadRequest, nil, "end offset %d is before offset %d", r.EndOffset, r.Offset)
	case r.Start == FromTimestamp && r.EndTimestamp >= 0 && r.EndTimestamp < r.Timestamp:
		return 0, false, failure(BadRequest, nil, "end timestamp %d is before timestamp %d", r.EndTimestamp, r.Timestamp)
	case r.HasStartTimestamp && r.EndTimestamp >= 0 && r.EndTimestamp < r.StartTimestamp:
		return 0, false, failure(BadRequest, nil, "end timestamp %d is before start timestamp %d", r.EndTimestamp, r.StartTimestamp)
	}
	refreshed := b.Start < 0 || r.Start == FromEarliestLocal && b.LocalStart < 0 ||
		r.Start == FromLatest && b.Clustered() && l.logEnd() < 0
	if refreshed {
		// The brokers may not have reported it yet.
		if err := l.refresh(ctx); err != nil {
			return 0, false, err
		}
	}
	if b.Start < 0 {
		// Nothing was ever tiered, and no broker reports the start.
		b.Start, b.TieredEnd = 0, 0
	}
	switch r.Start {
	case FromOffset:
		offset = r.Offset
	case FromEarliest:
		offset = b.Start
	case FromLatest:
		if end := l.logEnd(); end >= b.TieredEnd {
			return end, false, nil
		}
		offset = b.TieredEnd
	case FromEarliestLocal:
		if b.LocalStart < 0 && b.Clustered() {
			return 0, false, failure(BadRequest, nil, "the earliest local offset is not known now: the brokers do not tell it")
		} else if b.LocalStart < 0 {
			return 0, false, failure(BadRequest, nil, "the earliest local offset is not known without a cluster")
		}
		offset = b.LocalStart
	case FromTimestamp:
		return b.Start, true, nil
	default:
		return 0, false, failure(BadRequest, nil, "unknown start")
	}
	if offset <= b.TieredEnd {
		return offset, false, nil
	}
	if !refreshed && !l.isBrokers(offset) {
		if err := l.refresh(ctx); err != nil {
			return offset, false, err
		}
	}
	return offset, false, l.checkAboveTier(offset)
}

// isBrokers says that an offset above the tiered end is one that the brokers hold by what they reported just now. It
// may have been tiered since, but need not be read from the tier; that it is out of range takes asking them.
func (l *locator) isBrokers(offset int64) bool {
	live, ok := l.svc.cfg.Source.(Live)
	return ok && offset <= max(l.bounds.HighWatermark, l.bounds.LastStable) && live.Recent(l.part.ID())
}

// checkAboveTier says, in a view from after a refresh, what becomes of an offset above the tiered end: nil when the
// brokers have it, where the answer ends with the tier.
func (l *locator) checkAboveTier(offset int64) error {
	b := &l.bounds
	switch {
	case offset <= max(b.TieredEnd, b.HighWatermark, b.LastStable):
		return nil
	case b.Clustered() && b.HighWatermark < 0:
		return failure(NotReady, nil, "where the log ends is not known now")
	}
	return l.outOfRange(offset)
}

// logEnd is where the log ends for the reader, as the brokers reported: the last stable offset for read_committed, else
// the high watermark; -1 without a cluster.
func (l *locator) logEnd() int64 {
	if l.isolation == ReadUncommitted {
		return l.bounds.HighWatermark
	}
	return l.bounds.LastStable
}

// uncovered reports a gap in the tier.
func (l *locator) uncovered(offset int64) error {
	e := failure(Missing, nil, "no readable segment holds offset %d, although the tier spans [%d, %d) of partition %d of topic %q",
		offset, l.bounds.Start, l.bounds.TieredEnd, l.part.ID().Partition, l.topic.Name)
	e.NextOffset = offset
	return e
}

func (l *locator) outOfRange(offset int64) error {
	e := failure(OutOfRange, nil, "offset %d is out of range: the tier holds [%d, %d) of partition %d of topic %q",
		offset, l.bounds.Start, l.bounds.TieredEnd, l.part.ID().Partition, l.topic.Name)
	e.NextOffset = offset
	e.Bounds = l.bounds
	return e
}

// startAt notes the start that the request means.
func (l *locator) startAt(offset int64) { l.start, l.shown = offset, l.bounds }
