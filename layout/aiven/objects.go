package aiven

import (
	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// Objects lists the three objects of a segment where they are looked for first. The log's size is not the metadata's:
// stored chunks may be compressed or sealed.
func (s *Scanner) Objects(seg *tier.Segment) []layout.Object {
	if checkSegment(seg) != nil {
		return nil
	}
	stem := stems(seg, "", s.layout.prefixes)[0]
	return []layout.Object{
		{Key: stem + SuffixLog, Part: layout.LogPart, Size: -1},
		{Key: stem + SuffixIndexes, Part: layout.FilesPart, Size: -1},
		{Key: stem + SuffixManifest, Part: layout.ManifestPart, Size: -1},
	}
}

// TopicPrefix is "<topic>-<id>/".
func (s *Scanner) TopicPrefix(name string, id segment.UUID) string {
	return name + "-" + id.String() + "/"
}
