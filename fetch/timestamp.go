package fetch

import (
	"context"
	"time"

	"coldtap/segment"
	"coldtap/tier"
)

// TimedOffset answers a look-up by time: the first data record at or after the time, in offset order. Timestamp is the
// record's own.
type TimedOffset struct {
	Offset, Timestamp int64 // -1, -1: none in the tier
	LeaderEpoch       int32 // -1 = unknown
}

var noOffset = TimedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}

// OffsetForTime gives the first data record at or after ts (milliseconds), which is the one of lowest offset: records
// are in no order of time. Control records never count, aborted ones don't with ReadCommitted, which also looks no
// further than what is decided. Unlike a broker's ListOffsets it never names a transaction marker. timeout bounds what
// is spent waiting for pool, store and memory, 0 = no limit. Errors are *Error.
func (s *Service) OffsetForTime(ctx context.Context, topic string, id segment.UUID, partition int32, ts int64, iso Isolation,
	timeout time.Duration) (TimedOffset, error) {
	st := s.take(&Request{Topic: topic, TopicID: id, Partition: partition, EndOffset: -1, EndTimestamp: -1, Isolation: iso, Timeout: timeout})
	defer st.Close()
	st.view = readOffset
	if err := st.resolve(ctx); err != nil {
		return noOffset, st.fail(err)
	}
	found, err := st.search(ctx, ts)
	if err != nil {
		return noOffset, err
	}
	st.end = 0 // however far it had to look, the question is answered
	return found, nil
}

// search looks for the first record at or after ts, segment by segment, reading only those whose largest timestamp
// says that they may hold one. When it finds none, the stream has ended for the reason that stopped it. Errors are the
// stream's lasting ones.
func (st *Stream) search(ctx context.Context, ts int64) (TimedOffset, error) {
	view, hint := st.view, st.hintTime
	st.view, st.hintTime = readOffset, ts
	defer func() {
		st.view, st.hintTime = view, hint
		st.hiddenBytes = 0 // the answer begins with what is found
		st.unpin()         // what comes next may be a wait for memory
	}()
	for asked := int64(-1); ; {
		if err := st.renew(); err != nil {
			return noOffset, st.fail(err)
		}
		st.next = max(st.next, st.bounds.Start)
		if st.next >= st.rangeEnd {
			st.finish(EndRange)
			return noOffset, nil
		}
		if st.next >= st.bounds.TieredEnd {
			st.finish(EndTier)
			return noOffset, nil
		}
		seg, ok := st.part.Find(st.next)
		if !ok && asked != st.next {
			asked = st.next
			if err := st.lookAgain(ctx); err != nil {
				return noOffset, st.fail(err)
			}
			st.next = max(st.next, st.bounds.Start)
			continue
		}
		if !ok {
			return noOffset, st.fail(st.uncovered())
		}
		if seg.MaxTimestamp >= ts {
			found, err := st.searchSegment(ctx, seg, ts)
			if err != nil || found.Offset >= 0 {
				return found, err
			}
			if st.end != endSegment {
				return noOffset, nil
			}
			st.end = 0
			if !st.placed {
				continue // it vanished: look again
			}
		}
		st.next = max(st.next, min(seg.EndOffset+1, st.rangeEnd))
	}
}

// searchSegment looks for the record in one segment. When it is not there, end is endSegment, or what stopped the
// search.
func (st *Stream) searchSegment(ctx context.Context, seg *tier.Segment, ts int64) (TimedOffset, error) {
	if err := st.enter(ctx, seg, st.next); err != nil {
		return noOffset, st.recover(ctx, err)
	}
	for {
		v, err := st.examine(ctx, false)
		if err != nil || v == ended {
			return noOffset, err
		}
		if st.needsRecords(&st.header) {
			found, err := st.match(ctx, ts)
			if err != nil {
				if err := st.repair(ctx, err); err != nil {
					return noOffset, err
				}
				continue
			}
			if found.Offset >= 0 {
				return found, nil
			}
		}
		st.reach(st.header.LastOffset())
		st.step(&st.header)
	}
}

// match looks for the record in the batch that examine gave.
func (st *Stream) match(ctx context.Context, ts int64) (TimedOffset, error) {
	c := &st.cur
	if err := c.open(ctx, &st.header); err != nil {
		return noOffset, err
	}
	var rec segment.Record
	for {
		more, err := c.decoder.Next(&rec)
		if overBudget(err) {
			// Records are few that need memory of their own; the batch is searched again from its start.
			if err = c.waitForMemory(ctx); err == nil {
				err = c.open(ctx, &st.header)
			}
			more = err == nil
			rec = segment.Record{Offset: -1}
		}
		if err != nil || !more {
			return noOffset, err
		}
		// Records of magic 0 have no timestamp, which reads as -1 and is no time.
		if rec.Offset >= st.next && rec.Timestamp >= max(ts, 0) {
			return TimedOffset{Offset: rec.Offset, Timestamp: rec.Timestamp, LeaderEpoch: rec.LeaderEpoch}, nil
		}
	}
}
