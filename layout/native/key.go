package native

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	offsetDigits = 20
	idLength     = 22 // of an id's text
)

// LogKey is the key of the segment's log, "" when the segment cannot have one: a topic name that is not Kafka's, or a
// negative partition or offset. Every operation on such a segment fails with *layout.Error before the store is asked.
func (l *Layout) LogKey(seg *tier.Segment) string { return l.segmentKey(seg, ".log") }

// MetaKey is the key of the segment's manifest and small files, "" as for LogKey.
func (l *Layout) MetaKey(seg *tier.Segment) string { return l.segmentKey(seg, ".meta") }

// StartKey is the key of the object that holds a partition's start, "" as for LogKey.
func (l *Layout) StartKey(topic string, id tier.PartitionID) string {
	if checkPartition(topic, id) != nil {
		return ""
	}
	return l.folder(topic, id) + "start"
}

func (l *Layout) segmentKey(seg *tier.Segment, suffix string) string {
	if checkSegment(seg) != nil {
		return ""
	}
	return l.folder(seg.Topic, seg.Partition) + fmt.Sprintf("%020d-", seg.BaseOffset) + seg.ID.String() + suffix
}

// folder is where a partition's objects lie. The topic's id makes a re-created topic another folder.
func (l *Layout) folder(topic string, id tier.PartitionID) string {
	return l.prefix + topic + "-" + id.Topic.String() + "/" + strconv.Itoa(int(id.Partition)) + "/"
}

// parseFolder reads the two folders of a partition's keys, and takes only what folder makes.
func parseFolder(topic, number string) (name string, id tier.PartitionID, ok bool) {
	dash := len(topic) - idLength - 1
	if dash < 0 || topic[dash] != '-' {
		return "", id, false
	}
	partition, err := strconv.ParseUint(number, 10, 31)
	if err != nil || strconv.FormatUint(partition, 10) != number {
		return "", id, false
	}
	id.Partition = int32(partition)
	if id.Topic, err = segment.ParseUUID(topic[dash+1:]); err != nil || checkPartition(topic[:dash], id) != nil {
		return "", id, false
	}
	return topic[:dash], id, true
}

// parseFile reads the last part of a key: "start", or "<20 digits>-<id>" with ".log" or ".meta".
func parseFile(file string) (part layout.Part, base int64, id segment.UUID) {
	if file == "start" {
		return layout.StartPart, 0, id
	}
	part = layout.LogPart
	stem, ok := strings.CutSuffix(file, ".log")
	if !ok {
		part = layout.ManifestPart
		stem, ok = strings.CutSuffix(file, ".meta")
	}
	if !ok || len(stem) != offsetDigits+1+idLength || stem[offsetDigits] != '-' {
		return layout.ForeignPart, 0, id
	}
	offset, err := strconv.ParseUint(stem[:offsetDigits], 10, 63)
	if err == nil {
		id, err = segment.ParseUUID(stem[offsetDigits+1:])
	}
	if err != nil {
		return layout.ForeignPart, 0, segment.UUID{}
	}
	return part, int64(offset), id
}

// checkSegment says why a segment cannot have keys.
func checkSegment(seg *tier.Segment) error {
	err := checkPartition(seg.Topic, seg.Partition)
	switch {
	case err != nil:
	case seg.ID.IsZero():
		err = errors.New("no segment id")
	case seg.BaseOffset < 0 || seg.EndOffset < seg.BaseOffset:
		err = fmt.Errorf("offsets from %d to %d", seg.BaseOffset, seg.EndOffset)
	case seg.Size < 0:
		err = fmt.Errorf("a log of %d bytes", seg.Size)
	}
	if err != nil {
		return &layout.Error{Object: "segment " + seg.ID.String(), Err: err}
	}
	return nil
}

func checkPartition(topic string, id tier.PartitionID) error {
	switch {
	case !segment.LegalTopic(topic):
		return fmt.Errorf("%.300q is no topic name", topic)
	case id.Topic.IsZero():
		return errors.New("no topic id")
	case id.Partition < 0:
		return fmt.Errorf("partition %d", id.Partition)
	}
	return nil
}
