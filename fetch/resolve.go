package fetch

import (
	"context"
	"time"

	"coldtap/segment"
	"coldtap/tier"
)

// findTopic gives the topic of a name and id, of which one may be zero; with both, both must be the topic's.
func findTopic(snap *tier.Snapshot, name string, id segment.UUID) (tier.Topic, error) {
	if id.IsZero() {
		if t, ok := snap.TopicByName(name); ok {
			return t, nil
		}
		return tier.Topic{}, failure(TopicUnknown, nil, "topic %q is not in the tier", name)
	}
	if t, ok := snap.TopicByID(id); ok && (name == "" || name == t.Name) {
		return t, nil
	}
	if name == "" {
		return tier.Topic{}, failure(TopicUnknown, nil, "no topic has id %s", id)
	}
	return tier.Topic{}, failure(TopicUnknown, nil, "topic %q with id %s is not in the tier", name, id)
}

// includePatience is how long a look-up of a topic that the tier holds nothing of waits for the brokers.
const includePatience = 5 * time.Second

// lookUp is findTopic in the newest snapshot, and with a live cluster in what the cluster has.
func (s *Service) lookUp(name string, id segment.UUID) (*tier.Snapshot, tier.Topic, error) {
	snap := s.cfg.Source.Snapshot()
	topic, err := findTopic(snap, name, id)
	live, ok := s.cfg.Source.(Live)
	if err == nil || !ok {
		return snap, topic, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), includePatience)
	defer cancel()
	if err := live.Include(ctx, name, id); err != nil {
		return nil, tier.Topic{}, failure(NotReady, err, "the topic is not in the tier, and the cluster was not asked")
	}
	snap = s.cfg.Source.Snapshot()
	topic, err = findTopic(snap, name, id)
	return snap, topic, err
}

// find resolves topic and partition in the newest snapshot. With a partition beside the error, it is there and its
// bounds are not known.
func (s *Service) find(name string, id segment.UUID, partition int32) (*tier.Snapshot, tier.Topic, *tier.Partition, error) {
	if err := s.Ready(); err != nil {
		return nil, tier.Topic{}, nil, err
	}
	snap, topic, err := s.lookUp(name, id)
	if err != nil {
		return nil, tier.Topic{}, nil, err
	}
	of := tier.PartitionID{Topic: topic.ID, Partition: partition}
	p, ok := snap.Partition(of)
	if unsure := snap.Certainty(of).Reason; unsure != nil {
		return snap, topic, p, failure(NotReady, unsure, "the bounds of partition %d of topic %q are not known", partition, topic.Name)
	}
	if !ok {
		return nil, tier.Topic{}, nil, failure(PartitionUnknown, nil, "topic %q has no partition %d in the tier", topic.Name, partition)
	}
	return snap, topic, p, nil
}

func boundsOf(p *tier.Partition) Bounds {
	b := p.Bounds()
	return Bounds{Start: b.Start, LocalStart: b.LocalStart, TieredEnd: p.TieredEnd(), LastStable: b.LastStable, HighWatermark: b.HighWatermark}
}

// Bounds that are not known yet are told within a round or a few of asking the brokers: a topic that is new, a leader
// that was elected a moment ago. A read waits so long before it is sent away.
const (
	unknownTries    = 10
	unknownPatience = 2 * time.Second
)

// resolve sets topic, partition and bounds.
func (st *Stream) resolve(ctx context.Context) error {
	snap, topic, p, err := st.svc.find(st.req.Topic, st.req.TopicID, st.req.Partition)
	began := time.Now()
	for tries := 0; err != nil && p != nil && tries < unknownTries && time.Since(began) < unknownPatience; tries++ {
		w := st.wait.begin(ctx)
		refused := st.wait.end(w, nil, st.svc.cfg.Source.Refresh(w, p.ID()))
		if kind := kindOf(refused); kind == Canceled || kind == TimedOut {
			return refused
		}
		snap, topic, p, err = st.svc.find(st.req.Topic, st.req.TopicID, st.req.Partition)
	}
	if err != nil {
		return err
	}
	st.topic, st.req.Topic = topic, topic.Name
	st.see(snap, p)
	return nil
}

// see makes p, of snap, the stream's view of its partition.
func (st *Stream) see(snap *tier.Snapshot, p *tier.Partition) {
	st.snap, st.part, st.bounds = snap, p, boundsOf(p)
}

// renew takes the newest view of the partition, which may be gone.
func (st *Stream) renew() error {
	snap := st.svc.cfg.Source.Snapshot()
	if snap == st.snap {
		return nil
	}
	p, ok := snap.Partition(st.part.ID())
	if !ok {
		if _, ok := snap.TopicByID(st.topic.ID); !ok {
			return failure(TopicUnknown, nil, "topic %q was deleted", st.topic.Name)
		}
		return failure(PartitionUnknown, nil, "partition %d of topic %q left the tier", st.req.Partition, st.topic.Name)
	}
	st.see(snap, p)
	return nil
}

