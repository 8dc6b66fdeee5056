// Package layout knows how a segment lies in the object store: the names of its objects, and how stored bytes become
// log bytes. Its sub-packages are the layouts: native (coldtap's own), aiven (the plugin
// tiered-storage-for-apache-kafka) and local (LocalTieredStorage of Apache Kafka's tests).
package layout

import (
	"context"

	"coldtap/internal/readcost"
	"coldtap/segment"
	"coldtap/tier"
)

// Reader gives a segment's bytes. All methods may be called concurrently. ReadLog and ReadFiles send store requests, so
// callers bound how many run at a time; ChunkSize and Expect send none. Errors are *rangeio.Error (the store's) or
// *Error (the object's content).
type Reader interface {
	// ChunkSize is the length of the pieces in which the segment's log is best read and cached, at most max. All
	// pieces of a segment have this length but the last.
	ChunkSize(seg *tier.Segment, max int64) int64
	// ReadLog fills dst with log bytes [off, off+len(dst)). *rangeio.Error of Kind Changed: the object was overwritten
	// since an earlier read of it, so what the caller keeps of the segment has to go.
	ReadLog(ctx context.Context, seg *tier.Segment, dst []byte, off int64) (readcost.Cost, error)
	// ReadFiles reads all small files.
	ReadFiles(ctx context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error)
	// Expect tells, without a request, what d would take now. What only the store knows is estimated.
	Expect(seg *tier.Segment, d Demand) readcost.Cost
}

// Demand is what is to be read of a segment.
type Demand struct {
	Files  bool    // ReadFiles
	Chunk  int64   // length of a piece of the log; the last one of a log may be shorter
	Pieces []int64 // numbers of the pieces, ascending, each read by a ReadLog of its own
}

// Piece gives the log bytes [from, to) of a piece.
func (d *Demand) Piece(seg *tier.Segment, n int64) (from, to int64) {
	return n * d.Chunk, min((n+1)*d.Chunk, seg.Size)
}

// Error says that an object is there but does not hold what it should.
type Error struct {
	Object string
	Err    error
	// Unreadable says that stored bytes of a log cannot be made log bytes: they fail authentication or decompression, or
	// need more memory than is allowed. Position is where in the log they belong.
	Unreadable bool
	Position   int64
}

func (e *Error) Error() string { return e.Object + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
