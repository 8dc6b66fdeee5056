package gateway

import (
	"context"
	"sync"
	"time"

	"coldtap/fetch"
	"coldtap/segment"
)

// service is what the data plane uses of fetch.Service. It is an interface so that tests can script reads that block,
// break or panic at a chosen moment.
type service interface {
	Open(ctx context.Context, req *fetch.Request) (stream, error)
	Plan(ctx context.Context, req *fetch.Request) (*fetch.Plan, error)
	OpenFile(ctx context.Context, topic string, id segment.UUID, partition int32, seg, file string,
		timeout time.Duration) (file, error)
	OffsetForTime(ctx context.Context, topic string, id segment.UUID, partition int32, ts int64, iso fetch.Isolation,
		timeout time.Duration) (fetch.TimedOffset, error)
	TimeSpan(topic string, id segment.UUID, partition int32) (from, to int64, known bool)
	Topics(internal bool) ([]string, error)
	Topic(name string, id segment.UUID) (fetch.TopicInfo, error)
	Partition(topic string, id segment.UUID, partition int32) (fetch.PartitionInfo, error)
	Segments(topic string, id segment.UUID, partition int32, all bool) ([]fetch.SegmentInfo, error)
	Ready() error
	ClusterID() string
}

// piece is pinned bytes of an answer, as a fetch.Run is: valid until Release.
type piece interface {
	Bytes() []byte
	InDecodeMemory() bool
	Release()
}

// maxPieces is how many pieces of one answer may be held at a time.
const maxPieces = 8

// pieces yields the bytes of an answer in order, io.EOF at the end. The caller keeps each piece in a slot of its
// choice, 0 ≤ slot < maxPieces, and must have released what was in the slot before.
type pieces interface {
	next(ctx context.Context, slot int) (piece, error)
	Close()
}

// stream is fetch.Stream.
type stream interface {
	pieces
	NextRecord(ctx context.Context, rec *segment.Record) error
	Buffered() bool
	DecodeHeld() int64
	NextOffset() int64
	Whole() bool
	End() (reason fetch.EndReason, decided int64)
	Bounds() fetch.Bounds
	Stats() *fetch.Stats
	Topic() (name string, id segment.UUID)
	StartOffset() int64
	Settled(ctx context.Context, ids []segment.UUID) (all []segment.UUID, settled bool)
}

// file is fetch.File.
type file interface {
	Size() int64
	ETag() string
	open(from, to int64) pieces
}

// fetchService is the real service.
type fetchService struct{ *fetch.Service }

// fetchStream keeps the runs of a stream beside it, so that handing one out allocates nothing. Pooled.
type fetchStream struct {
	*fetch.Stream
	runs [maxPieces]fetch.Run
}

var fetchStreams = sync.Pool{New: func() any { return new(fetchStream) }}

func (s fetchService) Open(ctx context.Context, req *fetch.Request) (stream, error) {
	opened, err := s.Service.Open(ctx, req)
	if err != nil {
		return nil, err
	}
	st := fetchStreams.Get().(*fetchStream)
	st.Stream = opened
	return st, nil
}

func (s *fetchStream) next(ctx context.Context, slot int) (piece, error) {
	run := &s.runs[slot]
	if err := s.NextRun(ctx, run); err != nil {
		return nil, err
	}
	return run, nil
}

func (s *fetchStream) Close() {
	s.Stream.Close()
	s.Stream = nil
	fetchStreams.Put(s)
}

func (s fetchService) OpenFile(ctx context.Context, topic string, id segment.UUID, partition int32, seg, name string,
	timeout time.Duration) (file, error) {
	opened, err := s.Service.OpenFile(ctx, topic, id, partition, seg, name, timeout)
	if err != nil {
		return nil, err
	}
	return fetchFile{opened}, nil
}

type fetchFile struct{ *fetch.File }

func (f fetchFile) open(from, to int64) pieces {
	return &fetchFileRange{FileStream: f.Range(from, to)}
}

type fetchFileRange struct {
	*fetch.FileStream
	runs [maxPieces]fetch.Run
}

func (r *fetchFileRange) next(ctx context.Context, slot int) (piece, error) {
	run := &r.runs[slot]
	if err := r.Next(ctx, run); err != nil {
		return nil, err
	}
	return run, nil
}
