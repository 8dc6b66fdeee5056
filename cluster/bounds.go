package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// boundKind is one of the offsets that bound a partition, in the order in which they are asked for (see the package's
// doc).
type boundKind uint8

const (
	logStart boundKind = iota
	localStart
	latestTiered
	lastStable
	highWatermark
	boundKinds
)

// boundRequests says how each is asked for. The version matters: an older broker takes -4 and -5 for points in time,
// and answers.
var boundRequests = [boundKinds]struct {
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

// largestOffset bounds what is believed, so that no sum of two offsets overflows.
const largestOffset = 1 << 62

// bounds is what a leader answered for a partition.
type bounds struct {
	offset   [boundKinds]int64 // -1: unknown
	answered [boundKinds]bool
	err      error // of the first kind that failed
}

// requestBounds asks the leaders for the bounds of their partitions. at is View.At of the round.
func (r *rounds) requestBounds(ctx context.Context, brokers map[int32][]*partition, at time.Time) {
	var mu sync.Mutex // guards r and the partitions
	perBroker(brokers, func(broker int32, parts []*partition) {
		ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
		defer cancel()
		answers := r.boundsFrom(ctx, broker, parts)
		mu.Lock()
		defer mu.Unlock()
		for i, p := range parts {
			b := &answers[i]
			p.unknownEpoch = false
			if !b.answered[logStart] || !b.answered[lastStable] || !b.answered[highWatermark] {
				p.unknownEpoch = errors.Is(b.err, kerr.UnknownLeaderEpoch)
				// Until the high watermark has reached the epoch's start, a leader answers neither for it nor for the last stable
				// offset (KIP-207), for 10 s and longer while a follower is dead. It answers for its leader epochs all the same.
				if b.answered[logStart] && (errors.Is(b.err, kerr.OffsetNotAvailable) || errors.Is(b.err, kerr.LeaderNotAvailable)) {
					p.offsetsPendingAt = at
				}
				r.unanswered++
				r.noteFailure(asError(fmt.Sprintf("list offsets of %s-%d at broker %d", p.topic, p.now.Number, broker), b.err))
				continue
			}
			p.setBounds(b, r.metrics.reject)
			p.now.BoundsAt = at
		}
	})
}

// boundsFrom asks one broker for the bounds of its partitions, one kind after the other. The answers are in the order
// of parts.
func (r *rounds) boundsFrom(ctx context.Context, broker int32, parts []*partition) []bounds {
	answers := make([]bounds, len(parts))
	for i := range answers {
		answers[i] = bounds{offset: [boundKinds]int64{-1, -1, -1, -1, -1}, err: errNotAnswered}
	}
	of := targetsOf(parts)
	offsets := make([]offsetAnswer, len(parts))
	version := int16(1)
	for kind := range boundKinds {
		if kind != logStart && version < boundRequests[kind].version {
			for i := range answers { // this broker never knows it, which is an answer
				answers[i].answered[kind] = true
			}
			continue
		}
		var err error
		version, err = r.brokers.listOffsets(ctx, broker, kind, of, offsets)
		for i := range answers {
			switch {
			case err != nil:
				answers[i].err = err
			case offsets[i].err == nil:
				answers[i].answered[kind], answers[i].offset[kind] = true, offsets[i].offset
			case !errors.Is(offsets[i].err, errNotAnswered):
				answers[i].err = offsets[i].err
			}
		}
		if err != nil {
			break
		}
	}
	return answers
}

func targetsOf(parts []*partition) *targets {
	list := make([]target, len(parts))
	for i, p := range parts {
		list[i] = target{topicPartition{p.topic, p.now.Number}, p.now.LeaderEpoch}
	}
	return newTargets(list)
}

// setBounds takes over what the leader of the present epoch answered, as far as it can be true. localStart and
// latestTiered stay as they were when the leader has not answered for them.
func (p *partition) setBounds(b *bounds, reject func(reason string)) {
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
