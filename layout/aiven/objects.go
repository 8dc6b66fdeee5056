package aiven

import (
	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// Objects lists the three objects of a segment with the keys that they may have, the likeliest first. The log's size is
// not the metadata's: stored chunks may be compressed or sealed.
func (l *Layout) Objects(seg *tier.Segment) []layout.Object {
	if checkSegment(seg) != nil {
		return nil
	}
	candidates := stems(seg, "", l.prefixesOf(seg))
	object := func(suffix string, part layout.Part) layout.Object {
		o := layout.Object{Key: candidates[0] + suffix, Part: part, Size: -1}
		for _, stem := range candidates[1:] {
			o.Also = append(o.Also, stem+suffix)
		}
		return o
	}
	return []layout.Object{
		object(SuffixLog, layout.LogPart), object(SuffixIndexes, layout.FilesPart), object(SuffixManifest, layout.ManifestPart),
	}
}

// TopicPrefix is "<topic>-<id>/".
func (l *Layout) TopicPrefix(name string, id segment.UUID) string {
	return name + "-" + id.String() + "/"
}
