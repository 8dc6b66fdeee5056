package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asker asks the cluster round by round. It belongs to the background job.
type asker struct {
	brokers *Brokers
	metrics *metrics
	log     *slog.Logger

	topics  map[segment.UUID]map[int32]*partition // the watched ones that exist
	missing map[segment.UUID]*absent              // the watched ones that the last list of all topics left out
	denied  map[segment.UUID]bool                 // those that were logged as denied

	// Of the last round:
	unanswered   int   // watched partitions without bounds from it, or whose lineage is due and was not answered
	refused      int   // those of them whose topic is denied, of which reportDenied logs
	firstFailure error // of the others

	version int16 // of Metadata, as the last list of all topics was answered
}

// partition is a watched partition from round to round.
type partition struct {
	now    Partition // as the next View will show it, Lineage excepted
	topic  string
	leader Leader // now's

	boundsEpoch int32     // the leader epoch under which now's bounds were answered
	waits       bool      // the leader said that it is not yet the leader of now's epoch
	leadsAt     time.Time // the View's in whose round the leader spoke as such, but had no high watermark of its epoch yet
	lineage     lineage
	pending     int // rounds in a row in which the lineage was shown as pending
}

func newAsker(brokers *Brokers, m *metrics, log *slog.Logger) *asker {
	return &asker{brokers: brokers, metrics: m, log: log, topics: map[segment.UUID]map[int32]*partition{}, denied: map[segment.UUID]bool{}}
}

// round asks everything once. more says that lineages are not finished, so that the next round should not wait.
func (a *asker) round(ctx context.Context, last *View, watched map[segment.UUID]string) (v *View, more bool, err *Error) {
	ctx, cancel := context.WithTimeout(ctx, longestRound)
	defer cancel()
	now := time.Now()
	v = &View{At: now, Newest: now}
	a.unanswered, a.refused, a.firstFailure = 0, 0, nil
	if err := a.metadata(ctx, v, last, watched); err != nil {
		a.unanswered = a.all(watched)
		return nil, false, err
	}
	a.enroll(v, watched)
	brokers := a.byLeader()
	a.askBounds(ctx, brokers, v.At)
	more = a.walkLineages(ctx, v.At)
	if a.fill(v) {
		more = true
	}
	return v, more, nil
}

