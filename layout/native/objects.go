package native

import (
	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// Objects lists the two objects of a segment.
func (s *Scanner) Objects(seg *tier.Segment) []layout.Object {
	log, meta := s.layout.LogKey(seg), s.layout.MetaKey(seg)
	if log == "" {
		return nil
	}
	return []layout.Object{
		{Key: log, Part: layout.LogPart, Size: seg.Size},
		{Key: meta, Part: layout.ManifestPart, Size: -1},
	}
}

// TopicPrefix is "<topic>-<id>/".
func (s *Scanner) TopicPrefix(name string, id segment.UUID) string {
	return name + "-" + id.String() + "/"
}
