package fetch

import (
	"cmp"
	"context"
	"log/slog"
	"sync"

	"coldtap/cache"
	"coldtap/indexcache"
	"coldtap/internal/budget"
	"coldtap/internal/readcost"
	"coldtap/readahead"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// Source is what fetch needs of a catalog. All methods may be called concurrently.
type Source interface {
	Snapshot() *tier.Snapshot
	Ready() error // nil once the metadata is complete
	// Refresh catches up now; nil means that the view is from after the call, for what concerns the partition: what its
	// bounds then lack is not known to any broker either.
	Refresh(ctx context.Context, partition tier.PartitionID) error
	ClusterID() string
}

// Live is what a Source can do besides that follows a running cluster. All methods may be called concurrently.
type Live interface {
	// Recent says that the view's bounds of a partition, and where its tier ends, were reported just now.
	Recent(partition tier.PartitionID) bool
	// Include brings a topic into the view that the cluster has and the tier holds nothing of, by its name or else its id.
	// nil: it is there now, or the cluster has none.
	Include(ctx context.Context, name string, id segment.UUID) error
}

// LogSource gives the chunk source and chunk length (bytes, at least 1) of a segment's log; made at wiring. The same
// segment must get the same length every time, since chunks are cached by their number.
type LogSource func(seg *tier.Segment) (src cache.Source, chunk int64)

// Expected is what reading pieces of a segment's log (numbers of chunks of so many bytes, ascending), and with files
// its small files, would take of the store now; made at wiring. nil: a request each.
type Expected func(seg *tier.Segment, chunk int64, pieces []int64, files bool) readcost.Cost

// Config is what a Service works with. All but Expected, Logger and Registerer must be set.
type Config struct {
	Source     Source
	Chunks     *cache.Cache
	Ahead      *readahead.Readahead
	Indexes    *indexcache.Cache
	Logs       LogSource
	Expected   Expected
	Decode     *budget.Budget // limits.decode_memory; one batch may have half of it to be assembled and half decompressed
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Service answers reads. All methods may be called concurrently.
type Service struct {
	cfg     Config
	metrics *metrics
	streams sync.Pool

	freeScan int64 // bytes
}

// freeScan bounds the hidden batches that one answer passes over beyond its MaxBytes: an answer over gigabytes of
// aborted data ends, with progress, instead of reading for minutes without a byte to show.
const freeScan = 64 << 20

// New makes a Service. It starts no goroutine and needs no closing.
func New(cfg Config) *Service {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Expected == nil {
		cfg.Expected = func(seg *tier.Segment, chunk int64, pieces []int64, files bool) readcost.Cost {
			cost := readcost.Cost{Requests: len(pieces)}
			for _, n := range pieces {
				cost.Bytes += min(chunk, seg.Size-n*chunk)
			}
			if files {
				cost.Requests++
			}
			return cost
		}
	}
	s := &Service{cfg: cfg, metrics: newMetrics(cfg.Registerer), freeScan: freeScan}
	s.streams.New = func() any { return newStream(s) }
	return s
}

// Ready is nil when reads can be answered, else why not: an *Error of kind NotReady, or Refused when an operator has
// to mend something first.
func (s *Service) Ready() error {
	err := s.cfg.Source.Ready()
	if err == nil {
		return nil
	}
	return failure(NotReady, err, "metadata is not ready")
}

// ClusterID names the cluster whose tier this is.
func (s *Service) ClusterID() string { return s.cfg.Source.ClusterID() }
