package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxWalk is how many answers a lineage may take, one per leader epoch that wrote. What lies below is left to readers
	// of the View, who derive it from the segments' metadata.
	maxWalk = 1000
	// stepsPerRound is how many of them one round takes, and walkTimeout how long, so that a View does not wait for a
	// thousand round trips. No step begins in the second half of walkTimeout, so that each has at least that half.
	stepsPerRound = 100
	walkTimeout   = time.Second
	// quickRounds is how many rounds follow at once while a lineage is pending, since its partition cannot be read
	// meanwhile.
	quickRounds = 10
)

// lineage is what is known of the leader epochs that wrote a partition, and the walk that finds more.
//
// A walk goes down from the newest epoch: asked for an epoch, the leader gives the largest epoch up to it that wrote,
// and its end offset, which is where the next higher epoch that wrote begins. Asked below the first epoch it knows, it
// gives the epoch asked and that first one's start (LeaderEpochFileCache.endOffsetFor, KIP-279, KIP-320). It ends when
// an end offset is not above the log start, and early at an epoch that was known before: two logs that both hold
// records of one epoch are equal up to that epoch's start. An answer that is undefined (epoch -1) ends the walk, and
// the next round starts a new one: the leader has no epochs of its log, as with old message formats. Until it has, what
// was known before stays below the end of its log.
//
// The start of the first epoch that wrote after a prefix of records older than message format v2 is where they end; if
// that epoch is 0 it is taken to begin at the log start, since there is no epoch below to ask for.
type lineage struct {
	// entries ascend. The last is that of the leader epoch under which they were asked for, even while that has written
	// nothing: it begins at the end of the log that its leader found, and may write at any time.
	entries []segment.EpochStart
	epoch   int32 // the leader epoch under which entries were asked for; -1 = there are none
	known   bool  // the walk under epoch found all that can be known
	walk    *walk // the one under way
}

// shown gives the entries for a View: those from the one that holds the log start on. The leader's own is one of them
// even while it has written nothing: it says where the log ends that its leader found, and what another leader wrote
// beyond is lost.
//
// pending says that the lineage of the present leader epoch is not known yet. After an unclean election its log may
// diverge anywhere from what was known before, so nothing of older epochs counts: the present epoch is shown from the
// log start on, as if it had written the whole log. What was known before stays while the log cannot have changed:
// while there is no leader, or the broker answers that it is not yet the leader of this epoch. For a partition that was
// never seen before the list is nil until its leader answers for the bounds.
func (l *lineage) shown(p *partition, at time.Time) (list []segment.EpochStart, pending bool) {
	now := &p.now
	list = l.entries
	if now.LeaderEpoch >= 0 && l.epoch != now.LeaderEpoch {
		pending = true
		if !p.unknownEpoch && now.Leader >= 0 && (l.epoch >= 0 || now.BoundsAt.Equal(at)) {
			return []segment.EpochStart{{Epoch: now.LeaderEpoch, StartOffset: max(now.LogStart, 0)}}, true
		}
	}
	for len(list) > 1 && list[1].StartOffset <= now.LogStart {
		list = list[1:]
	}
	if len(list) == 0 {
		return nil, pending
	}
	return slices.Clip(list), pending
}

// due says whether the leader has to be asked.
func (l *lineage) due(p *Partition) bool {
	return p.LeaderEpoch >= 0 && p.LogStart >= 0 && (!l.known || l.epoch != p.LeaderEpoch)
}

// walk is one walk down in progress.
type walk struct {
	under  int32 // the leader epoch
	found  []segment.EpochStart
	first  bool  // nothing is answered yet
	epoch  int32 // the lowest one answered; its start is what is looked for
	end    int64 // its end offset
	asked  int32
	steps  int
	status walkStatus
}

type walkStatus uint8

const (
	walking walkStatus = iota
	walkDone
	walkTooDeep
	walkUndefined
	walkNonsense
)

func newWalk(under int32) *walk { return &walk{under: under, first: true, asked: under} }

