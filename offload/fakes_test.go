package offload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"coldtap/catalog"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

var errKilled = errors.New("killed")

// crashPoint lets a number of steps happen and then none: what a killed process leaves behind.
type crashPoint struct {
	steps int // taken so far
	limit int // 0 = no end
	names []string
}

func (l *crashPoint) step(name string) error {
	if l.limit > 0 && l.steps >= l.limit {
		return errKilled
	}
	l.steps++
	l.names = append(l.names, name)
	return nil
}

// fakeTier is a catalog and an object store that outlive the runs on them.
type fakeTier struct {
	crashPoint
	cluster string
	tier    *tier.Tier
	objects map[string]any // by key: the log's SHA-256, or the *segment.Files of a .meta

	putError func(seg *tier.Segment) error // an error of the store
}

func newFakeTier() *fakeTier {
	return &fakeTier{tier: tier.New(), objects: make(map[string]any)}
}

func (w *fakeTier) apply(name string, changes ...tier.Change) error {
	if err := w.step(name); err != nil {
		return err
	}
	if rejected := w.tier.Apply(changes...); len(rejected) > 0 {
		return &catalog.Error{Kind: catalog.Illegal, Op: name, Err: errors.New(rejected[0].Reason)}
	}
	return nil
}

func (w *fakeTier) ClaimCluster(_ context.Context, id string) error {
	if w.cluster != "" && w.cluster != id {
		return &catalog.Error{Kind: catalog.WrongCluster, Op: "claim", Err: errors.New(w.cluster)}
	}
	w.cluster = id
	return nil
}

func (w *fakeTier) PutTopic(_ context.Context, id segment.UUID, name string) error {
	return w.apply("topic", tier.TopicSeen{ID: id, Name: name, At: 1})
}

func (w *fakeTier) PutPartition(_ context.Context, id tier.PartitionID, start int64, lineage []segment.EpochStart) error {
	bounds := tier.Bounds{Start: start, LocalStart: -1, HighWatermark: -1, LastStable: -1}
	if p, ok := w.tier.Snapshot().Partition(id); ok && p.Bounds().Start >= 0 {
		bounds.Start = p.Bounds().Start
	}
	return w.apply("partition", tier.BoundsChanged{Partition: id, Bounds: bounds}, tier.LineageChanged{Partition: id, Epochs: lineage})
}

func (w *fakeTier) StartCopy(_ context.Context, seg tier.Segment) error {
	return w.apply("start copy", tier.SegmentAdded{Segment: seg})
}

func (w *fakeTier) update(name string, p tier.PartitionID, id segment.UUID, state tier.State) error {
	change := tier.SegmentUpdated{Partition: p, ID: id, State: state, At: 2}
	if known, ok := w.Snapshot().Partition(p); ok {
		if s, ok := known.Segment(id); ok {
			change.BrokerID = s.BrokerID
		}
	}
	return w.apply(name, change)
}

func (w *fakeTier) FinishCopy(_ context.Context, p tier.PartitionID, id segment.UUID) error {
	return w.update("finish copy", p, id, tier.CopyFinished)
}

func (w *fakeTier) StartDelete(_ context.Context, p tier.PartitionID, id segment.UUID) error {
	return w.update("start delete", p, id, tier.DeleteStarted)
}

func (w *fakeTier) FinishDelete(_ context.Context, p tier.PartitionID, id segment.UUID) error {
	return w.update("finish delete", p, id, tier.DeleteFinished)
}

func (w *fakeTier) RecordHole(_ context.Context, p tier.PartitionID, hole tier.Hole) error {
	return w.apply("hole", tier.HoleRecorded{Partition: p, Hole: hole})
}

func (w *fakeTier) Snapshot() *tier.Snapshot { return w.tier.Snapshot() }
func (w *fakeTier) ClusterID() string        { return w.cluster }

func keyOf(seg *tier.Segment, suffix string) string {
	return fmt.Sprintf("%s/%d/%020d-%s%s", seg.Partition.Topic, seg.Partition.Partition, seg.BaseOffset, seg.ID, suffix)
}

func (w *fakeTier) Put(ctx context.Context, cluster string, seg *tier.Segment, log rangeio.Content, sum string, files *segment.Files) error {
	if w.putError != nil {
		if err := w.putError(seg); err != nil {
			return err
		}
	}
	if log.Size() != seg.Size {
		return fmt.Errorf("content has %d bytes, segment %d", log.Size(), seg.Size)
	}
	// Twice, as the native layout does.
	for range 2 {
		hash := sha256.New()
		if _, err := io.CopyBuffer(struct{ io.Writer }{hash}, io.NewSectionReader(log, 0, seg.Size), make([]byte, 32<<10)); err != nil {
			return err
		}
		if got := hex.EncodeToString(hash.Sum(nil)); got != sum {
			return fmt.Errorf("log has sum %s, announced was %s", got, sum)
		}
	}
	if err := w.step("put log"); err != nil {
		return err
	}
	w.objects[keyOf(seg, ".log")] = sum
	if err := w.step("put meta"); err != nil {
		return err
	}
	w.objects[keyOf(seg, ".meta")] = files
	return nil
}

