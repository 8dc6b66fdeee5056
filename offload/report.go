package offload

import (
	"strings"

	"coldtap/segment"
	"coldtap/tier"
)

// Reason says why something was not copied. The texts are stable: people grep for them and dashboards group by them.
type Reason string

const (
	// Ordinary reasons: nothing is wrong.
	Active             Reason = "active segment"
	AboveHighWatermark Reason = "above the high watermark"
	Unstable           Reason = "at or beyond the last stable offset"
	BelowLogStart      Reason = "below the log start"
	AlreadyCopied      Reason = "already copied"
	KnownHole          Reason = "in a recorded hole"
	Excluded           Reason = "excluded topic"
	Internal           Reason = "internal topic"
	NoHighWatermark    Reason = "no checkpointed high watermark"
	NotPartition       Reason = "not a live partition directory"

	// Failures: the partition stops there and the run counts as failed.
	Damaged       Reason = "damaged"
	Gap           Reason = "gap before the first local segment"
	NoTopicID     Reason = "no topic id"
	NoLeaderEpoch Reason = "no leader epoch"
	Unreadable    Reason = "unreadable"
	Changed       Reason = "changed while it was copied"
	StoreFailed   Reason = "object store failed"
	CatalogFailed Reason = "catalog failed"
	Canceling     Reason = "canceled"
	Behind        Reason = "behind the place where the partition stopped"
)

var failures = []Reason{
	Damaged, Gap, NoTopicID, NoLeaderEpoch, Unreadable, Changed, StoreFailed, CatalogFailed, Canceling, Behind,
}

// Failure tells whether the reason is something that a person has to look at.
func (r Reason) Failure() bool {
	for _, f := range failures {
		if r == f {
			return true
		}
	}
	return false
}

// label is the reason as a metric label.
func (r Reason) label() string { return strings.ReplaceAll(string(r), " ", "_") }

// Leftover is something that was not copied: neighbouring segments with one reason, a whole partition, or a directory.
type Leftover struct {
	Base, End int64 // offsets, both inclusive; End -1 = open end; both -1 = the whole partition or directory
	Segments  int
	Bytes     int64 // of their logs
	Reason    Reason
	Detail    string // what exactly, for a person; may be empty
}

// PartitionReport says what became of one partition.
type PartitionReport struct {
	Topic     string
	Partition int32
	TopicID   segment.UUID
	Dir       string // the partition's directory

	Segments int   // copied in this run
	Bytes    int64 // of their logs
	// TieredEnd is the exclusive end of what the tier holds after the run; -1 when it was not looked up.
	TieredEnd int64
	Holes     []tier.Hole // what readers pass over after the run, recorded now or earlier and not healed
	Left      []Leftover
	Rebuilt   []string // index files that were made anew, with the reason
	Notes     []string // what was ignored
}

// Failed tells whether something of the partition was left for a reason that a person has to look at.
func (p *PartitionReport) Failed() bool {
	for _, l := range p.Left {
		if l.Reason.Failure() {
			return true
		}
	}
	return false
}

// leave adds a leftover, joined to the last one if that is its neighbour with the same reason.
func (p *PartitionReport) addLeft(l Leftover) {
	if n := len(p.Left); n > 0 && l.Base >= 0 {
		last := &p.Left[n-1]
		if last.Reason == l.Reason && last.Detail == l.Detail && last.End >= 0 && last.End+1 == l.Base {
			last.End = l.End
			last.Segments += l.Segments
			last.Bytes += l.Bytes
			return
		}
	}
	p.Left = append(p.Left, l)
}

// Report says what a run did.
type Report struct {
	ClusterID  string
	BrokerID   int32
	Partitions []PartitionReport // ordered by topic and partition
	Skipped    []Skipped         // directories that are no live partitions
}

// Skipped is an entry of a log directory that was passed over.
type Skipped struct {
	Path   string
	Reason Reason
}

// Failed tells whether anything failed, which a command shows in its exit code.
func (r Report) Failed() bool {
	for i := range r.Partitions {
		if r.Partitions[i].Failed() {
			return true
		}
	}
	return false
}

// Copied sums up what was copied in this run: segments, and bytes of their logs.
func (r Report) Copied() (segments int, bytes int64) {
	for i := range r.Partitions {
		segments += r.Partitions[i].Segments
		bytes += r.Partitions[i].Bytes
	}
	return segments, bytes
}

// Step is what an Event tells of.
type Step uint8

const (
	StepCopying  Step = iota + 1 // some more bytes of a segment were sent
	StepCopied                   // a segment is FINISHED
	StepResumed                  // a copy that an earlier run left unfinished goes on under its id
	StepRemoved                  // a copy that an earlier run left unfinished was removed
	StepLeft                     // something is not copied: Reason, Detail
	StepRebuilt                  // an index file was made anew: Detail
	StepRecorded                 // a hole was recorded: Detail
	StepNoted                    // something was ignored: Detail
)

// String gives the step in a word.
func (s Step) String() string {
	switch s {
	case StepCopying:
		return "copying"
	case StepCopied:
		return "copied"
	case StepResumed:
		return "resumed"
	case StepRemoved:
		return "removed"
	case StepLeft:
		return "left"
	case StepRebuilt:
		return "rebuilt"
	case StepRecorded:
		return "hole"
	case StepNoted:
		return "noted"
	}
	return "unknown"
}

// Event is one thing that was done or not done.
type Event struct {
	Step      Step
	Topic     string // empty for an entry of a log directory that is no partition
	Partition int32
	Base, End int64 // offsets of the segment or range, inclusive; -1 as in Leftover
	Segments  int   // how many segments the event speaks of
	Bytes     int64 // of their logs
	Reason    Reason
	Detail    string
	// Done and Total are the bytes sent so far and in all, of every segment that the run found eligible.
	Done, Total int64
}
