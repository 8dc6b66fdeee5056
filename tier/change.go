package tier

import "coldtap/segment"

// Change is one step in the life of a tier.
type Change interface{ change() }

// TopicSeen gives a topic's name.
type TopicSeen struct {
	ID   segment.UUID
	Name string
	At   int64 // event time, ms: of two live ids with one name the newest event wins
}

// SegmentAdded adds a segment; its State must be CopyStarted. Repeating it while the segment is still CopyStarted
// replaces what is known of it; later it is an illegal transition.
type SegmentAdded struct{ Segment Segment }

// SegmentUpdated moves a known segment on; DeleteFinished removes it. An update to CopyStarted is always illegal.
type SegmentUpdated struct {
	Partition PartitionID
	ID        segment.UUID
	State     State
	BrokerID  int32
	At        int64  // ms
	Custom    []byte // replaces, nil included
}

// SegmentLoaded restores a segment in any state, as a catalog's own store holds it: no transition is checked.
// Catalogs load in the order of the segments' last steps, since of two that cover one range the later one is preferred.
type SegmentLoaded struct{ Segment Segment }

// SegmentRestored puts a segment back exactly where a snapshot of this model had it: no transition is checked, and
// which of several segments look-ups prefer is given instead of following from the order. Shadowed is what
// Partition.Shadowed gave, ascending.
type SegmentRestored struct {
	Segment  Segment
	Shadowed []int32
}

// EpochRestored restores what Partition.HighestOfEpochs gave: deleted segments count in it, so it does not follow from
// the segments that are left.
type EpochRestored struct {
	Partition PartitionID
	EpochEnd  EpochEnd
}

// TopicOwned says which topic carries a name in the cluster now: whatever else carries it, a deleted topic's segments
// for example, is reached by its id only, even while the tier holds nothing of the owner. The zero ID takes it back.
type TopicOwned struct {
	Name string
	ID   segment.UUID
}

// BoundsChanged replaces a partition's bounds.
type BoundsChanged struct {
	Partition PartitionID
	Bounds    Bounds
}

// CertaintyChanged replaces how far the bounds of a topic's partitions can be relied on; nil takes back what an earlier
// one said. The zero Topic stands for all topics that no such change names, whose bounds are certain without one.
type CertaintyChanged struct {
	Topic     segment.UUID
	Certainty *TopicCertainty
}

// LineageChanged replaces a partition's known leader epochs, as a broker's leader-epoch checkpoint lists them: its
// first entry may have been trimmed to the broker's log start, and what lies below is derived from the segments. No
// epochs: all is derived.
type LineageChanged struct {
	Partition PartitionID
	Epochs    []segment.EpochStart
}

// HoleRecorded adds a hole; one that is known already changes nothing.
type HoleRecorded struct {
	Partition PartitionID
	Hole      Hole
}

// PartitionForgotten drops all that is known of a partition.
type PartitionForgotten struct{ Partition PartitionID }

func (TopicSeen) change()          {}
func (SegmentAdded) change()       {}
func (SegmentUpdated) change()     {}
func (SegmentLoaded) change()      {}
func (SegmentRestored) change()    {}
func (EpochRestored) change()      {}
func (TopicOwned) change()         {}
func (BoundsChanged) change()      {}
func (CertaintyChanged) change()   {}
func (LineageChanged) change()     {}
func (HoleRecorded) change()       {}
func (PartitionForgotten) change() {}

// Outcome is what an Apply did beside what a Snapshot shows.
type Outcome struct {
	Rejected []Rejected
	// Withdrawn are the segments that left CopyFinished, as they were before, in order: a segment that was finished and
	// withdrawn within the one Apply too. What caches hold of them is to go.
	Withdrawn []*Segment
}

// Rejected says why a change was dropped; the tier is as before it.
type Rejected struct {
	Change Change
	Reason string // one of the Reason constants: usable as a metric label
}

// The reasons of Rejected. All but Malformed occur in the normal traffic of a metadata topic: retries, duplicates, two
// leaders at once, events that outlive the segment's first record.
const (
	ReasonMalformed         = "malformed"          // impossible by itself: offsets or epochs that contradict each other
	ReasonUnknownSegment    = "unknown_segment"    // an update for an id that was never added, or is gone
	ReasonUnknownState      = "unknown_state"      // none of the four states
	ReasonIllegalTransition = "illegal_transition" // forbidden by State.CanBecome
)

// Reasons lists every reason, for creating a metric's label values beforehand.
func Reasons() []string {
	return []string{ReasonMalformed, ReasonUnknownSegment, ReasonUnknownState, ReasonIllegalTransition}
}
