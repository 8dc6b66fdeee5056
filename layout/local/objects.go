package local

import (
	"slices"
	"strconv"
	"strings"

	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

var _ layout.Names = (*Layout)(nil)

// smallFiles are the suffixes of what lies beside each log. The transaction index is there only when the segment has
// one.
var smallFiles = []string{".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint", suffixTxn}

// Prefixes is the one that New was given.
func (l *Layout) Prefixes() []string { return []string{l.prefix} }

// Objects lists the five or six files of a segment.
func (l *Layout) Objects(seg *tier.Segment) []layout.Object {
	stem, err := l.stem(seg)
	if err != nil {
		return nil
	}
	objects := []layout.Object{{Key: stem + suffixLog, Part: layout.LogPart, Size: seg.Size}}
	for _, suffix := range smallFiles {
		if suffix == suffixTxn && seg.TxnIndexEmpty {
			continue
		}
		objects = append(objects, layout.Object{Key: stem + suffix, Part: layout.FilesPart, Size: -1, Optional: suffix == suffixTxn})
	}
	return objects
}

// TopicPrefix is all that the names of a topic's folders have in common: partition and id follow the name.
func (l *Layout) TopicPrefix(name string, _ segment.UUID) string { return name + "-" }

// Classify reads "<topic>-<partition>-<topic id>/<20 digits>-<segment id>" and a suffix. Ids have 22 characters, dashes
// among them, and are therefore cut by their length.
func (l *Layout) Classify(key string) (layout.Part, layout.Name) {
	const id, digits = 22, 20
	rest, ok := strings.CutPrefix(key, l.prefix)
	folder, file, found := strings.Cut(rest, "/")
	at := len(folder) - id - 1
	if !ok || !found || at < 0 || folder[at] != '-' || len(file) < digits+1+id || file[digits] != '-' {
		return layout.ForeignPart, layout.Name{}
	}
	n := layout.Name{Prefix: l.prefix}
	var err, err2 error
	n.Partition.Topic, err = segment.ParseUUID(folder[at+1:])
	n.ID, err2 = segment.ParseUUID(file[digits+1 : digits+1+id])
	base, err3 := strconv.ParseUint(file[:digits], 10, 63)
	n.Topic, n.Partition.Partition, ok = segment.ParsePartitionDir(folder[:at])
	if err != nil || err2 != nil || err3 != nil || !ok || n.Topic+"-"+strconv.Itoa(int(n.Partition.Partition)) != folder[:at] {
		return layout.ForeignPart, layout.Name{}
	}
	n.BaseOffset = int64(base)
	switch suffix := file[digits+1+id:]; {
	case suffix == suffixLog:
		return layout.LogPart, n
	case slices.Contains(smallFiles, suffix):
		return layout.FilesPart, n
	}
	return layout.ForeignPart, layout.Name{}
}
