package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/segment"
	"coldtap/tier"
)

// TestRealRecords decodes every record of a real cluster's metadata topic: it says what Kafka's own decoder says, is
// written back as the same bytes, and lies in the partition in which it belongs.
func TestRealRecords(t *testing.T) {
	f := clusterfixture.Load(t)
	if len(f.Metadata) != f.Cluster.MetadataTopic.Records {
		t.Fatalf("%d records, want %d", len(f.Metadata), f.Cluster.MetadataTopic.Records)
	}
	for _, m := range f.Metadata {
		r, err := Decode(m.Value)
		if err != nil {
			t.Fatalf("record %d of partition %d: %v", m.Offset, m.Partition, err)
		}
		words, partition := describe(r)
		if words != m.Decoded {
			t.Errorf("record %d of partition %d is\n%s, Kafka says\n%s", m.Offset, m.Partition, words, m.Decoded)
		}
		if got := PartitionOf(partition, f.Cluster.MetadataTopic.PartitionCount); got != m.Partition {
			t.Errorf("record %d of partition %d belongs in %d", m.Offset, m.Partition, got)
		}
		back, err := appendRecord(nil, r)
		if err != nil || !slices.Equal(back, m.Value) {
			t.Errorf("record %d of partition %d is written as\n%x, want\n%x (%v)", m.Offset, m.Partition, back, m.Value, err)
		}
	}
	for _, p := range f.Partitions() {
		id := tier.PartitionID{Topic: p.Topic.ID, Partition: p.Number}
		if got := PartitionOf(id, f.Cluster.MetadataTopic.PartitionCount); got != p.MetadataPartition {
			t.Errorf("%s belongs in %d, the broker says %d", p.Name(), got, p.MetadataPartition)
		}
	}
}

// describe puts a record into the words of Kafka's toString.
func describe(r Record) (string, tier.PartitionID) {
	id := func(topic string, p tier.PartitionID, id segment.UUID) string {
		return fmt.Sprintf("RemoteLogSegmentId{topicIdPartition=%s:%s-%d, id=%s}", p.Topic, topic, p.Partition, id)
	}
	custom := func(b []byte) string {
		if b == nil {
			return "Optional.empty"
		}
		return fmt.Sprintf("Optional[%x]", b)
	}
	switch r := r.(type) {
	case *Segment:
		var epochs []string
		for _, e := range r.Epochs {
			epochs = append(epochs, fmt.Sprintf("%d=%d", e.Epoch, e.StartOffset))
		}
		return fmt.Sprintf("RemoteLogSegmentMetadata{remoteLogSegmentId=%s, startOffset=%d, endOffset=%d, brokerId=%d, maxTimestampMs=%d, "+
			"eventTimestampMs=%d, segmentLeaderEpochs={%s}, segmentSizeInBytes=%d, customMetadata=%s, state=%v, txnIdxEmpty=%t}",
			id(r.Topic, r.Partition, r.ID), r.BaseOffset, r.EndOffset, r.BrokerID, r.MaxTimestamp, r.EventTime,
			strings.Join(epochs, ", "), r.Size, custom(r.Custom), r.State, r.TxnIndexEmpty), r.Partition
	case *Update:
		return fmt.Sprintf("RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=%s, customMetadata=%s, state=%v, eventTimestampMs=%d, brokerId=%d}",
			id(r.Topic, r.Partition, r.ID), custom(r.Custom), r.State, r.At, r.BrokerID), r.Partition
	}
	return fmt.Sprintf("%T", r), tier.PartitionID{}
}