// metadata fills in the topics.
func (a *asker) metadata(ctx context.Context, v, last *View, watched map[segment.UUID]string) *Error {
	before := map[string]*Topic{}
	if last != nil {
		for i := range last.Topics {
			before[last.Topics[i].Name] = &last.Topics[i]
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := a.brokers.metadata(ctx, req)
	if err != nil {
		return err
	}
	if resp.ClusterID != nil {
		v.ClusterID = *resp.ClusterID
	}
	a.version = resp.Version
	c := collected{asker: a, before: before, names: map[string]bool{}, ids: map[segment.UUID]bool{}}
	c.add(resp.Topics)
	if v.Missing, err = a.askMissing(ctx, &c, last, watched, resp.Version); err != nil {
		return err
	}
	slices.SortFunc(c.topics, func(x, y Topic) int { return cmp.Compare(x.Name, y.Name) })
	v.Topics = c.topics
	return nil
}

// collected are the topics of a round's Metadata answers.
type collected struct {
	asker  *asker
	before map[string]*Topic
	topics []Topic
	names  map[string]bool
	ids    map[segment.UUID]bool
}

func (c *collected) add(answer []kmsg.MetadataResponseTopic) {
	for i := range answer {
		t := &answer[i]
		if t.Topic == nil || !segment.LegalTopic(*t.Topic) {
			c.asker.metrics.reject(rejectName)
			continue
		}
		id := segment.UUID(t.TopicID)
		if c.names[*t.Topic] || !id.IsZero() && c.ids[id] {
			c.asker.metrics.reject(rejectRepeated)
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case err == nil:
			c.put(Topic{ID: id, Name: *t.Topic, Internal: t.IsInternal, Partitions: c.partitions(id, t)})
		case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InvalidTopicException):
			// It is being deleted. If it is watched, it is asked for.
		default:
			if old := c.before[*t.Topic]; old != nil && (id.IsZero() || id == old.ID) {
				c.keep(old)
			}
			c.asker.failure(asError("metadata of topic "+*t.Topic, err))
		}
	}
}

func (c *collected) put(t Topic) {
	c.topics = append(c.topics, t)
	c.names[t.Name] = true
	c.ids[t.ID] = true
}

// keep takes a topic over from the View before, unless its id has gone to another name.
func (c *collected) keep(t *Topic) {
	if t.ID.IsZero() || !c.ids[t.ID] {
		c.put(*t)
	}
}

// partitions gives those of one topic, their bounds unknown. Where nothing has changed since the View before, the slice
// is that of then: a cluster has 100,000 of them, of which few are watched.
func (c *collected) partitions(id segment.UUID, t *kmsg.MetadataResponseTopic) []Partition {
	answer := t.Partitions
	slices.SortFunc(answer, func(x, y kmsg.MetadataResponseTopicPartition) int { return cmp.Compare(x.Partition, y.Partition) })
	if old := c.before[*t.Topic]; old != nil && old.ID == id && slices.EqualFunc(old.Partitions, answer, sameBare) {
		return old.Partitions
	}
	list := make([]Partition, 0, len(answer))
	for i := range answer {
		p := bare(&answer[i])
		switch {
		case p.Number < 0:
			c.asker.metrics.reject(rejectName)
		case len(list) > 0 && list[len(list)-1].Number == p.Number:
			c.asker.metrics.reject(rejectRepeated)
		default:
			list = append(list, p)
		}
	}
	return list
}

func bare(p *kmsg.MetadataResponseTopicPartition) Partition {
	return Partition{Number: p.Partition, Leader: max(p.Leader, -1), LeaderEpoch: max(p.LeaderEpoch, -1),
		LogStart: -1, LocalStart: -1, HighWatermark: -1, LastStable: -1, LatestTiered: -1}
}

func sameBare(old Partition, p kmsg.MetadataResponseTopicPartition) bool {
	return old.Number == p.Partition && old.Leader == p.Leader && old.LeaderEpoch == p.LeaderEpoch && old.BoundsAt.IsZero() &&
		old.Lineage == nil && !old.LineagePending
}

// enroll brings the watched partitions in line with the topics there are.
func (a *asker) enroll(v *View, watched map[segment.UUID]string) {
	topics := make(map[segment.UUID]map[int32]*partition, len(watched))
	for i := range v.Topics {
		t := &v.Topics[i]
		if _, ok := watched[t.ID]; !ok {
			continue
		}
		known := a.topics[t.ID]
		parts := make(map[int32]*partition, len(t.Partitions))
		for _, m := range t.Partitions {
			p := known[m.Number]
			if p == nil {
				p = &partition{now: Partition{Number: m.Number, Leader: -1, LeaderEpoch: -1, LogStart: -1, LocalStart: -1, HighWatermark: -1,
					LastStable: -1, LatestTiered: -1}, leader: Leader{Broker: -1, Epoch: -1}, boundsEpoch: -1, lineage: lineage{epoch: -1}}
			}
			p.topic = t.Name
			p.elect(&m, a.metrics.reject)
			parts[m.Number] = p
		}
		topics[t.ID] = parts
	}
	a.topics = topics
}

// elect takes over what Metadata says of the leader.
func (p *partition) elect(m *Partition, reject func(reason string)) {
	p.leader.update(m.Leader, m.LeaderEpoch, reject)
	p.now.Leader, p.now.LeaderEpoch = p.leader.Broker, p.leader.Epoch
}

// byLeader gives the watched partitions of each broker. Those without a leader are unanswered, and so are those of
// denied topics, which leaders would not answer for either.
func (a *asker) byLeader() map[int32][]*partition {
	brokers := map[int32][]*partition{}
	for id, parts := range a.topics {
		if m := a.missing[id]; m != nil && m.why == TopicDenied {
			a.unanswered += len(parts)
			a.refused += len(parts)
			continue
		}
		for _, p := range parts {
			if p.now.Leader < 0 {
				a.unanswered++
				a.failure(&Error{Kind: Unreachable, Op: fmt.Sprintf("partition %s-%d", p.topic, p.now.Number), Err: kerr.LeaderNotAvailable})
				continue
			}
			brokers[p.now.Leader] = append(brokers[p.now.Leader], p)
		}
	}
	return brokers
}

// all counts the watched partitions, for a round that none was answered in: of a topic that was never seen, one.
func (a *asker) all(watched map[segment.UUID]string) (n int) {
	for id := range watched {
		if m := a.missing[id]; m == nil || m.why != TopicGone {
			n += max(1, len(a.topics[id]))
		}
	}
	return n
}

// failure keeps the round's first.
func (a *asker) failure(err error) {
	if a.firstFailure == nil {
		a.firstFailure = err
	}
}

// fill puts the watched partitions into the View, and clears what is left of those that were watched before. hasty says
// that a lineage has not been pending for long.
func (a *asker) fill(v *View) (hasty bool) {
	for i := range v.Topics {
		t := &v.Topics[i]
		parts, watched := a.topics[t.ID]
		if !watched {
			if slices.ContainsFunc(t.Partitions, func(p Partition) bool { return !p.BoundsAt.IsZero() || p.Lineage != nil || p.LineagePending }) {
				t.Partitions = forget(t.Partitions)
			}
			continue
		}
		list := make([]Partition, 0, len(parts))
		for _, m := range t.Partitions {
			p := parts[m.Number]
			now := p.now
			now.Lineage, now.LineagePending = p.lineage.shown(p, v.At)
			if p.pending++; !now.LineagePending {
				p.pending = 0
			}
			hasty = hasty || p.pending > 0 && p.pending <= hastyRounds && now.Leader >= 0
			list = append(list, now)
		}
		t.Partitions = list
	}
	return hasty
}

// forget gives the partitions of a topic that was kept from the View before and is not watched any more.
func forget(list []Partition) []Partition {
	list = slices.Clone(list)
	for i := range list {
		p := &list[i]
		*p = Partition{Number: p.Number, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
			LogStart: -1, LocalStart: -1, HighWatermark: -1, LastStable: -1, LatestTiered: -1}
	}
	return list
}
