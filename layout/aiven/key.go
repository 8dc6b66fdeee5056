package aiven

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// The objects of a segment.
const (
	SuffixLog      = ".log"
	SuffixIndexes  = ".indexes"
	SuffixManifest = ".rsm-manifest"
)

const (
	idLength     = 22 // of a UUID's text
	offsetDigits = 20
)

// Key is what an object's key says of its segment. Where the manifest names its segment, the manifest decides.
type Key struct {
	Topic      string
	TopicID    segment.UUID
	Partition  int32
	BaseOffset int64
	SegmentID  segment.UUID
	Suffix     string // with its dot: one of the Suffix constants
}

// ParseKey reads a key from a listing. prefix is the plugin's key.prefix, which every key must begin with. Keys are cut
// by fixed widths from the right, since topic names and ids may hold '-', and a topic "lat-1" lies beside one named
// "lat".
func ParseKey(key, prefix string) (Key, error) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return Key{}, fmt.Errorf("%.300q does not begin with the prefix %.300q", key, prefix)
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("%.300q is not topic, partition and segment", rest)
	}
	var k Key
	var err error
	if k.Topic, k.TopicID, err = cutID(parts[0]); err != nil {
		return Key{}, err
	}
	if !segment.LegalTopic(k.Topic) {
		return Key{}, fmt.Errorf("%.300q is no topic name", k.Topic)
	}
	partition, err := strconv.ParseUint(parts[1], 10, 31)
	if err != nil || strconv.FormatUint(partition, 10) != parts[1] {
		return Key{}, fmt.Errorf("%.40q is no partition", parts[1])
	}
	k.Partition = int32(partition)
	return k, k.parseName(parts[2])
}

func (k *Key) parseName(name string) error {
	const width = offsetDigits + 1 + idLength
	if len(name) <= width {
		return fmt.Errorf("%.100q is no segment's object", name)
	}
	k.Suffix = name[width:]
	offset, err := strconv.ParseUint(name[:offsetDigits], 10, 63)
	if err != nil || name[offsetDigits] != '-' {
		if _, err := segment.ParseUUID(name[:idLength]); err == nil && name[idLength] == '-' {
			return fmt.Errorf("%.100q has its id before its offset: written by the plugin's prototype, which cannot be read", name)
		}
		return fmt.Errorf("%.100q does not begin with an offset of %d digits", name, offsetDigits)
	}
	k.BaseOffset = int64(offset)
	if k.SegmentID, err = segment.ParseUUID(name[offsetDigits+1 : width]); err != nil {
		return fmt.Errorf("%.100q holds no segment id", name)
	}
	if !slices.Contains([]string{SuffixLog, SuffixIndexes, SuffixManifest}, k.Suffix) {
		return fmt.Errorf("%.100q is no object of the plugin", name)
	}
	return nil
}

// cutID cuts "<name>-<id>".
func cutID(s string) (name string, id segment.UUID, err error) {
	at := len(s) - idLength - 1
	if at < 0 || s[at] != '-' {
		return "", id, fmt.Errorf("%.300q does not end with an id", s)
	}
	id, err = segment.ParseUUID(s[at+1:])
	return s[:at], id, err
}

// mainPath is the middle of a segment's keys, as the plugin computes it (ObjectKeyFactory).
func mainPath(seg *tier.Segment) string {
	return folder(seg.Topic, seg.Partition) + fmt.Sprintf("%0*d-", offsetDigits, seg.BaseOffset) + seg.ID.String()
}

// folder is what the keys of a partition begin with, behind the prefix.
func folder(topic string, id tier.PartitionID) string {
	return topic + "-" + id.Topic.String() + "/" + strconv.Itoa(int(id.Partition)) + "/"
}

// stems lists what the segment's keys may be without their suffix, the likeliest first: where another of its objects
// was found (known, if not ""), where its custom metadata says, then under each of prefixes.
func stems(seg *tier.Segment, known string, prefixes []string) []string {
	custom, err := parseCustom(seg.Custom)
	if err != nil {
		custom = customMetadata{} // it only says where to look first
	}
	paths := []string{mainPath(seg)}
	// A path that is not this segment's would serve another's bytes.
	if custom.hasPath && strings.HasSuffix(custom.path, "-"+seg.ID.String()) && custom.path != paths[0] {
		paths = slices.Insert(paths, 0, custom.path)
	}
	all := make([]string, 0, 2+len(prefixes))
	add := func(stem string) {
		if !slices.Contains(all, stem) {
			all = append(all, stem)
		}
	}
	if known != "" { // objects may have been moved since the metadata was written
		add(known)
	}
	if custom.hasPrefix {
		add(custom.prefix + paths[0])
	}
	for _, path := range paths {
		if custom.hasPrefix {
			add(custom.prefix + path)
		}
		for _, prefix := range prefixes {
			add(prefix + path)
		}
	}
	return all
}

// checkSegment says why a segment cannot have keys.
func checkSegment(seg *tier.Segment) error {
	var err error
	switch {
	case !segment.LegalTopic(seg.Topic):
		err = fmt.Errorf("%.300q is no topic name", seg.Topic)
	case seg.Partition.Topic.IsZero():
		err = errors.New("no topic id")
	case seg.Partition.Partition < 0:
		err = fmt.Errorf("partition %d", seg.Partition.Partition)
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
