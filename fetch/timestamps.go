package fetch

import (
	"context"
	"math"
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
	st := s.newStream(&Request{Topic: topic, TopicID: id, Partition: partition, EndOffset: -1, EndTimestamp: -1, Isolation: iso,
		Timeout: timeout})
	defer st.Close()
	st.filter.kind = readOffset
	if err := st.locator.resolve(ctx, &st.req); err != nil {
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
	f := &st.filter
	kind, freeScan := f.kind, f.freeScan
	f.kind, f.search, f.freeScan = readOffset, ts, math.MaxInt64
	defer func() {
		f.kind, f.freeScan, f.hidden = kind, freeScan, 0 // the answer begins with what is found
		st.scan.Release()                                // what comes next may be a wait for memory
	}()
	for {
		at, err := st.locator.locateWithin(ctx, st.next, f.rangeEnd)
		if err != nil {
			return noOffset, st.fail(err)
		}
		if st.next = at.offset; at.seg == nil {
			st.finish(at.end)
			return noOffset, nil
		}
		if at.seg.MaxTimestamp >= ts {
			found, err := st.searchSegment(ctx, at.seg, ts)
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
		st.next = max(st.next, min(at.seg.EndOffset+1, f.rangeEnd))
	}
}

// searchSegment looks for the record in one segment. When it is not there, end is endSegment, or what stopped the
// search.
func (st *Stream) searchSegment(ctx context.Context, seg *tier.Segment, ts int64) (TimedOffset, error) {
	if err := st.openSegment(ctx, seg); err != nil {
		return noOffset, st.recover(ctx, err)
	}
	for {
		more, err := st.nextBatch(ctx, false)
		if err != nil || !more {
			return noOffset, err
		}
		if st.filter.needsRecords(st.header, st.next) {
			found, err := st.searchBatch(ctx, ts)
			if err != nil {
				if err := st.recover(ctx, err); err != nil {
					return noOffset, err
				}
				continue
			}
			if found.Offset >= 0 {
				return found, nil
			}
		}
		st.reach(st.header.LastOffset())
		st.advance()
	}
}

// searchBatch looks for the record in the batch that nextBatch gave.
func (st *Stream) searchBatch(ctx context.Context, ts int64) (TimedOffset, error) {
	if err := st.scan.Open(ctx); err != nil {
		return noOffset, err
	}
	var rec segment.Record
	for {
		more, restarted, err := st.scan.Record(ctx, &rec)
		if err != nil || !more && !restarted {
			return noOffset, err
		}
		// Records of magic 0 have no timestamp, which reads as -1 and is no time.
		if more && rec.Offset >= st.next && rec.Timestamp >= max(ts, 0) {
			return TimedOffset{Offset: rec.Offset, Timestamp: rec.Timestamp, LeaderEpoch: rec.LeaderEpoch}, nil
		}
	}
}
