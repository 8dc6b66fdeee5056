package native

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"

	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	// scanHead is how much of a .meta is read at first: the manifest has some 1.3 KiB and 30 bytes for each aborted
	// transaction, while the indexes behind it have up to megabytes.
	scanHead = 16 << 10
	// scanMemory bounds manifests that are longer, each counted four times: text, numbers, and what JSON takes meanwhile.
	scanMemory = 256 << 20
	scanFactor = 4

	maxCheckpoint = 32 * maxEpochs // bytes
	maxClusterID  = 256            // bytes; Kafka's have 22
)

func (l *Layout) Prefixes() []string { return []string{l.prefix} }

// PartitionPrefixes is the partition's folder.
func (l *Layout) PartitionPrefixes(topic string, id tier.PartitionID) []string {
	if checkPartition(topic, id) != nil {
		return nil
	}
	return []string{l.folder(topic, id)}
}

// Classify reads "<topic>-<id>/<partition>/<20 digits>-<id>.log", ".meta", or "start" in place of the last.
func (l *Layout) Classify(key string) (layout.Part, layout.Name) {
	rest, ok := strings.CutPrefix(key, l.prefix)
	if !ok {
		return layout.ForeignPart, layout.Name{}
	}
	folder, file := path.Split(rest)
	topic, number, _ := strings.Cut(folder, "/")
	n := layout.Name{Prefix: l.prefix}
	if n.Topic, n.Partition, ok = parseFolder(topic, strings.TrimSuffix(number, "/")); !ok {
		return layout.ForeignPart, layout.Name{}
	}
	var part layout.Part
	if part, n.BaseOffset, n.ID = parseFile(file); part == layout.ForeignPart {
		return part, layout.Name{}
	}
	return part, n
}

// PartOf classifies a key by its file name alone, in any folder that has a parent. Where Classify calls the same key
// foreign, the object has a name of the layout and lies in a folder that is not one of the layout's.
func PartOf(key string) layout.Part {
	folder, file := path.Split(key)
	if strings.Count(folder, "/") < 2 {
		return layout.ForeignPart
	}
	part, _, _ := parseFile(file)
	return part
}

// ReadManifest reads the head of a .meta with one GET, and a second one when its list of aborted transactions is long.
// The small files behind it are left where they are.
func (l *Layout) ReadManifest(ctx context.Context, o rangeio.Object) (*layout.Description, readcost.Cost, error) {
	var sum readcost.Cost
	head, release, err := l.readHead(ctx, o.Key, o.Size, &sum)
	if err != nil {
		return nil, sum, err
	}
	defer release()
	m, _, err := DecodeMeta(head.frame)
	if err != nil {
		return nil, sum, head.fault(err)
	}
	seg := tier.Segment{
		ID: m.SegmentID, Partition: tier.PartitionID{Topic: m.TopicID, Partition: m.Partition}, Topic: m.Topic,
		BaseOffset: m.BaseOffset, EndOffset: m.EndOffset, Epochs: m.LeaderEpochs, MaxTimestamp: m.MaxTimestamp,
		EventTime: m.EventTime, BrokerID: m.BrokerID, Size: m.Log.Size, State: tier.CopyFinished,
		TxnIndexEmpty: m.hasNoAborts(),
	}
	if err := seg.Validate(); err != nil {
		return nil, sum, head.fault(err)
	}
	if len(m.ClusterID) > maxClusterID {
		return nil, sum, head.fault(fmt.Errorf("a cluster id of %d bytes", len(m.ClusterID)))
	}
	if own := l.MetaKey(&seg); own != o.Key {
		return nil, sum, head.fault(fmt.Errorf("%w: it belongs under %s", layout.ErrMisplaced, own))
	}
	return &layout.Description{Segment: seg, ClusterID: m.ClusterID, LogSize: seg.Size}, sum, nil
}

// metaHead is the beginning of a .meta object, of one version.
type metaHead struct {
	key   string
	frame []byte // header and manifest
	rest  []byte // what of the small files came with them
	info  rangeio.Info
}

func (h *metaHead) fault(err error) error { return &layout.Error{Object: h.key, Err: err} }

