package offload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"coldtap/layout/native"
	"coldtap/tier"
)

// copyTask copies one partition, as RemoteLogManager's copy task does.
type copyTask struct {
	*offloader
	p     *localLog
	later laterMarkers
	// unfinished are this broker's copies in state COPY_SEGMENT_STARTED that may be resumed.
	unfinished []*tier.Segment
	recorded   bool // topic and partition are in the catalog
}

// copyPartition copies what the plan found, up to the first segment that cannot be copied.
func (r *offloader) copyPartition(ctx context.Context, p *localLog) {
	c := &copyTask{offloader: r, p: p, later: laterMarkers{p: p}}
	if left, err := c.copySegments(ctx); err != nil {
		c.reportStop(ctx, left, err)
	}
	r.recorded(p)
}

// copySegments copies the segments that lie in holes, then those behind the tiered end. left are those that an error
// leaves uncopied.
func (c *copyTask) copySegments(ctx context.Context) (left []*localSegment, err error) {
	left = slices.Concat(c.p.inHoles, c.p.eligible)
	if err := c.removeUnfinished(ctx); err != nil {
		return left, err
	}
	// A partition is recorded before anything of it is tiered: to readers, an empty partition is no unknown topic.
	if !c.p.known && len(c.p.segments) > 0 {
		if err := c.recordPartition(ctx); err != nil {
			return left, err
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	if err := c.p.reopen(); err != nil {
		return left, err
	}
	defer c.p.close()
	for n, s := range c.p.inHoles {
		if err := c.fillHole(ctx, s); err != nil {
			return left[n:], err
		}
	}
	left = c.p.eligible
	if len(left) == 0 {
		return nil, nil
	}
	if err := c.checkGap(ctx); err != nil {
		return left, err
	}
	var open *transactions
	for n, s := range left {
		var err error
		if open, err = c.checkAndCopy(ctx, s, open); err == nil {
			continue
		}
		if f := c.faultOf(ctx, err); f.reason == Damaged && c.cfg.SkipDamaged {
			err = c.giveUp(ctx, s, f)
		}
		if err != nil {
			return left[n:], err
		}
		open = nil
		c.later = laterMarkers{p: c.p}
	}
	return nil, nil
}

// fillHole copies a segment that lies in a hole, if it is sound by now because the good file was put back. As long as
// it is damaged, it stays a known hole, and nothing fails.
func (c *copyTask) fillHole(ctx context.Context, s *localSegment) error {
	_, err := c.checkAndCopy(ctx, s, nil)
	c.later = laterMarkers{p: c.p}
	if err == nil {
		return nil
	}
	switch f := c.faultOf(ctx, err); f.reason {
	case Damaged, Unreadable, NoLeaderEpoch:
		if !overlapsHole(s, c.p.holes) { // missing from the tier without a recorded hole
			if f.reason == Damaged && c.cfg.SkipDamaged {
				return c.giveUp(ctx, s, f)
			}
			return err
		}
		c.reportLeft(c.p, s.leftover(KnownHole, f.Error()))
		c.reduceTotal(s.size)
		return nil
	}
	return err
}

// checkAndCopy checks and copies a segment. open is the state of transactions at its base, nil = not known yet; the
// result is the state at its end.
func (c *copyTask) checkAndCopy(ctx context.Context, s *localSegment, open *transactions) (*transactions, error) {
	if open == nil {
		var err error
		if open, _, err = c.p.stateAt(ctx, s.base); err != nil {
			return nil, fmt.Errorf("the transactions that are open at offset %d cannot be told: %w", s.base, err)
		}
	}
	checked, err := c.p.checkSegment(ctx, s, open, &c.later)
	if err != nil {
		return nil, err
	}
	defer checked.close()
	for _, f := range checked.rebuilt {
		text := fmt.Sprintf("%020d%s: %s", s.base, f.suffix, f.why)
		c.p.report.Rebuilt = append(c.p.report.Rebuilt, text)
		c.metrics.rebuilt.WithLabelValues(f.suffix[1:]).Inc()
		c.emit(c.event(s, StepRebuilt, text))
	}
	if err := c.copySegment(ctx, checked); err != nil {
		return nil, err
	}
	c.later.forget(s.next)
	return open, nil
}

// copySegment copies a checked segment: COPY_SEGMENT_STARTED, its objects, COPY_SEGMENT_FINISHED.
func (c *copyTask) copySegment(ctx context.Context, s *checked) error {
	if err := c.recordPartition(ctx); err != nil {
		return err
	}
	seg, err := c.startCopy(ctx, s)
	if err != nil {
		return err
	}
	c.mu.Lock()
	before := c.done
	c.mu.Unlock()
	content := &logContent{ctx: ctx, name: s.logName(), log: s.log, size: s.size, limiter: c.limiter, sent: func(n int64) {
		c.mu.Lock()
		c.done = before + n
		c.mu.Unlock()
		c.emit(c.event(s.localSegment, StepCopying, ""))
	}}
	if err := c.cfg.Layout.Put(ctx, c.report.ClusterID, seg, content, s.sha256, &s.files); err != nil {
		// The copy stays in COPY_SEGMENT_STARTED: the next run resumes it under the same id, and overwrites.
		c.mu.Lock()
		c.done = before
		c.mu.Unlock()
		c.metrics.segments.WithLabelValues(resultFailed).Inc()
		return copyFault(content, err)
	}
	if err := c.cfg.Catalog.FinishCopy(ctx, c.p.id, seg.ID); err != nil {
		c.metrics.segments.WithLabelValues(resultFailed).Inc()
		return &fault{CatalogFailed, err}
	}
	c.mu.Lock()
	c.done = before + s.size
	c.mu.Unlock()
	c.p.report.Segments++
	c.p.report.Bytes += s.size
	c.metrics.segments.WithLabelValues(resultCopied).Inc()
	c.metrics.bytes.Add(float64(s.size))
	c.emit(c.event(s.localSegment, StepCopied, ""))
	// The segment is copied even if the wait fails; a context that has ended stops the next segment.
	_ = content.waitForRest()
	return nil
}

// copyFault tells a log that could not be read or has changed during the copy from a store that failed.
func copyFault(content *logContent, err error) *fault {
	if errors.Is(err, native.ErrSourceChanged) {
		return &fault{Changed, err}
	}
	if readErr := content.readError(); readErr != nil {
		return &fault{Unreadable, readErr}
	}
	return &fault{StoreFailed, err}
}

// recordPartition records topic and partition before anything of it is recorded.
func (c *copyTask) recordPartition(ctx context.Context) error {
	if c.recorded {
		return nil
	}
	if err := c.cfg.Catalog.PutTopic(ctx, c.p.id.Topic, c.p.topic); err != nil {
		return &fault{CatalogFailed, err}
	}
	if err := c.cfg.Catalog.PutPartition(ctx, c.p.id, c.p.start(), c.p.lineage); err != nil {
		return &fault{CatalogFailed, err}
	}
	c.recorded = true
	return nil
}

// startCopy records COPY_SEGMENT_STARTED, or finds the record of an earlier run's copy of the same segment.
func (c *copyTask) startCopy(ctx context.Context, s *checked) (*tier.Segment, error) {
	seg := tier.Segment{
		Partition: c.p.id, Topic: c.p.topic, BaseOffset: s.base, EndOffset: s.end(), MaxTimestamp: s.maxTimestamp,
		BrokerID: c.report.BrokerID, Epochs: s.epochs, Size: s.size, State: tier.CopyStarted,
		TxnIndexEmpty: len(s.files.TxnIndex) == 0,
	}
	for _, old := range c.unfinished {
		if old.BaseOffset != seg.BaseOffset || old.EndOffset != seg.EndOffset {
			continue
		}
		if sameSegment(old, &seg) {
			c.emit(c.event(s.localSegment, StepResumed, old.ID.String()))
			return old, nil
		}
		// The files have changed since, perhaps by the cleaner: the objects are those of another segment.
		if err := c.deleteCopy(ctx, old); err != nil {
			return nil, err
		}
	}
	seg.ID = newSegmentID()
	seg.EventTime = time.Now().UnixMilli()
	if err := c.cfg.Catalog.StartCopy(ctx, seg); err != nil {
		return nil, &fault{CatalogFailed, err}
	}
	return &seg, nil
}

// sameSegment compares all that is known of a segment but its id and the time.
func sameSegment(a, b *tier.Segment) bool {
	return a.Topic == b.Topic && a.MaxTimestamp == b.MaxTimestamp && a.Size == b.Size &&
		a.TxnIndexEmpty == b.TxnIndexEmpty && slices.Equal(a.Epochs, b.Epochs)
}

// removeUnfinished finishes started deletions, and deletes this broker's unfinished copies of segments that are no
// longer eligible. Unfinished copies of other brokers stay: those brokers may still be writing them.
func (c *copyTask) removeUnfinished(ctx context.Context) error {
	known, ok := c.cfg.Catalog.Snapshot().Partition(c.p.id)
	if !ok {
		return nil
	}
	for _, seg := range known.Segments(true) {
		switch {
		case seg.State == tier.DeleteStarted:
		case seg.State != tier.CopyStarted || seg.BrokerID != c.report.BrokerID:
			continue
		case c.isEligible(seg):
			c.unfinished = append(c.unfinished, seg)
			continue
		}
		if err := c.deleteCopy(ctx, seg); err != nil {
			return err
		}
	}
	return nil
}

func (c *copyTask) isEligible(seg *tier.Segment) bool {
	same := func(s *localSegment) bool { return s.base == seg.BaseOffset && s.end() == seg.EndOffset }
	return slices.ContainsFunc(c.p.eligible, same) || slices.ContainsFunc(c.p.inHoles, same)
}

// deleteCopy deletes an unfinished copy: DELETE_SEGMENT_STARTED, its objects, DELETE_SEGMENT_FINISHED. An earlier run
// may have got through a part of it.
func (c *copyTask) deleteCopy(ctx context.Context, seg *tier.Segment) error {
	if err := c.cfg.Catalog.StartDelete(ctx, seg.Partition, seg.ID); err != nil {
		return &fault{CatalogFailed, err}
	}
	if err := c.cfg.Layout.Delete(ctx, seg); err != nil {
		return &fault{StoreFailed, err}
	}
	if err := c.cfg.Catalog.FinishDelete(ctx, seg.Partition, seg.ID); err != nil {
		return &fault{CatalogFailed, err}
	}
	c.emit(Event{
		Step: StepRemoved, Topic: c.p.topic, Partition: c.p.partition, Base: seg.BaseOffset, End: seg.EndOffset,
		Segments: 1, Bytes: seg.Size, Detail: seg.ID.String(),
	})
	return nil
}

// checkGap reports offsets between the tiered end and the first eligible segment, which the broker has deleted before
// they were copied. With Config.SkipDamaged they become a hole.
func (c *copyTask) checkGap(ctx context.Context) error {
	first := c.p.eligible[0].base
	if !c.p.known || first <= c.p.tieredEnd {
		return nil
	}
	text := fmt.Sprintf("the tier ends at offset %d, the log begins at %d: the broker deleted what is between", c.p.tieredEnd, first)
	c.reportLeft(c.p, Leftover{Base: c.p.tieredEnd, End: first - 1, Reason: Gap, Detail: text})
	if !c.cfg.SkipDamaged {
		c.countStopped(c.p, Gap)
		return errGap
	}
	return c.recordHole(ctx, tier.Hole{From: c.p.tieredEnd, To: first, Reason: string(Gap)})
}

// errGap stops a partition whose leftover is reported already.
var errGap = errors.New("gap")

// giveUp records a hole for a damaged segment.
func (c *copyTask) giveUp(ctx context.Context, s *localSegment, f *fault) error {
	c.reportLeft(c.p, s.leftover(f.reason, f.err.Error()))
	c.reduceTotal(s.size)
	c.metrics.segments.WithLabelValues(resultHole).Inc()
	return c.recordHole(ctx, tier.Hole{From: max(s.base, c.p.copyFrom), To: s.next, Reason: f.Error()})
}

func (c *copyTask) recordHole(ctx context.Context, h tier.Hole) error {
	if err := c.recordPartition(ctx); err != nil {
		return err
	}
	if err := c.cfg.Catalog.RecordHole(ctx, c.p.id, h); err != nil {
		return &fault{CatalogFailed, err}
	}
	c.emit(Event{Step: StepRecorded, Topic: c.p.topic, Partition: c.p.partition, Base: h.From, End: h.To - 1, Detail: h.Reason})
	return nil
}

// reportStop reports why the copy of the partition stopped at the first of the segments that are left.
func (c *copyTask) reportStop(ctx context.Context, left []*localSegment, err error) {
	for n, s := range left {
		c.reduceTotal(s.size)
		if n > 0 || err == errGap {
			c.reportLeft(c.p, s.leftover(Behind, ""))
			continue
		}
		f := c.faultOf(ctx, err)
		c.countStopped(c.p, f.reason)
		if f.reason == Damaged {
			c.metrics.segments.WithLabelValues(resultDamaged).Inc()
		}
		c.reportLeft(c.p, s.leftover(f.reason, f.err.Error()))
	}
	// Without segments left, removeUnfinished failed: the report names no local segment.
	if len(left) == 0 && err != errGap {
		f := c.faultOf(ctx, err)
		c.countStopped(c.p, f.reason)
		c.reportLeft(c.p, Leftover{Base: -1, End: -1, Reason: f.reason, Detail: f.err.Error()})
	}
}

// reduceTotal takes a segment out of the bytes that are to be copied.
func (c *copyTask) reduceTotal(size int64) {
	c.mu.Lock()
	c.total -= size
	c.mu.Unlock()
}

func (c *copyTask) event(s *localSegment, step Step, detail string) Event {
	return Event{
		Step: step, Topic: c.p.topic, Partition: c.p.partition, Base: s.base, End: s.end(), Segments: 1, Bytes: s.size, Detail: detail,
	}
}
