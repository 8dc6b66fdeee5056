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

// rounds sends the requests of one round after the other, and keeps what they need of the rounds before. It belongs to
// the Client's background job.
type rounds struct {
	brokers *Brokers
	metrics *metrics
	log     *slog.Logger

	topics  map[segment.UUID]map[int32]*partition // watched topics that exist
	missing map[segment.UUID]*absent              // watched topics that the last list of all topics left out
	denied  map[segment.UUID]bool                 // watched topics that were logged as denied

	// Of the last round:
	unanswered   int   // watched partitions without bounds from it, or whose lineage is due and was not answered
	refused      int   // those of them whose topic is denied, which reportDenied logs
	firstFailure error // of the others

	version int16 // of Metadata, as the last list of all topics was answered
}

// partition is a watched partition from round to round.
type partition struct {
	now    Partition // as the next View will show it, Lineage excepted
	topic  string
	leader Leader

	boundsEpoch      int32     // the leader epoch under which now's bounds were answered
	unknownEpoch     bool      // UNKNOWN_LEADER_EPOCH: the broker is not yet the leader of now's epoch
	offsetsPendingAt time.Time // View.At of the round in which the leader answered OFFSET_NOT_AVAILABLE (KIP-207)
	lineage          lineage
	pending          int // rounds in a row in which the lineage was shown as pending
}

func newRounds(brokers *Brokers, m *metrics, log *slog.Logger) *rounds {
	return &rounds{brokers: brokers, metrics: m, log: log, topics: map[segment.UUID]map[int32]*partition{}, denied: map[segment.UUID]bool{}}
}

// full is a round about everything. more says that lineages are not finished, so that the next round should not wait.
func (r *rounds) full(ctx context.Context, last *View, watched map[segment.UUID]string) (v *View, more bool, err *Error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	now := time.Now()
	v = &View{At: now, Newest: now}
	r.unanswered, r.refused, r.firstFailure = 0, 0, nil
	if err := r.listTopics(ctx, v, last, watched); err != nil {
		r.unanswered = r.countWatched(watched)
		return nil, false, err
	}
	r.updateWatched(v, watched)
	brokers := r.byLeader()
	r.requestBounds(ctx, brokers, v.At)
	more = r.walkLineages(ctx, v.At)
	if r.fillView(v) {
		more = true
	}
	return v, more, nil
}

