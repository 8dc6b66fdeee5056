package native

import (
	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// Objects lists the two objects of a segment.
func (l *Layout) Objects(seg *tier.Segment) []layout.Object {
	log, meta := l.LogKey(seg), l.MetaKey(seg)
	if log == "" {
		return nil
	}
	return []layout.Object{
		{Key: log, Part: layout.LogPart, Size: seg.Size},
		{Key: meta, Part: layout.ManifestPart, Size: -1},
	}
}

// TopicPrefix is "<topic>-<id>/".
func (l *Layout) TopicPrefix(name string, id segment.UUID) string {
	return name + "-" + id.String() + "/"
}