func (w *fakeTier) Delete(_ context.Context, seg *tier.Segment) error {
	for _, suffix := range []string{".meta", ".log"} {
		if err := w.step("delete " + suffix); err != nil {
			return err
		}
		delete(w.objects, keyOf(seg, suffix))
	}
	return nil
}

func (w *fakeTier) Unknown(_ context.Context, topic string, id tier.PartitionID, known func(layout.Name) bool) (*tier.Segment, error) {
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		var n layout.Name
		rest, ok := strings.CutPrefix(key, fmt.Sprintf("%s/%d/", id.Topic, id.Partition))
		if stem, isMeta := strings.CutSuffix(rest, ".meta"); ok && isMeta {
			fmt.Sscanf(stem[:20], "%d", &n.BaseOffset)
			n.ID, _ = segment.ParseUUID(stem[21:])
			if !known(n) {
				return &tier.Segment{ID: n.ID, BaseOffset: n.BaseOffset}, nil
			}
		}
	}
	return nil, nil
}

// files gives what travelled with a segment.
func (w *fakeTier) files(t testing.TB, seg *tier.Segment) *segment.Files {
	t.Helper()
	f, ok := w.objects[keyOf(seg, ".meta")].(*segment.Files)
	if !ok {
		t.Fatalf("segment %s at %d has no .meta", seg.ID, seg.BaseOffset)
	}
	return f
}

// partition finds a partition by topic name.
func (w *fakeTier) partition(t testing.TB, topic string, n int32) *tier.Partition {
	t.Helper()
	top, ok := w.Snapshot().TopicByName(topic)
	if !ok {
		t.Fatalf("the catalog has no topic %s", topic)
	}
	p, ok := w.Snapshot().Partition(tier.PartitionID{Topic: top.ID, Partition: n})
	if !ok {
		t.Fatalf("the catalog has no partition %s-%d", topic, n)
	}
	return p
}

// describe gives everything that a run should leave behind, without the ids that it draws.
func (w *fakeTier) describe() string {
	var lines []string
	objects := maps.Clone(w.objects)
	for _, topic := range w.Snapshot().Topics() {
		for _, n := range topic.Partitions {
			p, _ := w.Snapshot().Partition(tier.PartitionID{Topic: topic.ID, Partition: n})
			name := fmt.Sprintf("%s-%d", topic.Name, n)
			lines = append(lines, fmt.Sprintf("%s start %d end %d lineage %v holes %v", name, p.Bounds().Start, p.TieredEnd(), p.Lineage(), p.Holes()))
			for _, s := range p.Segments(true) {
				line := fmt.Sprintf("%s %d..%d %v size %d max %d epochs %v broker %d noaborts %v", name, s.BaseOffset, s.EndOffset,
					s.State, s.Size, s.MaxTimestamp, s.Epochs, s.BrokerID, s.TxnIndexEmpty)
				for _, suffix := range []string{".log", ".meta"} {
					switch o := objects[keyOf(s, suffix)].(type) {
					case nil:
						line += " no " + suffix
					case string:
						line += " log " + o
					case *segment.Files:
						line += fmt.Sprintf(" files %x", sha256.Sum256(fmt.Appendf(nil, "%v", *o)))
					}
					delete(objects, keyOf(s, suffix))
				}
				lines = append(lines, line)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		lines = append(lines, "orphan "+key)
	}
	return strings.Join(lines, "\n")
}

func (w *fakeTier) config(dirs ...string) Config {
	return Config{LogDirs: dirs, Catalog: w, Layout: w}
}

// offload runs once and expects no error of the run as a whole.
func (w *fakeTier) offload(t testing.TB, cfg Config) Report {
	t.Helper()
	report, err := Once(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// of finds a partition's report.
func of(t testing.TB, r Report, topic string, partition int32) *PartitionReport {
	t.Helper()
	for i := range r.Partitions {
		if p := &r.Partitions[i]; p.Topic == topic && p.Partition == partition {
			return p
		}
	}
	t.Fatalf("no report of %s-%d", topic, partition)
	return nil
}

// reasons lists a report's leftovers in one line.
func (p *PartitionReport) reasons() string {
	var list []string
	for _, l := range p.Left {
		list = append(list, fmt.Sprintf("%d..%d %s", l.Base, l.End, l.Reason))
	}
	return strings.Join(list, "; ")
}
