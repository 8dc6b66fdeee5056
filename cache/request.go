package cache

import (
	"context"
	"fmt"

	"coldtap/internal/readcost"
	"coldtap/readerpool"
	"coldtap/tier"
)

// Key names a chunk: its segment (by ids, never by name, so that a topic deleted and created again shares nothing) and
// its number in the segment.
type Key struct {
	Segment tier.SegmentKey
	Chunk   int32
}

// String shows the key for people.
func (k Key) String() string {
	s := &k.Segment
	return fmt.Sprintf("%v/%d/%v#%d", s.Partition.Topic, s.Partition.Partition, s.ID, k.Chunk)
}

// Source loads chunks. A value stands for one segment and is shared by its chunks; it must stay valid after the request
// that brought it. Called concurrently.
type Source interface {
	// LoadChunk fills all of dst with the log bytes [off, off+len(dst)), or fails. It must not touch dst after it
	// returned. ctx is the flight's, not a request's. Of a load in the lane Ahead no reader waits yet. A Source that
	// queues for its turn says so with Queued.
	LoadChunk(ctx context.Context, off int64, dst []byte, lane readerpool.Lane) (readcost.Cost, error)
}

// Request asks for a chunk. Off and Len are the same in every request with the same Key.
type Request struct {
	Key    Key
	Off    int64 // position of the chunk's first byte in the log
	Len    int   // bytes, 1 to Config.Chunk
	Source Source
	Lane   readerpool.Lane
}

// Outcome says where a chunk came from.
type Outcome struct {
	Level Level
	Cost  readcost.Cost // only for the caller whose flight it was, also when it failed
}

// Level is where a chunk came from.
type Level uint8

const (
	Mem    Level = iota // it was in memory
	Miss                // this caller's flight fetched it
	Joined              // the flight of another caller fetched it
)

// check refuses what no chunk can satisfy.
func (r *Request) check(limit int) error {
	switch {
	case r.Source == nil:
		return &Error{Kind: BadRequest, Key: r.Key, Err: fmt.Errorf("no source")}
	case r.Len < 1 || r.Len > limit:
		return &Error{Kind: BadRequest, Key: r.Key, Err: fmt.Errorf("length %d is not within 1 and %d", r.Len, limit)}
	case r.Off < 0:
		return &Error{Kind: BadRequest, Key: r.Key, Err: fmt.Errorf("negative position %d", r.Off)}
	}
	return nil
}
