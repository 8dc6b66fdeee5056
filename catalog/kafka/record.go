package kafka

import (
	"strconv"

	"coldtap/tier"
)

// Record is one of *Segment, *Update, *PartitionDelete and *Snapshot.
type Record interface{ record() }

// Segment is a RemoteLogSegmentMetadataRecord: a copy begins. On the topic its State is CopyStarted.
type Segment struct{ tier.Segment }

// Update is a RemoteLogSegmentMetadataUpdateRecord: a segment's next step. Custom replaces what was known, null too.
type Update struct {
	Topic string
	tier.SegmentUpdated
}

// PartitionDelete is a RemotePartitionDeleteMetadataRecord: a partition is being deleted, or is gone. Brokers read it
// and, as of Kafka 4.3, none writes it.
type PartitionDelete struct {
	Topic     string
	Partition tier.PartitionID
	BrokerID  int32
	EventTime int64 // ms
	State     PartitionState
}

// Snapshot is a RemoteLogSegmentMetadataSnapshotRecord: a whole segment in any state, from a broker's cache file. It
// names no topic or partition, and means nothing on the topic.
type Snapshot struct{ tier.Segment }

func (*Segment) record()         {}
func (*Update) record()          {}
func (*PartitionDelete) record() {}
func (*Snapshot) record()        {}

// PartitionState is how far the deletion of a partition has come (RemotePartitionDeleteState).
type PartitionState int8

const (
	DeleteMarked PartitionState = iota
	DeleteStarted
	DeleteFinished
)

var partitionStateNames = [...]string{
	DeleteMarked: "DELETE_PARTITION_MARKED", DeleteStarted: "DELETE_PARTITION_STARTED", DeleteFinished: "DELETE_PARTITION_FINISHED",
}

// String gives Kafka's name of the state.
func (s PartitionState) String() string {
	if s < DeleteMarked || s > DeleteFinished {
		return "PartitionState(" + strconv.Itoa(int(s)) + ")"
	}
	return partitionStateNames[s]
}

// Changes appends what brokers do when they read r (RemotePartitionMetadataStore, RemoteLogMetadataCache): a segment is
// added or moved on, and a partition whose deletion has finished is forgotten. A deletion that is under way, an unknown
// state of one, and a Snapshot change nothing. What the tier's state forbids, such as an update of an unknown
// segment, its Apply drops and reports.
//
// The changes share r's slices.
func Changes(dst []tier.Change, r Record) []tier.Change {
	switch r := r.(type) {
	case *Segment:
		return append(dst, tier.SegmentAdded{Segment: r.Segment})
	case *Update:
		return append(dst, r.SegmentUpdated)
	case *PartitionDelete:
		if r.State == DeleteFinished {
			return append(dst, tier.PartitionForgotten{Partition: r.Partition})
		}
	}
	return dst
}
