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

// copier copies one partition.
type copier struct {
	*run
	p        *partition
	outcomes outcomes
	// unfinished are this broker's copies that were begun and not finished, and may be resumed.
	unfinished []*tier.Segment
	recorded   bool // the catalog knows topic and partition
}

// copy copies what the plan found, up to the first segment that cannot be.
func (r *run) copy(ctx context.Context, p *partition) {
	c := &copier{run: r, p: p, outcomes: outcomes{p: p}}
	if left, err := c.all(ctx); err != nil {
		c.stop(ctx, left, err)
	}
	r.look(p)
}

// all copies what fills holes and then what goes on behind the tier's end. left is what an error leaves uncopied.
func (c *copier) all(ctx context.Context) (left []*localSegment, err error) {
	left = slices.Concat(c.p.holed, c.p.candidates)
	if err := c.cleanUp(ctx); err != nil {
		return left, err
	}
	// Readers learn of a partition before anything of it is tiered: "nothing yet" and "no such topic" differ.
	if !c.p.known && len(c.p.segments) > 0 {
		if err := c.record(ctx); err != nil {
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
	for n, s := range c.p.holed {
		if err := c.heal(ctx, s); err != nil {
			return left[n:], err
		}
	}
	left = c.p.candidates
	if len(left) == 0 {
		return nil, nil
	}
	if err := c.bridge(ctx); err != nil {
		return left, err
	}
	var open *transactions
	for n, s := range left {
		var err error
		if open, err = c.one(ctx, s, open); err == nil {
			continue
		}
		if f := c.faultOf(ctx, err); f.reason == Damaged && c.cfg.SkipDamaged {
			err = c.hole(ctx, s, f)
		}
		if err != nil {
			return left[n:], err
		}
		open = nil
		c.outcomes = outcomes{p: c.p}
	}
	return nil, nil
}

// heal copies a segment that a hole hides, if it is sound by now: somebody has put the good file back. As long as it is
// not, nothing is new, and nothing fails.
func (c *copier) heal(ctx context.Context, s *localSegment) error {
	_, err := c.one(ctx, s, nil)
	c.outcomes = outcomes{p: c.p}
	if err == nil {
		return nil
	}
	switch f := c.faultOf(ctx, err); f.reason {
	case Damaged, Unreadable, NoLeaderEpoch:
		if !holed(s, c.p.holes) { // missing from the tier, and nobody has agreed to that
			if f.reason == Damaged && c.cfg.SkipDamaged {
				return c.hole(ctx, s, f)
			}
			return err
		}
		c.leave(c.p, s.leftover(KnownHole, f.Error()))
		c.shrink(s.size)
		return nil
	}
	return err
}

// one checks and copies a segment. open is the state of transactions at its base, nil when it is to be found out, and
// the result the one at its end.
func (c *copier) one(ctx context.Context, s *localSegment, open *transactions) (*transactions, error) {
	if open == nil {
		var err error
		if open, _, err = c.p.stateAt(ctx, s.base); err != nil {
			return nil, fmt.Errorf("the transactions that are open at offset %d cannot be told: %w", s.base, err)
		}
	}
	checked, err := c.p.check(ctx, s, open, &c.outcomes)
	if err != nil {
		return nil, err
	}
	defer checked.close()
	for _, f := range checked.rebuilt {
		text := fmt.Sprintf("%020d%s: %s", s.base, f.suffix, f.why)
		c.p.report.Rebuilt = append(c.p.report.Rebuilt, text)
		c.metrics.rebuilt.WithLabelValues(f.suffix[1:]).Inc()
		c.tell(c.event(s, StepRebuilt, text))
	}
	if err := c.put(ctx, checked); err != nil {
		return nil, err
	}
	c.outcomes.forget(s.next)
	return open, nil
}

// put takes a checked segment through STARTED and FINISHED.
func (c *copier) put(ctx context.Context, s *checked) error {
	if err := c.record(ctx); err != nil {
		return err
	}
	seg, err := c.begin(ctx, s)
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
		c.tell(c.event(s.localSegment, StepCopying, ""))
	}}
	if err := c.cfg.Layout.Put(ctx, c.report.ClusterID, seg, content, s.sha256, &s.files); err != nil {
		// The copy stays STARTED: the next run resumes it under the same id, and overwrites.
		c.mu.Lock()
		c.done = before
		c.mu.Unlock()
		c.metrics.segments.WithLabelValues(resultFailed).Inc()
		return sendFault(content, err)
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
	c.tell(c.event(s.localSegment, StepCopied, ""))
	// The segment is copied, whatever becomes of the wait; a context that has ended stops the next one.
	_ = content.settle()
	return nil
}

// sendFault tells a log that failed or changed under the copy from a store that failed.
func sendFault(content *logContent, err error) *fault {
	if errors.Is(err, native.ErrSourceChanged) {
		return &fault{Changed, err}
	}
	if readErr := content.failed(); readErr != nil {
		return &fault{Unreadable, readErr}
	}
	return &fault{StoreFailed, err}
}

// record makes sure that the catalog knows topic and partition before anything of it is recorded.
func (c *copier) record(ctx context.Context) error {
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

// begin records STARTED, or finds the record of an earlier run whose copy is of this very segment.
func (c *copier) begin(ctx context.Context, s *checked) (*tier.Segment, error) {
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
			c.tell(c.event(s.localSegment, StepResumed, old.ID.String()))
			return old, nil
		}
		// The files have changed since, by the cleaner perhaps: what was sent is of another segment.
		if err := c.discard(ctx, old); err != nil {
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

// cleanUp finishes deletions that were begun, and removes this broker's unfinished copies of what is no longer to be
// copied. Those of other brokers are not touched: nobody can tell here whether they still work on them.
func (c *copier) cleanUp(ctx context.Context) error {
	known, ok := c.cfg.Catalog.Snapshot().Partition(c.p.id)
	if !ok {
		return nil
	}
	for _, seg := range known.Segments(true) {
		switch {
		case seg.State == tier.DeleteStarted:
		case seg.State != tier.CopyStarted || seg.BrokerID != c.report.BrokerID:
			continue
		case c.isWanted(seg):
			c.unfinished = append(c.unfinished, seg)
			continue
		}
		if err := c.discard(ctx, seg); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) isWanted(seg *tier.Segment) bool {
	same := func(s *localSegment) bool { return s.base == seg.BaseOffset && s.end() == seg.EndOffset }
	return slices.ContainsFunc(c.p.candidates, same) || slices.ContainsFunc(c.p.holed, same)
}

// discard takes an unfinished copy through DELETE_STARTED and DELETE_FINISHED. Either may have been reached before.
func (c *copier) discard(ctx context.Context, seg *tier.Segment) error {
	if err := c.cfg.Catalog.StartDelete(ctx, seg.Partition, seg.ID); err != nil {
		return &fault{CatalogFailed, err}
	}
	if err := c.cfg.Layout.Delete(ctx, seg); err != nil {
		return &fault{StoreFailed, err}
	}
	if err := c.cfg.Catalog.FinishDelete(ctx, seg.Partition, seg.ID); err != nil {
		return &fault{CatalogFailed, err}
	}
	c.tell(Event{
		Step: StepRemoved, Topic: c.p.topic, Partition: c.p.partition, Base: seg.BaseOffset, End: seg.EndOffset,
		Segments: 1, Bytes: seg.Size, Detail: seg.ID.String(),
	})
	return nil
}

// bridge deals with offsets between the tier's end and the first local segment: the broker has deleted them before
// they were copied.
func (c *copier) bridge(ctx context.Context) error {
	first := c.p.candidates[0].base
	if !c.p.known || first <= c.p.tiered {
		return nil
	}
	text := fmt.Sprintf("the tier ends at offset %d, the log begins at %d: the broker deleted what is between", c.p.tiered, first)
	c.leave(c.p, Leftover{Base: c.p.tiered, End: first - 1, Reason: Gap, Detail: text})
	if !c.cfg.SkipDamaged {
		c.stopped(c.p, Gap)
		return errGap
	}
	return c.recordHole(ctx, tier.Hole{From: c.p.tiered, To: first, Reason: string(Gap)})
}

// errGap stops a partition whose leftover is reported already.
var errGap = errors.New("gap")

// hole gives up a damaged segment.
func (c *copier) hole(ctx context.Context, s *localSegment, f *fault) error {
	c.leave(c.p, s.leftover(f.reason, f.err.Error()))
	c.shrink(s.size)
	c.metrics.segments.WithLabelValues(resultHole).Inc()
	return c.recordHole(ctx, tier.Hole{From: max(s.base, c.p.from), To: s.next, Reason: f.Error()})
}

func (c *copier) recordHole(ctx context.Context, h tier.Hole) error {
	if err := c.record(ctx); err != nil {
		return err
	}
	if err := c.cfg.Catalog.RecordHole(ctx, c.p.id, h); err != nil {
		return &fault{CatalogFailed, err}
	}
	c.tell(Event{Step: StepRecorded, Topic: c.p.topic, Partition: c.p.partition, Base: h.From, End: h.To - 1, Detail: h.Reason})
	return nil
}

// stop reports why the partition ends at the first of the segments that are left.
func (c *copier) stop(ctx context.Context, left []*localSegment, err error) {
	for n, s := range left {
		c.shrink(s.size)
		if n > 0 || err == errGap {
			c.leave(c.p, s.leftover(Behind, ""))
			continue
		}
		f := c.faultOf(ctx, err)
		c.stopped(c.p, f.reason)
		if f.reason == Damaged {
			c.metrics.segments.WithLabelValues(resultDamaged).Inc()
		}
		c.leave(c.p, s.leftover(f.reason, f.err.Error()))
	}
	// Without such segments it was a clean-up that failed, which is nothing of a local segment's.
	if len(left) == 0 && err != errGap {
		f := c.faultOf(ctx, err)
		c.stopped(c.p, f.reason)
		c.leave(c.p, Leftover{Base: -1, End: -1, Reason: f.reason, Detail: f.err.Error()})
	}
}

// shrink takes a segment out of what is to be sent.
func (c *copier) shrink(size int64) {
	c.mu.Lock()
	c.total -= size
	c.mu.Unlock()
}

func (c *copier) event(s *localSegment, step Step, detail string) Event {
	return Event{
		Step: step, Topic: c.p.topic, Partition: c.p.partition, Base: s.base, End: s.end(), Segments: 1, Bytes: s.size, Detail: detail,
	}
}