// refresh asks for newer metadata and takes it.
func (st *Stream) refresh(ctx context.Context) error {
	p := st.wait.begin(ctx)
	err := st.wait.end(p, nil, st.svc.cfg.Source.Refresh(p, st.part.ID()))
	if err != nil {
		if kind := kindOf(err); kind == Canceled || kind == TimedOut {
			return err
		}
		return failure(NotReady, err, "metadata could not be refreshed")
	}
	return st.renew()
}

// resolveStart turns the request's start into an offset, in st.next.
func (st *Stream) resolveStart(ctx context.Context) error {
	b, r := &st.bounds, &st.req
	switch {
	case r.Start == FromOffset && r.EndOffset >= 0 && r.EndOffset < r.Offset:
		return failure(BadRequest, nil, "end offset %d is before offset %d", r.EndOffset, r.Offset)
	case r.Start == FromTimestamp && r.EndTimestamp >= 0 && r.EndTimestamp < r.Timestamp:
		return failure(BadRequest, nil, "end timestamp %d is before timestamp %d", r.EndTimestamp, r.Timestamp)
	case r.HasStartTimestamp && r.EndTimestamp >= 0 && r.EndTimestamp < r.StartTimestamp:
		return failure(BadRequest, nil, "end timestamp %d is before start timestamp %d", r.EndTimestamp, r.StartTimestamp)
	}
	asked := b.Start < 0 || r.Start == FromEarliestLocal && b.LocalStart < 0 ||
		r.Start == FromLatest && b.Clustered() && st.logEnd() < 0
	if asked {
		// It may be that it was not told yet.
		if err := st.refresh(ctx); err != nil {
			return err
		}
	}
	if b.Start < 0 {
		// Nothing was ever tiered, and nobody tells the start.
		b.Start, b.TieredEnd = 0, 0
	}
	switch r.Start {
	case FromOffset:
		st.next = r.Offset
	case FromEarliest:
		st.next = b.Start
	case FromLatest:
		if end := st.logEnd(); end >= b.TieredEnd {
			st.next = end
			return nil
		}
		st.next = b.TieredEnd
	case FromEarliestLocal:
		if b.LocalStart < 0 && b.Clustered() {
			return failure(BadRequest, nil, "the earliest local offset is not known now: the brokers do not tell it")
		} else if b.LocalStart < 0 {
			return failure(BadRequest, nil, "the earliest local offset is not known without a cluster")
		}
		st.next = b.LocalStart
	case FromTimestamp:
		return st.startAtTime(ctx)
	default:
		return failure(BadRequest, nil, "unknown start")
	}
	if st.next <= b.TieredEnd {
		return nil
	}
	if !asked && !st.isBrokers() {
		if err := st.refresh(ctx); err != nil {
			return err
		}
	}
	return st.aboveTier()
}

// isBrokers says that the place, above the tiered end, is one that the brokers hold by what they told just now. It may
// have been tiered since, but need not be read from the tier; that it is out of range takes asking them.
func (st *Stream) isBrokers() bool {
	live, ok := st.svc.cfg.Source.(Live)
	return ok && st.next <= max(st.bounds.HighWatermark, st.bounds.LastStable) && live.Recent(st.part.ID())
}

// aboveTier says, in a view from after a refresh, what becomes of an offset above the tiered end: nil when the brokers
// have it, where the answer ends with the tier.
func (st *Stream) aboveTier() error {
	b := &st.bounds
	switch {
	case st.next <= max(b.TieredEnd, b.HighWatermark, b.LastStable):
		return nil
	case b.Clustered() && b.HighWatermark < 0:
		return failure(NotReady, nil, "where the log ends is not known now")
	}
	return st.outOfRange()
}

// logEnd is where the log ends for the stream's reader, as the brokers told: the last stable offset for read_committed,
// else the high watermark; -1 without a cluster.
func (st *Stream) logEnd() int64 {
	if st.req.Isolation == ReadUncommitted {
		return st.bounds.HighWatermark
	}
	return st.bounds.LastStable
}

// startAtTime resolves a start by timestamp.
func (st *Stream) startAtTime(ctx context.Context) error {
	found, err := st.search(ctx, st.req.Timestamp)
	if err != nil {
		return err
	}
	if found.Offset >= 0 {
		st.next = min(found.Offset, st.rangeEnd)
		return nil
	}
	return nil // the search has ended the stream
}

// uncovered reports a gap in the tier at the stream's place.
func (st *Stream) uncovered() error {
	e := failure(Missing, nil, "no readable segment holds offset %d, although the tier spans [%d, %d) of partition %d of topic %q",
		st.next, st.bounds.Start, st.bounds.TieredEnd, st.req.Partition, st.topic.Name)
	e.NextOffset = st.next
	return e
}

func (st *Stream) outOfRange() error {
	e := failure(OutOfRange, nil, "offset %d is out of range: the tier holds [%d, %d) of partition %d of topic %q",
		st.next, st.bounds.Start, st.bounds.TieredEnd, st.req.Partition, st.topic.Name)
	e.NextOffset = st.next
	e.Bounds = st.bounds
	return e
}
