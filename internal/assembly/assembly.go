// Package assembly puts the read path together: it gives the chunk cache and the index cache their loaders, sends every
// read of the store through the reader pool, and translates errors of the store and the layout into fetch's errors. The
// commands, the benchmarks and the end-to-end tests build coldtap from here, so that what is measured is what runs.
//
// It makes no decisions: numbers come from its Options.
package assembly

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"coldtap/cache"
	"coldtap/fetch"
	"coldtap/indexcache"
	"coldtap/internal/budget"
	"coldtap/internal/metric"
	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/readahead"
	"coldtap/readerpool"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the parts and numbers of a read path.
type Options struct {
	Source fetch.Source  // what exists
	Layout layout.Reader // where its bytes are

	ChunkMemory  int64 // arena bytes
	Chunk        int64 // bytes of a whole chunk
	IndexMemory  int64 // bytes
	DecodeMemory int64 // bytes

	Threads      int // reads of the store at a time
	MaxPending   int // reads waiting
	QueueTimeout time.Duration
	Ahead        int // chunks read ahead; 0 = the default

	// Pressure is called while loads wait for chunk memory (cache.Config.Pressure). May be nil.
	Pressure func()

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// ReadPath is an assembled read path. Service is what gateways use.
type ReadPath struct {
	Service *fetch.Service
	Chunks  *cache.Cache
	Indexes *indexcache.Cache
	Pool    *readerpool.Pool
	Decode  *budget.Budget
}

// New assembles a read path. The caller must Close it.
func New(o Options) (*ReadPath, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Logger = slog.New(onceASegment(o.Logger.Handler()))
	pool := readerpool.New(readerpool.Config{
		Threads: o.Threads, MaxPending: o.MaxPending, QueueTimeout: o.QueueTimeout, Registerer: o.Registerer,
	})
	chunks, err := cache.New(cache.Config{
		Memory: o.ChunkMemory, Chunk: int(o.Chunk), Registerer: o.Registerer, Pressure: o.Pressure,
	})
	if err != nil {
		return nil, err
	}
	indexes, err := indexcache.New(indexcache.Config{Memory: o.IndexMemory, Logger: o.Logger, Registerer: o.Registerer},
		func(ctx context.Context, seg *tier.Segment) (files *segment.Files, cost readcost.Cost, err error) {
			err = pool.Do(ctx, readerpool.Interactive, func(ctx context.Context) error {
				var err error
				cost, err = twice(func() (cost readcost.Cost, err error) {
					files, cost, err = o.Layout.ReadFiles(ctx, seg)
					return cost, err
				})
				return err
			})
			return files, cost, o.explain(err, seg)
		})
	if err != nil {
		return nil, errors.Join(err, chunks.Close(context.Background()))
	}
	decode := budget.NewWithReserve(o.DecodeMemory, min(o.DecodeMemory/16, smallReserve))
	shared := metric.For(o.Registerer) // no room owns the budget that they share
	metric.GaugeFunc(shared, "coldtap_decode_memory_bytes",
		"Memory for decompression and for bodies being built, the bound.", decode.Size)
	metric.GaugeFunc(shared, "coldtap_decode_memory_in_use_bytes",
		"Memory reserved for decompression and for bodies being built.", decode.InUse)
	if err := shared.Err(); err != nil {
		return nil, errors.Join(err, indexes.Close(context.Background()), chunks.Close(context.Background()))
	}
	service := fetch.New(fetch.Config{
		Source:  o.Source,
		Chunks:  chunks,
		Ahead:   readahead.New(chunks, readahead.Config{Window: o.Ahead}),
		Indexes: indexes,
		Logs: func(seg *tier.Segment) (cache.Source, int64) {
			return &log{options: &o, pool: pool, seg: seg}, o.Layout.ChunkSize(seg, o.Chunk)
		},
		Expected: func(seg *tier.Segment, chunk int64, pieces []int64, files bool) readcost.Cost {
			return o.Layout.Expect(seg, layout.Demand{Files: files, Chunk: chunk, Pieces: pieces})
		},
		Decode:     decode,
		Logger:     o.Logger,
		Registerer: o.Registerer,
	})
	return &ReadPath{Service: service, Chunks: chunks, Indexes: indexes, Pool: pool, Decode: decode}, nil
}

// twice reads once more when the layout finds the content wrong: the object may be sound, and the damage may come from
// its way here.
func twice(read func() (readcost.Cost, error)) (readcost.Cost, error) {
	cost, err := read()
	if _, ok := errors.AsType[*layout.Error](err); !ok {
		return cost, err
	}
	more, err := read()
	cost.Add(more)
	return cost, err
}

// Drop forgets everything cached of a segment; called when its deletion shows in the metadata.
func (r *ReadPath) Drop(seg *tier.Segment) {
	r.Chunks.DropSegment(seg.Key())
	r.Indexes.Drop(seg)
}

// Close ends reads of the store and frees the memory. Streams must be closed before.
func (r *ReadPath) Close(ctx context.Context) error {
	return errors.Join(r.Pool.Close(ctx), r.Indexes.Close(ctx), r.Chunks.Close(ctx))
}

// log is one segment's log as the chunk cache sees it.
type log struct {
	options *Options
	pool    *readerpool.Pool
	seg     *tier.Segment
}

// LoadChunk implements cache.Source.
func (l *log) LoadChunk(
	ctx context.Context, off int64, dst []byte, lane readerpool.Lane) (cost readcost.Cost, err error) {
	begun := cache.Queued(ctx) // until the pool admits it, a load is cancelled when its last reader leaves
	err = l.pool.Do(ctx, lane, func(ctx context.Context) error {
		begun()
		if err := ctx.Err(); err != nil {
			return err // cancelled between admission and here
		}
		var err error
		cost, err = twice(func() (readcost.Cost, error) { return l.options.Layout.ReadLog(ctx, l.seg, dst, off) })
		return err
	})
	return cost, l.options.explain(err, l.seg)
}

// smallReserve is the most of the decode memory that is kept for small reservations: the first blocks of 128 answers of
// records, or as many batches of the usual size.
const smallReserve = 8 << 20
