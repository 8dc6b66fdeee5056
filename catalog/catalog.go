// Package catalog is where a tier's metadata lives: it feeds a tier.Tier for readers and records what offloaders do.
//
// Its sub-packages are those places: embedded (a SQLite database, written by coldtap's offloader), kafka (a live
// cluster's __remote_log_metadata) and archive (the manifests of a bucket alone); and observe, which adds to a tier
// what only a live cluster knows. Readers see only Source, offloaders only Writer.
package catalog

import (
	"context"

	"coldtap/internal/errkind"
	"coldtap/segment"
	"coldtap/tier"
)

// Source is a tier that is kept up to date with the store of its metadata. All methods may be called concurrently.
type Source interface {
	// Snapshot is the newest consistent view; never nil. Where its bounds cannot be relied on (tier.Certainty), the reason
	// is an *Error of Kind NotReady.
	Snapshot() *tier.Snapshot
	// Ready is nil once the view is complete, else an *Error that says why not.
	Ready() error
	// Refresh catches up with the store now; it is called on doubt, before an answer that depends on being current. nil
	// means that the view is from after the call, for what concerns the partition; the zero id means no partition in
	// particular.
	Refresh(ctx context.Context, partition tier.PartitionID) error
	// ClusterID is the Kafka cluster's id, empty while unknown.
	ClusterID() string
}

// Writer records an offloader's steps. Each call is one durable transaction; when it returns nil, the step survives a
// crash. Calls are idempotent: repeating one that was recorded already changes nothing. A call that would be an
// illegal transition fails with Kind Illegal.
type Writer interface {
	// ClaimCluster binds the store to a cluster's id, or fails with Kind WrongCluster.
	ClaimCluster(ctx context.Context, clusterID string) error
	PutTopic(ctx context.Context, id segment.UUID, name string) error
	// PutPartition records the tier's start, which stays from the first segment or hole on, and replaces the lineage.
	PutPartition(ctx context.Context, id tier.PartitionID, start int64, lineage []segment.EpochStart) error
	// StartCopy records a segment in state CopyStarted.
	StartCopy(ctx context.Context, seg tier.Segment) error
	// FinishCopy makes it readable.
	FinishCopy(ctx context.Context, partition tier.PartitionID, id segment.UUID) error
	StartDelete(ctx context.Context, partition tier.PartitionID, id segment.UUID) error
	FinishDelete(ctx context.Context, partition tier.PartitionID, id segment.UUID) error
	// RecordHole gives [From, To) up: readers pass over it, except where a segment holds it after all.
	RecordHole(ctx context.Context, partition tier.PartitionID, hole tier.Hole) error
	// Snapshot shows what is recorded, unfinished copies included (Partition.Segments(true)).
	Snapshot() *tier.Snapshot
	ClusterID() string
}

// Kind classifies an Error.
type Kind uint8

const (
	NotReady     Kind = iota + 1 // still loading, or the store is away: try again
	WrongCluster                 // the store belongs to another cluster
	Illegal                      // a transition that the state machine forbids
	Locked                       // another writer holds the store
	Damaged                      // the store cannot be read
	Unavailable                  // I/O failed (disk full, file missing)
)

var kindNames = [...]string{
	NotReady: "not ready", WrongCluster: "wrong cluster", Illegal: "illegal", Locked: "locked",
	Damaged: "damaged", Unavailable: "unavailable",
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is the error of every catalog.
type Error struct {
	Kind Kind
	Op   string
	Err  error
}

func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Retriable says whether the same call may succeed later without anything being done about it.
func (e *Error) Retriable() bool {
	return e.Kind == NotReady || e.Kind == Locked || e.Kind == Unavailable
}
