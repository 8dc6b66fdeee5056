package aiven

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	// scanMemory bounds the manifests that are being read. Honest ones have 1 to 2 KiB and never wait; a hostile one of
	// 6 MiB takes about four times its length while it is parsed, so that two of them fit.
	scanMemory = 64 << 20
	scanFactor = 4
	// maxCheckpoint bounds a leader-epoch checkpoint, in stored bytes: 32 for each of maxEpochs.
	maxCheckpoint = 32 * maxEpochs
)

// Prefixes leaves out prefixes that begin with another one, whose listing holds their objects too.
func (l *Layout) Prefixes() []string { return l.roots("") }

// PartitionPrefixes are the partition's folders, one under each of the prefixes.
func (l *Layout) PartitionPrefixes(topic string, id tier.PartitionID) []string {
	if !segment.LegalTopic(topic) || id.Topic.IsZero() || id.Partition < 0 {
		return nil
	}
	return l.roots(folder(topic, id))
}

// roots puts each of the prefixes before a folder, and leaves out results that begin with another one.
func (l *Layout) roots(folder string) []string {
	var roots []string
	for _, p := range slices.Backward(l.longestFirst) {
		if !slices.ContainsFunc(roots, func(r string) bool { return strings.HasPrefix(p+folder, r) }) {
			roots = append(roots, p+folder)
		}
	}
	return roots
}

// Classify cuts the key at the longest prefix that leaves one of the plugin's.
func (l *Layout) Classify(key string) (layout.Part, layout.Name) {
	for _, prefix := range l.longestFirst {
		k, err := ParseKey(key, prefix)
		if err != nil {
			continue
		}
		part := map[string]layout.Part{
			SuffixLog: layout.LogPart, SuffixIndexes: layout.FilesPart, SuffixManifest: layout.ManifestPart,
		}[k.Suffix]
		return part, layout.Name{
			Prefix: prefix, Topic: k.Topic, Partition: tier.PartitionID{Topic: k.TopicID, Partition: k.Partition},
			BaseOffset: k.BaseOffset, ID: k.SegmentID,
		}
	}
	return layout.ForeignPart, layout.Name{}
}

// ReadManifest reads a .rsm-manifest with one GET. Those of before September 2023 are layout.ErrUndescribed: they don't
// say what they describe.
func (l *Layout) ReadManifest(ctx context.Context, o rangeio.Object) (*layout.Description, readcost.Cost, error) {
	fault := func(cost readcost.Cost, err error) (*layout.Description, readcost.Cost, error) {
		return nil, cost, &layout.Error{Object: o.Key, Err: err}
	}
	if o.Size > MaxManifest {
		return fault(readcost.Cost{}, fmt.Errorf("%d bytes, at most %d are allowed", o.Size, MaxManifest))
	}
	weight := scanFactor * max(o.Size, 1)
	if err := l.memory.Acquire(ctx, weight); err != nil {
		return nil, readcost.Cost{}, &rangeio.Error{Kind: rangeio.Canceled, Op: "get", Key: o.Key, Err: err}
	}
	defer l.memory.Release(weight)
	raw, _, cost, err := l.store.ReadObject(ctx, o.Key, max(o.Size, 1))
	if err != nil {
		return nil, cost, err
	}
	m, err := ParseManifest(raw)
	switch {
	case errors.Is(err, ErrVersion):
		return fault(cost, fmt.Errorf("%w: %w", layout.ErrVersion, err))
	case err != nil:
		return fault(cost, err)
	case m.Segment == nil:
		return fault(cost, layout.ErrUndescribed)
	}
	if !slices.ContainsFunc(l.longestFirst, func(p string) bool { return p+mainPath(m.Segment)+SuffixManifest == o.Key }) {
		return fault(cost, fmt.Errorf("%w: that is %s%s", layout.ErrMisplaced, mainPath(m.Segment), SuffixManifest))
	}
	d := &layout.Description{Segment: *m.Segment, LogSize: m.StoredSize, FilesSize: m.indexSize()}
	if m.separate {
		d.FilesSize = 0
	}
	return d, cost, nil
}

// ReadCheckpoint reads the manifest, which the segment's first reader needs as well, and of the small files nothing but
// the checkpoint: the indexes beside it can have megabytes. Its first entry is the log start.
func (l *Layout) ReadCheckpoint(
	ctx context.Context, seg *tier.Segment, _ int64) (*layout.Checkpoint, readcost.Cost, error) {
	if err := checkSegment(seg); err != nil {
		return nil, readcost.Cost{}, err
	}
	m, sum, err := l.manifest(ctx, seg)
	if err != nil {
		return nil, sum, err
	}
	stored, at, err := l.readStoredCheckpoint(ctx, seg, m, &sum)
	if err != nil {
		return nil, sum, err
	}
	raw, ok := m.openFile(stored)
	if !ok {
		return nil, sum, &layout.Error{Object: at, Err: fmt.Errorf("leader-epoch checkpoint: %w", errSeal)}
	}
	epochs, err := segment.ParseEpochCheckpoint(raw)
	if err == nil && len(epochs) == 0 {
		err = errors.New("leader-epoch checkpoint is empty")
	}
	if err != nil {
		return nil, sum, &layout.Error{Object: at, Err: err}
	}
	return &layout.Checkpoint{Epochs: epochs, Start: epochs[0].StartOffset}, sum, nil
}

// readStoredCheckpoint gives the checkpoint's stored bytes, and the key of the object that holds them.
func (l *Layout) readStoredCheckpoint(
	ctx context.Context, seg *tier.Segment, m *manifestEntry, sum *readcost.Cost) (stored []byte, key string, err error) {
	epochs, suffix := m.files[fileEpochs], SuffixIndexes
	if m.separate {
		suffix = separateSuffixes[fileEpochs]
	} else if epochs.size == 0 || epochs.size > maxCheckpoint {
		return nil, "", &layout.Error{Object: m.lastStem() + SuffixManifest,
			Err: fmt.Errorf("a leader-epoch checkpoint of %d bytes", epochs.size)}
	}
	err = tryStems(stems(seg, m.lastStem(), l.prefixesOf(seg)), func(stem string) (err error) {
		var cost readcost.Cost
		key = stem + suffix
		if m.separate {
			stored, _, cost, err = l.store.ReadObject(ctx, key, maxCheckpoint)
		} else {
			stored = make([]byte, epochs.size)
			_, cost, err = l.store.ReadRange(ctx, key, stored, epochs.position, "", m.indexSize())
		}
		sum.Add(cost)
		return err
	})
	return stored, key, err
}

// ReadStart is for other layouts: the plugin has no such objects.
func (l *Layout) ReadStart(_ context.Context, o rangeio.Object) (*layout.Start, readcost.Cost, error) {
	return nil, readcost.Cost{}, &layout.Error{Object: o.Key, Err: errors.New("no object of the plugin")}
}
