package tier

import (
	"time"

	"coldtap/segment"
)

// Bounds are a partition's limits. -1 = unknown.
type Bounds struct {
	Start         int64 // tier start (log start): first readable offset; -1 = derive from the first segment
	LocalStart    int64 // first offset the brokers hold
	HighWatermark int64
	LastStable    int64
}

var unknownBounds = Bounds{Start: -1, LocalStart: -1, HighWatermark: -1, LastStable: -1}

// BoundsState says how far a partition's bounds in a view can be relied on.
type BoundsState uint8

const (
	BoundsCertain BoundsState = iota // what the catalog's store says is all there is, or the leader reported them just now
	BoundsStale                      // reported before, and the leader does not answer now; they are used on
	BoundsUnknown                    // not reported yet
	BoundsDenied                     // the cluster does not let them be asked for
)

// Certainty is a BoundsState and what there is to say about it.
type Certainty struct {
	State  BoundsState
	Since  time.Time // of BoundsStale: when the leader last answered
	Reason error     // why the bounds cannot be relied on; nil when they can: BoundsCertain and BoundsStale. A pointer
}

// TopicCertainty is the Certainty of a topic's partitions, of those too that the tier holds nothing of. It is
// immutable once a change has it.
type TopicCertainty struct {
	All    Certainty
	Except map[int32]Certainty // partitions of which something else is to be said
}

var allCertain = &TopicCertainty{}

func (t *TopicCertainty) of(partition int32) Certainty {
	if c, ok := t.Except[partition]; ok {
		return c
	}
	return t.All
}

// certainties are the topics of which CertaintyChanged said something; the zero id stands for all others. A map that is
// in a snapshot is never written to.
type certainties map[segment.UUID]*TopicCertainty

func (all certainties) topic(id segment.UUID) *TopicCertainty {
	if t := all[id]; t != nil {
		return t
	}
	if t := all[segment.UUID{}]; t != nil {
		return t
	}
	return allCertain
}
