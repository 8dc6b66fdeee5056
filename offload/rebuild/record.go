package rebuild

import (
	"context"
	"fmt"
	"slices"
	"time"

	"coldtap/catalog"
	"coldtap/segment"
	"coldtap/tier"
)

// Record writes contents into a catalog: one that is empty, or one that holds nothing else, such as what an interrupted
// Record left. Anything else is refused with *Error of kind Occupied before the first step. progress gets
// how many segments are recorded of all; it may be nil.
func Record(ctx context.Context, into catalog.Writer, c *Contents, progress func(recorded, all int)) error {
	if err := c.checkCatalog(into); err != nil {
		return err
	}
	if err := into.ClaimCluster(ctx, c.ClusterID); err != nil {
		return err
	}
	known := into.Snapshot()
	all, _ := c.Segments()
	recorded := 0
	names := make(map[string]segment.UUID)
	for i := range c.Partitions {
		p := &c.Partitions[i]
		if before, ok := names[p.Topic]; ok && before != p.ID.Topic {
			// The newest event decides what the name means, and events of one millisecond are equally new.
			if err := nextMillisecond(ctx); err != nil {
				return err
			}
		}
		names[p.Topic] = p.ID.Topic
		if err := into.PutTopic(ctx, p.ID.Topic, p.Topic); err != nil {
			return err
		}
		before, _ := known.Partition(p.ID)
		if before == nil || !continues(before.Lineage(), p.Lineage) {
			if err := into.PutPartition(ctx, p.ID, p.Start, p.Lineage); err != nil {
				return err
			}
		}
		for j := range p.Segments {
			if err := record(ctx, into, before, &p.Segments[j]); err != nil {
				return err
			}
			if recorded++; progress != nil {
				progress(recorded, all)
			}
		}
	}
	return nil
}

func record(ctx context.Context, into catalog.Writer, before *tier.Partition, seg *tier.Segment) error {
	if before.HasFinished(seg.ID) {
		return nil
	}
	started := *seg
	started.State = tier.CopyStarted
	if err := into.StartCopy(ctx, started); err != nil {
		return err
	}
	return into.FinishCopy(ctx, seg.Partition, seg.ID)
}

// continues says whether a recorded lineage begins with the bucket's: it may go further, where the broker's log did.
func continues(recorded, lineage []segment.EpochStart) bool {
	return len(recorded) >= len(lineage) && slices.Equal(recorded[:len(lineage)], lineage)
}

// checkCatalog refuses a catalog that holds what the bucket does not.
func (c *Contents) checkCatalog(into catalog.Writer) error {
	if id := into.ClusterID(); id != "" && id != c.ClusterID {
		return refuse(Occupied, "the metadata belongs to cluster %s, the bucket to %s", id, c.ClusterID)
	}
	inBucket := make(map[tier.PartitionID]*Partition, len(c.Partitions))
	for i := range c.Partitions {
		inBucket[c.Partitions[i].ID] = &c.Partitions[i]
	}
	for recorded := range into.Snapshot().Partitions() {
		p := inBucket[recorded.ID()]
		if p == nil {
			return refuse(Occupied, "the metadata holds partition %d of topic %s, of which the bucket has nothing", recorded.ID().Partition, recorded.ID().Topic)
		}
		partition := fmt.Sprintf("partition %s-%d", p.Topic, p.ID.Partition)
		if start := recorded.Bounds().Start; start >= 0 && start != p.Start {
			return refuse(Occupied, "the metadata says that %s starts at %d, the bucket says %d", partition, start, p.Start)
		}
		if len(recorded.Holes()) > 0 {
			return refuse(Occupied, "the metadata of %s holds holes, of which the bucket does not tell", partition)
		}
		segments := make(map[segment.UUID]*tier.Segment, len(p.Segments))
		for i := range p.Segments {
			segments[p.Segments[i].ID] = &p.Segments[i]
		}
		for _, s := range recorded.Segments(true) {
			switch same := segments[s.ID]; {
			case same == nil:
				return refuse(Occupied, "the metadata holds segment %s of %s, of which the bucket has nothing whole", s.ID, partition)
			case s.State > tier.CopyFinished:
				return refuse(Occupied, "the metadata says that segment %s of %s is %v", s.ID, partition, s.State)
			case s.BaseOffset != same.BaseOffset || s.EndOffset != same.EndOffset || s.Size != same.Size || !slices.Equal(s.Epochs, same.Epochs):
				return refuse(Occupied, "the metadata says that segment %s of %s has offsets %d to %d in %d bytes, the bucket says %d to %d in %d",
					s.ID, partition, s.BaseOffset, s.EndOffset, s.Size, same.BaseOffset, same.EndOffset, same.Size)
			}
		}
	}
	return nil
}

// nextMillisecond waits until the clock shows another one.
func nextMillisecond(ctx context.Context) error {
	select {
	case <-time.After(2 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