// answer takes one answer. old are the entries known before, ascending.
func (w *walk) answer(epoch int32, end, logStart int64, old []segment.EpochStart) {
	w.steps++
	w.status = w.next(epoch, end, logStart, old)
	if w.status != walking {
		slices.Reverse(w.found)
		return
	}
	w.asked = w.epoch - 1
	if w.asked < 0 {
		w.found = append(w.found, segment.EpochStart{Epoch: w.epoch, StartOffset: min(logStart, w.end)})
		slices.Reverse(w.found)
		w.status = walkDone
		return
	}
	if w.steps >= maxWalk {
		slices.Reverse(w.found)
		w.status = walkTooDeep
	}
}

func (w *walk) next(epoch int32, end, logStart int64, old []segment.EpochStart) walkStatus {
	if epoch == -1 && end == -1 {
		return walkUndefined
	}
	if epoch < 0 || epoch > w.asked || end < 0 || end > largestOffset {
		return walkNonsense
	}
	if w.first {
		w.first = false
		w.epoch, w.end = epoch, end
		switch {
		case end <= logStart: // the log is empty, and what comes next is written in the present epoch
			w.found = append(w.found, segment.EpochStart{Epoch: w.under, StartOffset: logStart})
			return walkDone
		case epoch < w.under:
			w.found = append(w.found, segment.EpochStart{Epoch: w.under, StartOffset: end})
		}
		return walking
	}
	switch {
	case end > w.end:
		return walkNonsense
	case end == w.end && w.epoch != w.under:
		return walkDone // w.epoch was an echo: the answer to a question below the first epoch
	}
	w.found = append(w.found, segment.EpochStart{Epoch: w.epoch, StartOffset: end})
	w.epoch, w.end = epoch, end
	if end <= logStart {
		return walkDone
	}
	if i, ok := slices.BinarySearchFunc(old, epoch, func(e segment.EpochStart, epoch int32) int { return int(int64(e.Epoch) - int64(epoch)) }); ok &&
		old[0].StartOffset <= logStart && old[i].StartOffset < end {
		for ; i >= 0; i-- {
			w.found = append(w.found, old[i])
		}
		return walkDone
	}
	return walking
}

// undefined gives the entries when the leader has no epochs of its log: what was known below the end of it, which is
// where the present epoch begins if it has written nothing. nil: the end is not known either.
func (w *walk) undefined(p *Partition, old []segment.EpochStart) []segment.EpochStart {
	end := w.end
	if w.first {
		if p.HighWatermark < 0 || p.HighWatermark > p.LogStart {
			return nil
		}
		end = p.LogStart // the log is empty
	}
	var list []segment.EpochStart
	for _, e := range old {
		if e.Epoch < w.under && e.StartOffset < end {
			list = append(list, e)
		}
	}
	return append(list, segment.EpochStart{Epoch: w.under, StartOffset: end})
}

