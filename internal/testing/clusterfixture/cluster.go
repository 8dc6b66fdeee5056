package clusterfixture

import (
	"maps"
	"slices"
	"strconv"

	"coldtap/segment"
)

// Cluster is what the brokers reported of themselves once nothing changed any more.
type Cluster struct {
	ClusterID     string `json:"clusterId"`
	MetadataTopic struct {
		PartitionCount int32 `json:"partitionCount"`
		Records        int   `json:"records"`
	} `json:"metadataTopic"`
	Topics map[string]*Topic `json:"topics"`
}

// Topic is a topic that existed then; ids of topics deleted before are in the Notes.
type Topic struct {
	Name       string       `json:"-"`
	ID         segment.UUID `json:"topicId"`
	Partitions []*Partition `json:"partitions"`
	Notes      struct {
		FirstTopicID segment.UUID `json:"firstTopicId"` // of a re-created topic: what it was before
	} `json:"notes"`
}

// Partition is one partition as its leader described it. Offsets that end something are exclusive, but for
// LatestTiered.
type Partition struct {
	Topic             *Topic `json:"-"`
	Number            int32  `json:"partition"`
	Start             int64  `json:"logStartOffset"`
	LocalStart        int64  `json:"localLogStartOffset"`
	LatestTiered      int64  `json:"latestTieredOffset"` // inclusive, -1 = none
	HighWatermark     int64  `json:"highWatermark"`
	LastStable        int64  `json:"lastStableOffset"`
	MetadataPartition int32  `json:"metadataPartition"`
	LeaderEpochs      string `json:"leaderEpochCheckpoint"` // the file's content
}

// Name is the partition's name, e.g. "plain-0".
func (p *Partition) Name() string { return p.Topic.Name + "-" + strconv.Itoa(int(p.Number)) }

// Partitions lists every partition, by topic name and number.
func (f *Fixture) Partitions() []*Partition {
	var all []*Partition
	for _, name := range slices.Sorted(maps.Keys(f.Cluster.Topics)) {
		all = append(all, f.Cluster.Topics[name].Partitions...)
	}
	return all
}

// nameTopics sets the names and topics that the JSON has as keys.
func (c *Cluster) nameTopics() {
	for name, t := range c.Topics {
		t.Name = name
		for _, p := range t.Partitions {
			p.Topic = t
		}
	}
}
