package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"coldtap/bench/simstore"
	"coldtap/fetch"
	"coldtap/internal/assembly"
	"coldtap/layout/native"
	"coldtap/rangeio"
)

// The engine under the counting benchmarks: small, so that a scan of ten times the bound is quick.
const (
	scanMemory   = 8 << 20
	scanChunk    = 256 << 10
	scanSegment  = 16 << 20
	scanSegments = 5
)

// smallSpec is 80 MiB of 1 KiB records in batches of 16.
var smallSpec = Spec{Segments: scanSegments, SegmentBytes: scanSegment, BatchRecords: 16, ValueBytes: 1000}

// rig is a dataset with a read path over it whose store counts its GETs.
type rig struct {
	data  *Dataset
	store *simstore.Counting
	path  *assembly.ReadPath
}

func newRig(ctx context.Context, spec Spec, memory, chunk int64) (*rig, error) {
	return newRigOn(ctx, simstore.NewCounting(simstore.NewMemory()), spec, memory, chunk)
}

func newRigOn(ctx context.Context, store *simstore.Counting, spec Spec, memory, chunk int64) (*rig, error) {
	data, err := Generate(ctx, store, spec)
	if err != nil {
		return nil, err
	}
	path, err := assembly.New(assembly.Options{
		Source: data, Layout: native.New(rangeio.NewClient(store, rangeio.Config{}), ""),
		ChunkMemory: memory, Chunk: chunk, IndexMemory: 16 << 20, DecodeMemory: 64 << 20,
		Threads: 16, MaxPending: 1024, QueueTimeout: time.Minute, Ahead: 2,
	})
	if err != nil {
		return nil, err
	}
	return &rig{data: data, store: store, path: path}, nil
}

// chunks is how many chunks the log bytes [0, bytes) of every segment make.
func (r *rig) chunks(chunk int64) (n int) {
	for _, seg := range r.data.Segments {
		n += int((seg.Size + chunk - 1) / chunk)
	}
	return n
}

// read reads [from, to) as raw runs, following the next offset as a client would, and gives the bytes served.
func (r *rig) read(ctx context.Context, from, to, maxBytes int64) (served int64, err error) {
	for from < to {
		req := fetch.Request{
			Topic: Topic, Offset: from, EndOffset: to, EndTimestamp: -1, MaxBytes: maxBytes,
			Isolation: fetch.ReadUncommitted, Timeout: time.Minute,
		}
		next, n, err := r.answer(ctx, &req)
		if err != nil {
			return served, err
		}
		if next <= from {
			return served, fmt.Errorf("no progress at offset %d", from)
		}
		served, from = served+n, next
	}
	return served, nil
}

func (r *rig) answer(ctx context.Context, req *fetch.Request) (next, served int64, err error) {
	stream, err := r.path.Service.Open(ctx, req)
	if err != nil {
		return 0, 0, err
	}
	defer stream.Close()
	var run fetch.Run
	for {
		err := stream.NextRun(ctx, &run)
		if errors.Is(err, io.EOF) {
			return stream.NextOffset(), served, nil
		}
		if err != nil {
			return 0, served, err
		}
		served += int64(len(run.Bytes()))
		run.Release()
	}
}

// herdReaders is how many clients want the same cold range at once.
const herdReaders = 100

// Herd lets 100 readers read the same cold range together and counts the store's log GETs.
func Herd(ctx context.Context) ([]Figure, error) {
	spec := smallSpec
	spec.Segments = 1
	r, err := newRig(ctx, spec, 64<<20, scanChunk)
	if err != nil {
		return nil, err
	}
	defer r.path.Close(ctx)
	var wg sync.WaitGroup
	errs := make([]error, herdReaders)
	for i := range herdReaders {
		wg.Go(func() { _, errs[i] = r.read(ctx, 0, r.data.Records, 4<<20) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	gets, chunks := r.store.LogGets(), r.chunks(scanChunk)
	f := Figure{Name: "log GETs per chunk, 100 readers", Value: fmt.Sprintf("%d / %d", gets, chunks), Bar: "exactly 1"}
	f.OK = gets == int64(chunks)
	return []Figure{f}, nil
}

// Scan reads ten times the memory bound once, from the first to the last record, and counts.
func Scan(ctx context.Context) ([]Figure, error) {
	r, err := newRig(ctx, smallSpec, scanMemory, scanChunk)
	if err != nil {
		return nil, err
	}
	defer r.path.Close(ctx)
	served, err := r.read(ctx, 0, r.data.Records, 1<<20)
	if err != nil {
		return nil, err
	}
	if served != r.data.Bytes {
		return nil, fmt.Errorf("served %d bytes of %d", served, r.data.Bytes)
	}
	return []Figure{
		atMost("log GETs / chunks", float64(r.store.LogGets())/float64(r.chunks(scanChunk)), 1.02, ""),
		atMost("bytes fetched / served", float64(r.store.BytesRead())/float64(served), 1.05, ""),
	}, nil
}
