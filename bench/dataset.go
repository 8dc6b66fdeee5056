package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"coldtap/catalog"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// Spec says what a synthetic partition holds.
type Spec struct {
	Segments     int
	SegmentBytes int // a segment ends with the batch that reaches it
	BatchRecords int
	ValueBytes   int // of each record; keys are 16 bytes
}

// Dataset is one synthetic partition, tiered in the native layout.
type Dataset struct {
	Tier     *tier.Tier
	Segments []*tier.Segment
	Bytes    int64 // of all logs
	Records  int64
}

const (
	// Topic is the name of the synthetic topic; its only partition is 0.
	Topic     = "bench"
	clusterID = "YmVuY2hiZW5jaGJlbmNoYQ"
	epochMs   = 1_700_000_000_000 // timestamp of the first record; one millisecond a record
)

// lineage is the partition's only leader epoch.
var lineage = []segment.EpochStart{{Epoch: 0, StartOffset: 0}}

var topicID = segment.UUID{0: 0xbe, 1: 0x9c, 6: 0x40, 8: 0x80, 15: 1}

// Generate makes the partition's segments and puts them into a store.
func Generate(ctx context.Context, backend rangeio.Backend, spec Spec) (*Dataset, error) {
	layout := native.New(rangeio.NewClient(backend, rangeio.Config{}), "")
	d := &Dataset{Tier: tier.New()}
	partition := tier.PartitionID{Topic: topicID}
	changes := []tier.Change{
		tier.TopicSeen{ID: topicID, Name: Topic, At: epochMs},
		tier.LineageChanged{Partition: partition, Epochs: lineage},
		tier.BoundsChanged{Partition: partition, Bounds: tier.Bounds{LocalStart: -1, HighWatermark: -1, LastStable: -1}},
	}
	w := &logWriter{spec: spec}
	for i := range spec.Segments {
		log, files, last := w.segment()
		seg := tier.Segment{
			ID: segment.UUID{0: 0x5e, 1: byte(i), 2: byte(i >> 8), 6: 0x40, 8: 0x80}, Partition: partition, Topic: Topic,
			BaseOffset: w.base, EndOffset: last, MaxTimestamp: epochMs + last, EventTime: epochMs,
			Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: w.base}}, Size: int64(len(log)),
		}
		files.LeaderEpochs = segment.AppendEpochCheckpoint(nil, lineage)
		files.Snapshot = segment.AppendSnapshot(nil, nil)
		files.Decided = true
		sum := sha256.Sum256(log)
		if err := layout.Put(ctx, clusterID, &seg, bytes.NewReader(log), hex.EncodeToString(sum[:]), files); err != nil {
			return nil, err
		}
		seg.State = tier.CopyFinished
		changes = append(changes, tier.SegmentLoaded{Segment: seg})
		d.Bytes += int64(len(log))
		d.Records = last + 1
		w.base = last + 1
	}
	if rejected := d.Tier.Apply(changes...); len(rejected) > 0 {
		return nil, fmt.Errorf("synthetic metadata rejected: %s", rejected[0].Reason)
	}
	view, _ := d.Tier.Snapshot().Partition(partition)
	d.Segments = view.Segments(false)
	return d, nil
}

// Snapshot, Ready, Refresh and ClusterID make a Dataset a fetch.Source.
func (d *Dataset) Snapshot() *tier.Snapshot { return d.Tier.Snapshot() }

// Ready is always nil: the metadata is complete once Generate returns.
func (d *Dataset) Ready() error { return nil }

// Refresh has nothing to catch up with.
func (d *Dataset) Refresh(context.Context, tier.PartitionID) error { return nil }

// ClusterID is a constant.
func (d *Dataset) ClusterID() string { return clusterID }

// Publish records the dataset in a catalog, as an offloader would have.
func (d *Dataset) Publish(ctx context.Context, w catalog.Writer) error {
	if err := w.ClaimCluster(ctx, clusterID); err != nil {
		return err
	}
	if err := w.PutTopic(ctx, topicID, Topic); err != nil {
		return err
	}
	if err := w.PutPartition(ctx, d.Segments[0].Partition, 0, lineage); err != nil {
		return err
	}
	for _, seg := range d.Segments {
		started := *seg
		started.State = tier.CopyStarted
		if err := w.StartCopy(ctx, started); err != nil {
			return err
		}
		if err := w.FinishCopy(ctx, seg.Partition, seg.ID); err != nil {
			return err
		}
	}
	return nil
}
