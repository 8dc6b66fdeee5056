package offload

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"coldtap/catalog"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"

	"golang.org/x/time/rate"
)

// offloader is one call of Once.
type offloader struct {
	cfg     Config
	metrics *metrics
	limiter *rate.Limiter // nil = no limit
	report  Report

	mu          sync.Mutex
	done, total int64 // bytes of eligible segments: sent, and in all
}

// Once copies what is eligible and not yet in the tier, and reports what it did and did not do. Partitions are copied
// one after another, segments in offset order; when a partition fails the others go on, and Report.Failed is true. A
// run after one that was killed at any point ends in the same state as an undisturbed run.
//
// The error, an *Error, is about the run as a whole: it could not start, or ctx ended. The report holds what was done
// until then. At most one run may work with a catalog at a time.
func Once(ctx context.Context, cfg Config) (Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	r := &offloader{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
	if cfg.Rate > 0 {
		// A quarter of a second's worth in one go, and never more than a piece of 1 MiB.
		r.limiter = rate.NewLimiter(rate.Limit(cfg.Rate), int(min(max(cfg.Rate/4, 1), 1<<20)))
	}
	dirs, err := openLogDirs(cfg.LogDirs)
	if err != nil {
		return r.report, err
	}
	defer closeLogDirs(dirs)
	found, skipped, err := findPartitions(dirs)
	if err != nil {
		return r.report, err
	}
	r.report.ClusterID, r.report.BrokerID = dirs[0].clusterID, dirs[0].brokerID
	if err := cfg.Catalog.ClaimCluster(ctx, r.report.ClusterID); err != nil {
		kind := Unavailable
		var e *catalog.Error
		if errors.As(err, &e) && e.Kind == catalog.WrongCluster {
			kind = WrongCluster
		}
		return r.report, &Error{Kind: kind, Op: "claim the catalog", Err: err}
	}
	r.report.Skipped = skipped
	for _, s := range skipped {
		r.emit(Event{Step: StepLeft, Base: -1, End: -1, Reason: s.Reason, Detail: s.Path})
	}
	r.report.Partitions = make([]PartitionReport, len(found))
	partitions := make([]*localLog, len(found))
	for i, d := range found {
		report := &r.report.Partitions[i]
		*report = PartitionReport{Topic: d.topic, Partition: d.partition, Dir: d.path(), TieredEnd: -1}
		partitions[i] = &localLog{partitionDir: d, report: report}
	}
	err = r.planAndCopy(ctx, partitions)
	return r.report, err
}

// planAndCopy plans all partitions, so that the bytes to copy are known, and then copies them.
func (r *offloader) planAndCopy(ctx context.Context, partitions []*localLog) error {
	for _, p := range partitions {
		if reason, ok := r.cfg.wants(p.topic); !ok {
			r.reportLeft(p, Leftover{Base: -1, End: -1, Reason: reason})
			continue
		}
		if err := ctx.Err(); err != nil {
			r.reportLeft(p, Leftover{Base: -1, End: -1, Reason: Canceling, Detail: err.Error()})
			continue
		}
		r.planPartition(ctx, p)
	}
	for _, p := range partitions {
		if err := r.checkStore(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range partitions {
		if !p.planned {
			continue
		}
		// A broker that is started in the middle would change files under the copy.
		if err := p.dir.checkLock(); err != nil {
			return err
		}
		r.copyPartition(ctx, p)
		p.report.sortLeft()
		for _, text := range p.report.Notes {
			r.emit(Event{Step: StepNoted, Topic: p.topic, Partition: p.partition, Base: -1, End: -1, Detail: text})
		}
	}
	if ctx.Err() != nil {
		return &Error{Kind: Canceled, Op: "offload", Err: ctx.Err()}
	}
	return nil
}

// checkStore refuses a partition with something to copy of which the store holds more than the catalog knows: the
// catalog is new, lost, or an old copy of itself, and what is there already would be copied again under other ids. What
// the store withholds is an error only where the catalog knows nothing of the partition.
func (r *offloader) checkStore(ctx context.Context, p *localLog) error {
	if !p.planned || len(p.eligible) == 0 && len(p.inHoles) == 0 && p.active == nil {
		return nil
	}
	recorded, ok := r.recorded(p)
	seg, err := r.cfg.Layout.Unknown(ctx, p.topic, p.id, func(name layout.Name) bool {
		if !ok {
			return false
		}
		if _, recordedIt := recorded.Segment(name.ID); recordedIt {
			return true
		}
		_, covered := recorded.Find(name.BaseOffset) // a copy of what is there under another id does no harm
		return covered
	})
	if why, withheld := rangeio.Withheld(err); withheld && ok {
		// A rebuild leaves such segments out and says so; their range lies with the records that it knows of the partition.
		p.report.Notes = append(p.report.Notes, "the store withholds objects that the metadata does not know, which are not taken into account: "+why)
		return nil
	}
	op := fmt.Sprintf("compare the store's copies of %s-%d with the metadata", p.topic, p.id.Partition)
	switch {
	case ctx.Err() != nil:
		return &Error{Kind: Canceled, Op: "offload", Err: ctx.Err()}
	case err != nil:
		return &Error{Kind: Unavailable, Op: op, Err: err}
	case seg != nil:
		return &Error{Kind: Untracked, Op: op, Err: fmt.Errorf(
			"the store holds segment %s (offsets %d to %d), which the metadata does not know; nothing was copied", seg.ID, seg.BaseOffset, seg.EndOffset)}
	}
	return nil
}

// faultOf is the function faultOf, but Canceling once the caller's context has ended.
func (r *offloader) faultOf(ctx context.Context, err error) *fault {
	if ctx.Err() != nil {
		return &fault{Canceling, ctx.Err()}
	}
	return faultOf(err)
}

// reportLeft reports something that is not copied.
func (r *offloader) reportLeft(p *localLog, l Leftover) {
	p.report.addLeft(l)
	r.emitLeft(p, l)
}

func (r *offloader) emitLeft(p *localLog, l Leftover) {
	r.emit(Event{
		Step: StepLeft, Topic: p.topic, Partition: p.partition, Base: l.Base, End: l.End,
		Segments: l.Segments, Bytes: l.Bytes, Reason: l.Reason, Detail: l.Detail,
	})
}

// countStopped counts a partition that fails, once, by its first reason.
func (r *offloader) countStopped(p *localLog, reason Reason) {
	if reason.Failure() && !p.stopped {
		p.stopped = true
		r.metrics.stopped.WithLabelValues(reason.label()).Inc()
	}
}

// emit passes an event on, with the bytes done and in all.
func (r *offloader) emit(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Done, e.Total = r.done, r.total
	if r.cfg.Logger.Enabled(context.Background(), slog.LevelDebug) {
		r.cfg.Logger.Debug("offload", "step", e.Step.String(), "topic", e.Topic, "partition", e.Partition, "base", e.Base,
			"end", e.End, "bytes", e.Bytes, "reason", string(e.Reason), "detail", e.Detail, "done", e.Done, "total", e.Total)
	}
	if r.cfg.Progress != nil {
		r.cfg.Progress(e)
	}
}

// sortLeft puts what was left in offset order and joins neighbours.
func (p *PartitionReport) sortLeft() {
	slices.SortStableFunc(p.Left, func(a, b Leftover) int {
		switch {
		case a.Base < b.Base:
			return -1
		case a.Base > b.Base:
			return 1
		}
		return 0
	})
	left := p.Left
	p.Left = nil
	for _, l := range left {
		p.addLeft(l)
	}
}

// newSegmentID draws a random id as Kafka's Uuid.randomUuid does: version 4, none of the reserved ones, and none whose
// text begins with a dash, which command lines would take for an option.
func newSegmentID() segment.UUID {
	for {
		var id segment.UUID
		rand.Read(id[:])
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}
