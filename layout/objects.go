package layout

import (
	"coldtap/segment"
	"coldtap/tier"
)

// Object is one that a segment has in the store.
type Object struct {
	Key      string
	Also     []string // other keys that it may have, the likeliest first
	Part     Part
	Size     int64 // bytes; -1 = the metadata does not tell
	Optional bool  // a whole segment may be without it
}

// Names tells of a layout's objects by their keys alone.
type Names interface {
	Keys
	// Objects lists what a segment of the metadata has, the log first; nothing when it cannot have keys.
	Objects(seg *tier.Segment) []Object
	// TopicPrefix is what the keys of a topic begin with, after one of Prefixes.
	TopicPrefix(name string, id segment.UUID) string
}