// listTopics fills in the topics.
func (r *rounds) listTopics(ctx context.Context, v, last *View, watched map[segment.UUID]string) *Error {
	before := map[string]*Topic{}
	if last != nil {
		for i := range last.Topics {
			before[last.Topics[i].Name] = &last.Topics[i]
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := r.brokers.metadata(ctx, req)
	if err != nil {
		return err
	}
	if resp.ClusterID != nil {
		v.ClusterID = *resp.ClusterID
	}
	r.version = resp.Version
	c := collected{rounds: r, before: before, names: map[string]bool{}, ids: map[segment.UUID]bool{}}
	c.add(resp.Topics)
	if v.Missing, err = r.requestMissing(ctx, &c, last, watched, resp.Version); err != nil {
		return err
	}
	slices.SortFunc(c.topics, func(x, y Topic) int { return cmp.Compare(x.Name, y.Name) })
	v.Topics = c.topics
	return nil
}

// collected are the topics of a round's Metadata answers, each name and id once.
type collected struct {
	rounds *rounds
	before map[string]*Topic
	topics []Topic
	names  map[string]bool
	ids    map[segment.UUID]bool
}

func (c *collected) add(answer []kmsg.MetadataResponseTopic) {
	for i := range answer {
		t := &answer[i]
		if t.Topic == nil || !segment.LegalTopic(*t.Topic) {
			c.rounds.metrics.reject(rejectName)
			continue
		}
		id := segment.UUID(t.TopicID)
		if c.names[*t.Topic] || !id.IsZero() && c.ids[id] {
			c.rounds.metrics.reject(rejectRepeated)
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case err == nil:
			c.put(Topic{ID: id, Name: *t.Topic, Internal: t.IsInternal, Partitions: c.partitions(id, t)})
		case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InvalidTopicException):
			// It is being deleted. If it is watched, requestMissing asks for it.
		default:
			if old := c.before[*t.Topic]; old != nil && (id.IsZero() || id == old.ID) {
				c.keep(old)
			}
			c.rounds.noteFailure(asError("metadata of topic "+*t.Topic, err))
		}
	}
}

func (c *collected) put(t Topic) {
	c.topics = append(c.topics, t)
	c.names[t.Name] = true
	c.ids[t.ID] = true
}

// keep takes a topic over from the View before, unless its id has another name by now.
func (c *collected) keep(t *Topic) {
	if t.ID.IsZero() || !c.ids[t.ID] {
		c.put(*t)
	}
}

// partitions gives those of one topic, their bounds unknown. Where nothing has changed since the View before, it is the
// slice of that View: a cluster has 100,000 partitions, of which few are watched.
func (c *collected) partitions(id segment.UUID, t *kmsg.MetadataResponseTopic) []Partition {
	answer := t.Partitions
	slices.SortFunc(answer, func(x, y kmsg.MetadataResponseTopicPartition) int { return cmp.Compare(x.Partition, y.Partition) })
	if old := c.before[*t.Topic]; old != nil && old.ID == id && slices.EqualFunc(old.Partitions, answer, isUnchanged) {
		return old.Partitions
	}
	list := make([]Partition, 0, len(answer))
	for i := range answer {
		p := withLeader(&answer[i])
		switch {
		case p.Number < 0:
			c.rounds.metrics.reject(rejectName)
		case len(list) > 0 && list[len(list)-1].Number == p.Number:
			c.rounds.metrics.reject(rejectRepeated)
		default:
			list = append(list, p)
		}
	}
	return list
}

func withLeader(p *kmsg.MetadataResponseTopicPartition) Partition {
	return Partition{Number: p.Partition, Leader: max(p.Leader, -1), LeaderEpoch: max(p.LeaderEpoch, -1),
		LogStart: -1, LocalStart: -1, HighWatermark: -1, LastStable: -1, LatestTiered: -1}
}

func isUnchanged(old Partition, p kmsg.MetadataResponseTopicPartition) bool {
	return old.Number == p.Partition && old.Leader == p.Leader && old.LeaderEpoch == p.LeaderEpoch && old.BoundsAt.IsZero() &&
		old.Lineage == nil && !old.LineagePending
}

// updateWatched keeps state for the watched partitions that exist now, and updates their leaders.
func (r *rounds) updateWatched(v *View, watched map[segment.UUID]string) {
	topics := make(map[segment.UUID]map[int32]*partition, len(watched))
	for i := range v.Topics {
		t := &v.Topics[i]
		if _, ok := watched[t.ID]; !ok {
			continue
		}
		known := r.topics[t.ID]
		parts := make(map[int32]*partition, len(t.Partitions))
		for _, m := range t.Partitions {
			p := known[m.Number]
			if p == nil {
				p = &partition{now: Partition{Number: m.Number, Leader: -1, LeaderEpoch: -1, LogStart: -1, LocalStart: -1, HighWatermark: -1,
					LastStable: -1, LatestTiered: -1}, leader: Leader{Broker: -1, Epoch: -1}, boundsEpoch: -1, lineage: lineage{epoch: -1}}
			}
			p.topic = t.Name
			p.updateLeader(&m, r.metrics.reject)
			parts[m.Number] = p
		}
		topics[t.ID] = parts
	}
	r.topics = topics
}

// updateLeader takes over what Metadata says of the leader.
func (p *partition) updateLeader(m *Partition, reject func(reason string)) {
	p.leader.update(m.Leader, m.LeaderEpoch, reject)
	p.now.Leader, p.now.LeaderEpoch = p.leader.Broker, p.leader.Epoch
}

// byLeader gives the watched partitions of each broker. Partitions without a leader count as unanswered, and so do
// those of denied topics, for which leaders would not answer either.
func (r *rounds) byLeader() map[int32][]*partition {
	brokers := map[int32][]*partition{}
	for id, parts := range r.topics {
		if m := r.missing[id]; m != nil && m.why == TopicDenied {
			r.unanswered += len(parts)
			r.refused += len(parts)
			continue
		}
		for _, p := range parts {
			if p.now.Leader < 0 {
				r.unanswered++
				r.noteFailure(&Error{Kind: Unreachable, Op: fmt.Sprintf("partition %s-%d", p.topic, p.now.Number), Err: kerr.LeaderNotAvailable})
				continue
			}
			brokers[p.now.Leader] = append(brokers[p.now.Leader], p)
		}
	}
	return brokers
}

// countWatched counts the watched partitions, for a round without any answer. A topic that was never seen counts as
// one.
func (r *rounds) countWatched(watched map[segment.UUID]string) (n int) {
	for id := range watched {
		if m := r.missing[id]; m == nil || m.why != TopicGone {
			n += max(1, len(r.topics[id]))
		}
	}
	return n
}

// noteFailure keeps the round's first.
func (r *rounds) noteFailure(err error) {
	if r.firstFailure == nil {
		r.firstFailure = err
	}
}

// fillView puts the watched partitions into the View, and clears the bounds of topics that are no longer watched. soon
// says that a lineage is pending and has not been so for long: the next round should follow at once.
func (r *rounds) fillView(v *View) (soon bool) {
	for i := range v.Topics {
		t := &v.Topics[i]
		parts, watched := r.topics[t.ID]
		if !watched {
			if slices.ContainsFunc(t.Partitions, func(p Partition) bool { return !p.BoundsAt.IsZero() || p.Lineage != nil || p.LineagePending }) {
				t.Partitions = withoutBounds(t.Partitions)
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
			soon = soon || p.pending > 0 && p.pending <= quickRounds && now.Leader >= 0
			list = append(list, now)
		}
		t.Partitions = list
	}
	return soon
}

// withoutBounds gives the partitions of a topic that was kept from the View before and is no longer watched.
func withoutBounds(list []Partition) []Partition {
	list = slices.Clone(list)
	for i := range list {
		p := &list[i]
		*p = Partition{Number: p.Number, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
			LogStart: -1, LocalStart: -1, HighWatermark: -1, LastStable: -1, LatestTiered: -1}
	}
	return list
}