// readHead reads as much as the manifest takes, of an object of so many bytes. release is called when nothing of it is
// needed any more.
func (l *Layout) readHead(ctx context.Context, key string, size int64, sum *readcost.Cost) (h *metaHead, release func(), err error) {
	h, release = &metaHead{key: key}, func() {}
	if size > MaxMeta || size < frameHeader {
		return nil, nil, h.fault(fmt.Errorf("%d bytes: at least %d belong to it, at most %d are allowed", size, frameHeader, MaxMeta))
	}
	raw := make([]byte, min(size, scanHead))
	var cost readcost.Cost
	h.info, cost, err = l.store.ReadRange(ctx, key, raw, 0, "", size)
	sum.Add(cost)
	if err != nil {
		return nil, nil, err
	}
	if string(raw[:4]) == metaMagic && binary.BigEndian.Uint16(raw[4:]) != frameVersion {
		return nil, nil, h.fault(fmt.Errorf("%w %d", layout.ErrVersion, binary.BigEndian.Uint16(raw[4:])))
	}
	end := frameHeader + int64(binary.BigEndian.Uint32(raw[8:]))
	if string(raw[:4]) != metaMagic || end > size {
		return nil, nil, h.fault(errors.New("does not begin with a manifest that lies in it"))
	}
	if end <= int64(len(raw)) {
		h.frame, h.rest = raw[:end:end], raw[end:]
		return h, release, nil
	}
	weight := scanFactor * end
	if err := l.memory.Acquire(ctx, weight); err != nil {
		return nil, nil, &rangeio.Error{Kind: rangeio.Canceled, Op: "get", Key: key, Err: err}
	}
	h.frame = append(make([]byte, 0, end), raw...)[:end]
	_, cost, err = l.store.ReadRange(ctx, key, h.frame[len(raw):], int64(len(raw)), h.info.ETag, size)
	sum.Add(cost)
	if err != nil {
		l.memory.Release(weight)
		return nil, nil, err
	}
	return h, func() { l.memory.Release(weight) }, nil
}

// ReadCheckpoint reads the manifest again, and the checkpoint if it did not come with it. It gives no start: the tier's
// start is in the start object, and the broker's log start may lie above it.
func (l *Layout) ReadCheckpoint(ctx context.Context, seg *tier.Segment, size int64) (*layout.Checkpoint, readcost.Cost, error) {
	var sum readcost.Cost
	if err := checkSegment(seg); err != nil {
		return nil, sum, err
	}
	head, release, err := l.readHead(ctx, l.MetaKey(seg), size, &sum)
	if err != nil {
		return nil, sum, err
	}
	defer release()
	m, _, err := DecodeMeta(head.frame)
	if err == nil {
		err = m.Describes(seg)
	}
	if err != nil {
		return nil, sum, head.fault(err)
	}
	packed := m.Files.LeaderEpochs
	if packed == nil || packed.Size > maxCheckpoint {
		return nil, sum, head.fault(errors.New("no leader-epoch checkpoint that could be one"))
	}
	var raw []byte
	at, to := int64(len(head.frame))+packed.Offset, packed.Offset+packed.Size
	switch {
	case to <= int64(len(head.rest)):
		raw = head.rest[packed.Offset:to]
	case at+packed.Size > size:
		return nil, sum, head.fault(fmt.Errorf("cut off in or before the leader-epoch checkpoint, at byte %d", size))
	default:
		raw = make([]byte, packed.Size)
		_, cost, err := l.store.ReadRange(ctx, head.key, raw, at, head.info.ETag, head.info.Size)
		sum.Add(cost)
		if err != nil {
			return nil, sum, err
		}
	}
	if sumOf(raw) != packed.FileSum {
		return nil, sum, head.fault(errors.New("checksum of the leader-epoch checkpoint does not match"))
	}
	epochs, err := segment.ParseEpochCheckpoint(raw)
	if err == nil && len(epochs) == 0 {
		err = errors.New("leader-epoch checkpoint is empty")
	}
	if err != nil {
		return nil, sum, head.fault(err)
	}
	return &layout.Checkpoint{Epochs: epochs, Start: -1}, sum, nil
}

// ReadStart reads a start object, which must be the partition's whose key it has.
func (l *Layout) ReadStart(ctx context.Context, o rangeio.Object) (*layout.Start, readcost.Cost, error) {
	fault := func(sum readcost.Cost, err error) (*layout.Start, readcost.Cost, error) {
		return nil, sum, &layout.Error{Object: o.Key, Err: err}
	}
	if o.Size > maxStart {
		return fault(readcost.Cost{}, fmt.Errorf("%d bytes, at most %d are allowed", o.Size, maxStart))
	}
	raw, _, sum, err := l.store.ReadObject(ctx, o.Key, maxStart)
	if err != nil {
		return nil, sum, err
	}
	start, err := DecodeStart(raw)
	switch {
	case err != nil:
		return fault(sum, err)
	case len(start.ClusterID) > maxClusterID:
		return fault(sum, fmt.Errorf("a cluster id of %d bytes", len(start.ClusterID)))
	}
	if own := l.StartKey(start.Topic, start.id()); own != o.Key {
		return fault(sum, fmt.Errorf("%w: it belongs under %s", layout.ErrMisplaced, own))
	}
	return &layout.Start{ClusterID: start.ClusterID, Offset: start.Offset}, sum, nil
}
