package layout

import (
	"context"
	"errors"

	"coldtap/internal/readcost"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// Part is what an object is to its segment or partition.
type Part uint8

const (
	ForeignPart  Part = iota // nothing of this layout
	LogPart                  // a segment's log
	FilesPart                // a segment's small files, in layouts that keep them beside the manifest
	ManifestPart             // describes a segment; written last, so that what has none is an unfinished copy or a half-done delete
	StartPart                // a partition's start
)

// Name is what a key says of the object: which segment's it is, or with StartPart which partition's (ID and BaseOffset
// are zero then). It is comparable; all objects of a segment have the same. It proves nothing: the content does.
type Name struct {
	Prefix     string // of the Prefixes, the one that the key was cut at
	Topic      string
	Partition  tier.PartitionID
	BaseOffset int64
	ID         segment.UUID
}

// Description is what a manifest says. Nothing in it contradicts itself, and it is the manifest of the segment that its
// key names; that the segment's other objects are there, and as large as it says, is for the caller to compare.
type Description struct {
	Segment   tier.Segment // in state CopyFinished; no custom metadata
	ClusterID string       // empty in layouts that do not tell
	LogSize   int64        // bytes of the log's object
	FilesSize int64        // bytes of the small files' object; 0 = there need be none
}

// Checkpoint is the leader-epoch checkpoint that travelled with a segment.
type Checkpoint struct {
	Epochs []segment.EpochStart // never empty
	// Start is the partition's log start when the segment was copied, -1 when the layout has another word for it. Brokers
	// keep the first entry at the log start (LeaderEpochFileCache.truncateFromStart), so that DeleteRecords, which leaves
	// no other trace in a bucket, is known from here.
	Start int64
}

// Start is what a partition's start object says.
type Start struct {
	ClusterID string
	Offset    int64 // first readable
}

// Keys tells what the keys of a layout's objects say. All methods may be called concurrently.
type Keys interface {
	// Prefixes are what all keys of the layout begin with, none of them a beginning of another: to be listed one by one.
	Prefixes() []string
	// Classify reads a key. The name is zero for a ForeignPart.
	Classify(key string) (Part, Name)
}

// Manifests finds segments in a listing, of a store that is its own metadata. All methods may be called concurrently;
// each read sends a few requests, so callers bound how many run at a time. Implementations bound the memory that their
// reads take, since the sizes of objects are those that their writers chose.
//
// Errors are *rangeio.Error (the store's) or *Error (the object's content). The latter wraps ErrVersion, ErrUndescribed
// or ErrMisplaced where one of them is the reason.
type Manifests interface {
	Keys
	// PartitionPrefixes are what all keys of one partition begin with, none of them a beginning of another: to be listed
	// one by one. None for a partition that cannot have keys. Where one is also a beginning of other partitions' keys,
	// Classify tells.
	PartitionPrefixes(topic string, id tier.PartitionID) []string
	// ReadManifest reads the manifest that a listing has, as it was listed.
	ReadManifest(ctx context.Context, o rangeio.Object) (*Description, readcost.Cost, error)
	// ReadCheckpoint reads the checkpoint of a segment that ReadManifest has described; the size is that of its manifest's
	// object in the listing.
	ReadCheckpoint(ctx context.Context, seg *tier.Segment, size int64) (*Checkpoint, readcost.Cost, error)
	// ReadStart reads a start object that a listing has.
	ReadStart(ctx context.Context, o rangeio.Object) (*Start, readcost.Cost, error)
}

var (
	ErrVersion     = errors.New("unsupported version")
	ErrUndescribed = errors.New("does not say which segment it describes")
	ErrMisplaced   = errors.New("its key is not the one of what it describes")
)
