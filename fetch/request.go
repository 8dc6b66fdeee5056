package fetch

import (
	"time"

	"coldtap/readerpool"
	"coldtap/segment"
)

// Isolation is a reader's isolation level (KIP-98).
type Isolation uint8

const (
	ReadCommitted   Isolation = iota // aborted records are hidden, and the answer ends where transactions are undecided
	ReadUncommitted                  // everything
)

// StartKind says how a request names its start.
type StartKind uint8

const (
	FromOffset        StartKind = iota
	FromEarliest                // the tier's start
	FromLatest                  // where the log ends for the reader, without a cluster the tiered end: an answer with nothing in it
	FromEarliestLocal           // the first offset that the brokers hold
	FromTimestamp               // the first data record at or after Timestamp that the isolation level shows
)

// Request is one read.
type Request struct {
	Topic        string
	TopicID      segment.UUID // zero: the name decides
	Partition    int32
	Start        StartKind
	Offset       int64 // for FromOffset
	Timestamp    int64 // ms, for FromTimestamp
	EndOffset    int64 // exclusive; -1 = none
	EndTimestamp int64 // exclusive, ms; -1 = none. The answer ends before the first record at or after it + Lateness
	Lateness     int64 // ms, not negative: how far out of order timestamps may be; records from EndTimestamp on are left out
	MaxBytes     int64 // of stored batches; the first batch with data is always whole, hidden batches are free
	MaxRecords   int64 // 0 = no limit
	Isolation    Isolation
	Lane         readerpool.Lane // which reads of the store wait in: Interactive, or Bulk for a backfill
	Timeout      time.Duration   // spent waiting for pool, store and memory, not for the client; 0 = no limit

	// With HasStartTimestamp, records before StartTimestamp (ms) are left out. It is a filter: where to start is Start's.
	StartTimestamp    int64
	HasStartTimestamp bool

	// Stream: the answer is sent while it is read, and goes on to its end. Timeout then bounds each wait until something
	// moves instead of all waits together, what refuses for the moment (Busy) is asked again within it once there was
	// progress, and when it is used up the answer ends with an error instead of EndLimit.
	Stream bool
}

// EndReason tells why an answer stopped.
type EndReason uint8

const (
	EndLimit     EndReason = iota + 1 // bytes, records or (unless Stream) time; go on at NextOffset
	EndRange                          // the asked end
	EndTier                           // the tier ends here
	EndUndecided                      // read_committed can't be proven further

	// endSegment ends a search by time within one segment; it never leaves the package.
	endSegment
)

// String gives the word that answers use: limit, range, tier, undecided.
func (r EndReason) String() string {
	switch r {
	case EndLimit:
		return "limit"
	case EndRange:
		return "range"
	case EndTier:
		return "tier"
	case EndUndecided:
		return "undecided"
	}
	return "none"
}

// Bounds of the partition as the answer's headers show them; -1 = unknown. TieredEnd is exclusive.
type Bounds struct {
	Start, LocalStart, TieredEnd, LastStable, HighWatermark int64
}

// Clustered says that brokers reported something of the partition, not always all: some know no local start
// (ListOffsets below version 8). What the tier does not have may be theirs.
func (b *Bounds) Clustered() bool {
	return b.LocalStart >= 0 || b.LastStable >= 0 || b.HighWatermark >= 0
}

// Stats counts what one answer took and waited for itself. Chunks that read-ahead brought, the answer's own included,
// count as in memory or joined, and the requests for them are in no answer's Stats.
type Stats struct {
	ChunksMem, ChunksMissed, ChunksJoined int
	StoreRequests                         int
	StoreBytes                            int64
	Resolve, Index, Store                 time.Duration
}
