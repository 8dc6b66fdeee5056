package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// boundKind is one of the offsets that bound a partition, in the order in which they are asked (see the package's doc).
type boundKind uint8

const (
	logStart boundKind = iota
	localStart
	latestTiered
	lastStable
	highWatermark
	boundKinds
)

// boundAsks says how each is asked. The version matters: an older broker takes -4 and -5 for points in time, and
// answers.
var boundAsks = [boundKinds]struct {
	timestamp int64
	isolation int8
	version   int16 // of ListOffsets, the lowest that has it
}{
	logStart:      {timestamp: -2, version: 1},
	localStart:    {timestamp: -4, version: 8}, // KIP-405
	latestTiered:  {timestamp: -5, version: 9}, // KIP-1005
	lastStable:    {timestamp: -1, isolation: 1, version: 2},
	highWatermark: {timestamp: -1, version: 1},
}

const (
	// largestOffset bounds what is believed, so that nobody's sum of two offsets overflows.
	largestOffset = 1 << 62
	// brokerPatience bounds what one broker may take of a round for the bounds, so that a dead one does not hold up the
	// others' answers. Who calls Refresh may wait for two rounds, and should get an answer within 5 s.
	brokerPatience = 2 * time.Second
)

// bounds is what a leader answered for a partition.
type bounds struct {
	offset   [boundKinds]int64 // -1: unknown
	answered [boundKinds]bool
	err      error // of the first kind that failed
}

// askBounds asks the leaders. at is the View's.
func (a *asker) askBounds(ctx context.Context, brokers map[int32][]*partition, at time.Time) {
	var mu sync.Mutex // guards the asker: what is taken over is counted there
	perBroker(brokers, func(broker int32, parts []*partition) {
		ctx, cancel := context.WithTimeout(ctx, brokerPatience)
		defer cancel()
		answers := a.boundsOf(ctx, broker, parts)
		mu.Lock()
		defer mu.Unlock()
		for i, p := range parts {
			b := &answers[i]
			p.waits = false
			if !b.answered[logStart] || !b.answered[lastStable] || !b.answered[highWatermark] {
				p.waits = errors.Is(b.err, kerr.UnknownLeaderEpoch)
				// Until the high watermark has reached the epoch's start, a leader tells neither it nor the last stable offset
				// (KIP-207), for 10 s and longer while a follower is dead. It tells its leader epochs all the same.
				if b.answered[logStart] && (errors.Is(b.err, kerr.OffsetNotAvailable) || errors.Is(b.err, kerr.LeaderNotAvailable)) {
					p.leadsAt = at
				}
				a.unanswered++
				a.failure(asError(fmt.Sprintf("list offsets of %s-%d at broker %d", p.topic, p.now.Number, broker), b.err))
				continue
			}
			p.adopt(b, a.metrics.reject)
			p.now.BoundsAt = at
		}
	})
}

var errNotAnswered = errors.New("not in the answer")

// boundsOf asks one broker for its partitions, kind after kind. The answers are in the order of parts.
func (a *asker) boundsOf(ctx context.Context, broker int32, parts []*partition) []bounds {
	answers := make([]bounds, len(parts))
	for i := range answers {
		answers[i] = bounds{offset: [boundKinds]int64{-1, -1, -1, -1, -1}, err: errNotAnswered}
	}
	index := indexOf(parts)
	version := int16(1)
	for kind := range boundKinds {
		ask := &boundAsks[kind]
		if kind != logStart && version < ask.version {
			for i := range answers { // unknown for good, which is an answer
				answers[i].answered[kind] = true
			}
			continue
		}
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		req.IsolationLevel = ask.isolation
		req.TimeoutMillis = int32(brokerPatience.Milliseconds())
		for _, name := range index.names {
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = name
			for number, i := range index.parts[name] {
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				rp.Partition = number
				rp.CurrentLeaderEpoch = parts[i].now.LeaderEpoch
				rp.Timestamp = ask.timestamp
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		raw, err := a.kafka.Broker(int(broker)).RetriableRequest(ctx, req)
		resp, ok := raw.(*kmsg.ListOffsetsResponse)
		if err == nil && !ok {
			err = &Error{Kind: Answer, Op: "list offsets"}
		}
		if err != nil {
			for i := range answers {
				answers[i].err = err
			}
			return answers
		}
		version = resp.Version
		if version < ask.version {
			continue
		}
		seen := make([]bool, len(parts))
		for ti := range resp.Topics {
			t := &resp.Topics[ti]
			for pi := range t.Partitions {
				rp := &t.Partitions[pi]
				i, ok := index.parts[t.Topic][rp.Partition]
				if !ok || seen[i] {
					a.metrics.reject(rejectRepeated)
					continue
				}
				seen[i] = true
				if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
					answers[i].err = err
					continue
				}
				answers[i].answered[kind] = true
				answers[i].offset[kind] = rp.Offset
			}
		}
	}
	return answers
}

// partIndex finds partitions of a request again in its answer.
type partIndex struct {
	names []string // each once
	parts map[string]map[int32]int
}

func indexOf(parts []*partition) partIndex {
	index := partIndex{parts: map[string]map[int32]int{}}
	for i, p := range parts {
		numbers := index.parts[p.topic]
		if numbers == nil {
			numbers = map[int32]int{}
			index.parts[p.topic] = numbers
			index.names = append(index.names, p.topic)
		}
		numbers[p.now.Number] = i
	}
	return index
}

// adopt takes over what the leader of the present epoch answered, as far as it can be true. A kind of tiered storage
// that was not answered alone (localStart, latestTiered) stays as it was.
func (p *partition) adopt(b *bounds, reject func(reason string)) {
	now := &p.now
	was := [boundKinds]int64{now.LogStart, now.LocalStart, now.LatestTiered, now.LastStable, now.HighWatermark}
	next := b.offset
	for kind := range boundKinds {
		switch {
		case !b.answered[kind]:
			next[kind] = was[kind]
		case next[kind] > largestOffset, next[kind] < -1, next[kind] == -1 && (kind == logStart || kind == highWatermark):
			reject(rejectRange)
			next[kind] = -1
		}
	}
	if p.boundsEpoch == now.LeaderEpoch {
		for _, kind := range [...]boundKind{logStart, lastStable, highWatermark} {
			if next[kind] >= 0 && next[kind] < was[kind] {
				reject(rejectBackwards)
				next[kind] = was[kind]
			}
		}
	}
	drop := func(kinds ...boundKind) {
		reject(rejectContradiction)
		for _, kind := range kinds {
			next[kind] = -1
		}
	}
	above := func(low, high boundKind) bool { return next[low] >= 0 && next[high] >= 0 && next[low] > next[high] }
	if above(lastStable, highWatermark) {
		drop(lastStable, highWatermark)
	}
	if above(logStart, highWatermark) {
		drop(logStart, highWatermark)
	}
	if above(logStart, lastStable) {
		drop(lastStable)
	}
	if above(logStart, localStart) || above(localStart, highWatermark) {
		drop(localStart)
	}
	if above(latestTiered, highWatermark) || next[latestTiered] >= 0 && next[latestTiered] == next[highWatermark] {
		drop(latestTiered) // inclusive below exclusive
	}
	now.LogStart, now.LocalStart, now.LatestTiered, now.LastStable, now.HighWatermark =
		next[logStart], next[localStart], next[latestTiered], next[lastStable], next[highWatermark]
	p.boundsEpoch = now.LeaderEpoch
}
