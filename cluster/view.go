package cluster

import (
	"time"

	"coldtap/segment"
)

// View is what the brokers answered in one round, and what is kept of the rounds before. It is immutable.
type View struct {
	ClusterID string
	At        time.Time // when the requests of the last full round were sent
	// Newest is when the last requests were sent: At, or later ones for the partitions that RefreshOnly was called for.
	Newest time.Time
	Topics []Topic // every topic of the cluster, internal ones included, sorted by name

	// Missing has the watched ids that the cluster's list of all topics left out, and why. A topic that was seen before
	// stays in Topics, as it was, unless it is TopicGone. An id that is in neither was not watched yet.
	Missing map[segment.UUID]Absence
}

// Topic is a topic that exists now. A topic that was deleted and created again under its name has another id.
type Topic struct {
	ID         segment.UUID
	Name       string
	Internal   bool
	Partitions []Partition // ascending
}

// Partition is one partition of a topic. Offsets are -1 and the lineage is nil while they are unknown: the topic is not
// watched, or no leader of the partition has ever answered.
type Partition struct {
	Number      int32
	Leader      int32 // broker id; -1 = none
	LeaderEpoch int32 // -1 = unknown

	LogStart      int64 // first offset that consumers may read, tiered ones included (ListOffsets -2)
	LocalStart    int64 // first offset that the brokers hold (ListOffsets -4)
	HighWatermark int64 // exclusive (ListOffsets -1, read_uncommitted)
	LastStable    int64 // exclusive (ListOffsets -1, read_committed)
	LatestTiered  int64 // inclusive (ListOffsets -5, KIP-1005); -1 also while the brokers have tiered nothing

	// BoundsAt is the View.Newest of the round in which the leader last answered for the five offsets above; zero = never.
	// It is older than View.At while the partition has no leader that answers.
	BoundsAt time.Time

	// Lineage lists the leader epochs that wrote records and where each began, ascending, from the one that holds
	// LogStart on (OffsetForLeaderEpoch, KIP-320). The last is the leader's own, even while it has written nothing: what
	// an older epoch wrote from there on is not in the log. nil: the leader does not know, or was never reached.
	Lineage []segment.EpochStart
	// LineagePending says that the leader of LeaderEpoch has not answered for the lineage yet. Lineage is then
	// {LeaderEpoch, LogStart}, since the log may have diverged anywhere from the known one; or the known one, while there
	// is no leader.
	LineagePending bool
}

// PartitionID names a partition of a topic.
type PartitionID struct {
	Topic     segment.UUID
	Partition int32
}

// Topic gives the topic of an id; false when the cluster has none now.
func (v *View) Topic(id segment.UUID) (*Topic, bool) {
	for i := range v.Topics {
		if v.Topics[i].ID == id {
			return &v.Topics[i], true
		}
	}
	return nil, false
}