// walkLineages asks for the lineages that are due, all partitions of a broker in one request, if the leader answered
// for the bounds in the round of at. more says that walks are not finished.
func (r *rounds) walkLineages(ctx context.Context, at time.Time) (more bool) {
	walking := map[int32][]*partition{}
	for _, parts := range r.topics {
		for _, p := range parts {
			if !p.now.BoundsAt.Equal(at) && !p.offsetsPendingAt.Equal(at) {
				continue
			}
			if !p.lineage.due(&p.now) {
				p.lineage.walk = nil
				continue
			}
			if p.lineage.walk == nil || p.lineage.walk.under != p.now.LeaderEpoch {
				p.lineage.walk = newWalk(p.now.LeaderEpoch)
			}
			walking[p.now.Leader] = append(walking[p.now.Leader], p)
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, walkTimeout)
	defer cancel()
	for range stepsPerRound {
		if len(walking) == 0 {
			return false
		}
		if time.Since(began) > walkTimeout/2 {
			return true
		}
		answers := make(map[int32]*epochAnswers, len(walking))
		for broker, parts := range walking {
			answers[broker] = &epochAnswers{list: make([]epochAnswer, len(parts))}
		}
		perBroker(walking, func(broker int32, parts []*partition) {
			answers[broker].err = r.epochsFrom(ctx, broker, parts, answers[broker].list)
		})
		next := map[int32][]*partition{}
		for broker, parts := range walking {
			got := answers[broker]
			for i, p := range parts {
				err := got.err
				if err == nil {
					err = got.list[i].err
				}
				if errors.Is(err, errOldEpochs) || errors.Is(err, kerr.UnsupportedVersion) { // the broker never knows
					r.noteFailure(err)
					got.list[i], err = epochAnswer{epoch: -1, end: -1}, nil
				}
				if err != nil { // the walk goes on from here in the next round
					r.unanswered++
					r.noteFailure(asError(fmt.Sprintf("leader epochs of %s-%d at broker %d", p.topic, p.now.Number, broker), err))
					continue
				}
				if r.advance(p, got.list[i]) {
					next[broker] = append(next[broker], p)
				}
			}
		}
		walking = next
	}
	return len(walking) > 0
}

// advance gives an answer to a partition's walk, and says whether the walk goes on.
func (r *rounds) advance(p *partition, got epochAnswer) bool {
	l := &p.lineage
	w := l.walk
	w.answer(got.epoch, got.end, p.now.LogStart, l.entries)
	switch w.status {
	case walking:
		return true
	case walkDone:
		l.entries, l.epoch, l.known = w.found, w.under, true
	case walkTooDeep:
		r.log.Warn("a partition has too many leader epochs: the older ones come from the segments", "topic", p.topic,
			"partition", p.now.Number, "leader_epoch", w.under, "asked", w.steps)
		l.entries, l.epoch, l.known = w.found, w.under, true
	case walkUndefined:
		// What older epochs wrote stays unreadable where not even the end of the leader's log is known.
		if list := w.undefined(&p.now, l.entries); list != nil || !l.isOlder(w.under) {
			l.entries, l.epoch, l.known = list, w.under, false
		}
	case walkNonsense:
		r.metrics.reject(rejectLineage)
		if !l.isOlder(w.under) {
			l.entries, l.epoch, l.known = nil, w.under, false
		}
	}
	l.walk = nil
	return false
}

// isOlder says that a lineage of epochs below one is known. It is not dropped for an undefined or impossible answer.
func (l *lineage) isOlder(epoch int32) bool {
	n := len(l.entries)
	return n > 0 && l.entries[n-1].Epoch < epoch
}

type epochAnswers struct {
	list []epochAnswer
	err  error // of the request
}

type epochAnswer struct {
	epoch int32
	end   int64
	err   error
}

var errOldEpochs = &Error{Kind: Answer, Op: "leader epochs", Err: errors.New("the broker's protocol is older than Kafka 2.0")}

// epochsFrom asks one broker for the next step of each partition's walk.
func (r *rounds) epochsFrom(ctx context.Context, broker int32, parts []*partition, answers []epochAnswer) error {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	of := targetsOf(parts)
	for topic, indexes := range of.byTopic {
		rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
		rt.Topic = topic
		for _, i := range indexes {
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = of.list[i].number, of.list[i].epoch, parts[i].lineage.walk.asked
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := ask[*kmsg.OffsetForLeaderEpochResponse](ctx, r.brokers, broker, req)
	if err != nil {
		return err
	}
	if resp.Version < 1 {
		return errOldEpochs
	}
	for i := range answers {
		answers[i].err = errNotAnswered
	}
	for i, p := range match(of, resp.Topics, func(t *kmsg.OffsetForLeaderEpochResponseTopic) (string, []kmsg.OffsetForLeaderEpochResponseTopicPartition) {
		return t.Topic, t.Partitions
	}, func(p *kmsg.OffsetForLeaderEpochResponseTopicPartition) int32 { return p.Partition }, r.metrics.reject) {
		answers[i] = epochAnswer{epoch: p.LeaderEpoch, end: p.EndOffset, err: kerr.ErrorForCode(p.ErrorCode)}
	}
	return nil
}
