package fetch

import (
	"strings"
	"time"

	"coldtap/segment"
	"coldtap/tier"
)

// PartitionInfo is what a listing shows of a partition; -1 = unknown.
type PartitionInfo struct {
	Partition             int32
	Start, LocalStart     int64
	TieredEnd, LastStable int64
	HighWatermark         int64
	TieredBytes           int64       // of the logs of readable segments
	Segments              int         // readable ones
	Holes                 []tier.Hole // ranges that the offloader gave up, so that an absent record is told from a lost one
}

// TopicInfo is what a listing shows of a topic.
type TopicInfo struct {
	Name       string
	ID         segment.UUID
	Partitions []PartitionInfo
}

// SegmentInfo is a segment and the names of its files.
type SegmentInfo struct {
	Segment *tier.Segment
	Files   []FileInfo // the log, then the small files; sizes -1 when not known without a read
}

// FileInfo is a file of a segment, by the name that OpenFile takes.
type FileInfo struct {
	Name string
	Size int64 // bytes
}

// Topics lists names, sorted; those that begin with two underscores only with internal.
func (s *Service) Topics(internal bool) ([]string, error) {
	if err := s.Ready(); err != nil {
		return nil, err
	}
	names := []string{}
	for _, t := range s.cfg.Source.Snapshot().Topics() {
		if internal || !strings.HasPrefix(t.Name, "__") {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

// Topic lists a topic's partitions. With an id the name may be empty, else both must be the topic's.
func (s *Service) Topic(name string, id segment.UUID) (TopicInfo, error) {
	if err := s.Ready(); err != nil {
		return TopicInfo{}, err
	}
	snap, t, err := s.lookUp(name, id)
	if err != nil {
		return TopicInfo{}, err
	}
	info := TopicInfo{Name: t.Name, ID: t.ID, Partitions: make([]PartitionInfo, 0, len(t.Partitions))}
	for _, n := range t.Partitions {
		if p, ok := snap.Partition(tier.PartitionID{Topic: t.ID, Partition: n}); ok {
			info.Partitions = append(info.Partitions, partitionInfo(p))
		}
	}
	return info, nil
}

// Partition describes one partition.
func (s *Service) Partition(topic string, id segment.UUID, partition int32) (PartitionInfo, error) {
	_, _, p, err := s.find(topic, id, partition)
	if err != nil {
		return PartitionInfo{}, err
	}
	return partitionInfo(p), nil
}

func partitionInfo(p *tier.Partition) PartitionInfo {
	b := boundsOf(p)
	info := PartitionInfo{Partition: p.ID().Partition, Start: b.Start, LocalStart: b.LocalStart, TieredEnd: b.TieredEnd, LastStable: b.LastStable,
		HighWatermark: b.HighWatermark, Holes: p.Holes()}
	for _, seg := range p.Segments(false) {
		info.TieredBytes += seg.Size
		info.Segments++
	}
	return info
}

// Segments lists a partition's segments in offset order: readable ones, or all that are not deleted.
func (s *Service) Segments(topic string, id segment.UUID, partition int32, all bool) ([]SegmentInfo, error) {
	_, _, p, err := s.find(topic, id, partition)
	if err != nil {
		return nil, err
	}
	segments := p.Segments(all)
	infos := make([]SegmentInfo, len(segments))
	for i, seg := range segments {
		infos[i] = SegmentInfo{Segment: seg, Files: filesOf(seg)}
	}
	return infos, nil
}

// The names of a segment's files, as KIP-405 names their kinds.
const (
	fileLog      = "log"
	fileOffsets  = "index"
	fileTimes    = "timeindex"
	fileTxns     = "txnindex"
	fileSnapshot = "snapshot"
	fileEpochs   = "leader-epoch-checkpoint"
)

func filesOf(seg *tier.Segment) []FileInfo {
	files := []FileInfo{{fileLog, seg.Size}, {fileOffsets, -1}, {fileTimes, -1}}
	if !seg.TxnIndexEmpty {
		files = append(files, FileInfo{fileTxns, -1})
	}
	return append(files, FileInfo{fileSnapshot, -1}, FileInfo{fileEpochs, -1})
}

// unseenSpan is how far before a segment's largest timestamp its others are taken to lie: brokers roll a segment after
// a week by default, and nothing tells its smallest timestamp without a read.
const unseenSpan = int64(365 * 24 * time.Hour / time.Millisecond)

// TimeSpan estimates between which timestamps (ms, both included) the partition's records lie, from metadata alone:
// from a year before the smallest of its segments' largest timestamps up to the largest of them, or to now where the
// brokers hold records that the tier does not. known is false when nothing is known of the partition's times.
func (s *Service) TimeSpan(topic string, id segment.UUID, partition int32) (from, to int64, known bool) {
	_, _, p, err := s.find(topic, id, partition)
	if err != nil {
		return 0, 0, false
	}
	for _, seg := range p.Segments(false) {
		switch t := seg.MaxTimestamp; {
		case t < 0: // no record of it has a timestamp
		case !known:
			from, to, known = t, t, true
		default:
			from, to = min(from, t), max(to, t)
		}
	}
	if b := p.Bounds(); known && max(b.HighWatermark, b.LastStable) > p.TieredEnd() {
		to = max(to, time.Now().UnixMilli())
	}
	return from - unseenSpan, to, known
}
