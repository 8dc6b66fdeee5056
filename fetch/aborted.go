package fetch

import (
	"context"
	"errors"
	"math"

	"coldtap/indexcache"
	"coldtap/segment"
	"coldtap/tier"
)

// abortedIn gives the aborted transactions with data in seg, in any order, and the offset up to which that list is
// proven to be complete: MaxInt64 when it is for the whole segment.
//
// Where the copier did not leave the complete list, the transaction indexes of this segment and of those after it are
// searched, as brokers do (RemoteLogManager.collectAbortedTransactions), since an entry stands where its ABORT marker
// is. A producer snapshot ends the search: a transaction that began in or before seg, has no entry so far and is not
// open in the snapshot was committed. Brokers go on in their local segments; here proof ends with the tier.
func (p *planner) abortedIn(ctx context.Context, part *tier.Partition, seg *tier.Segment, entry *indexcache.Entry) (
	list []segment.AbortedTxn, decidedEnd int64, err error) {
	if entry.Decided && entry.TxnErr == nil {
		return entry.Aborted, math.MaxInt64, nil
	}
	upper := seg.EndOffset + 1
	decidedEnd = seg.BaseOffset // what is proven by no snapshot
	for s, e := seg, entry; ; e = nil {
		next, more := part.Next(s)
		// A segment without aborts is worth reading only for the last snapshot of all.
		if e == nil && (!s.TxnIndexEmpty || !more) {
			var err error
			if e, err = p.index(ctx, s); err != nil {
				return nil, 0, err
			}
		}
		if e != nil {
			complete, err := collectAborted(&list, s, e, seg.BaseOffset, upper)
			if err != nil {
				return nil, 0, err
			}
			open, known := earliestOpen(e.Files.Snapshot)
			if complete || known && open >= upper {
				decidedEnd = math.MaxInt64
				break
			}
			if known && !more {
				decidedEnd = open
			}
		}
		if !more {
			break
		}
		s = next
	}
	return list, decidedEnd, nil
}

// collectAborted adds those entries of a segment's transaction index that touch [from, upper), and says whether an
// entry proves that no other transaction does.
func collectAborted(list *[]segment.AbortedTxn, s *tier.Segment, e *indexcache.Entry, from, upper int64) (complete bool, err error) {
	txns, err := e.Files.TxnIndex, e.TxnErr
	var parsed []segment.AbortedTxn
	if err == nil && txns != nil {
		parsed, err = segment.ParseTxnIndex(txns, s.BaseOffset)
	}
	if err != nil {
		return false, txnFault(err, s)
	}
	for _, t := range parsed {
		if t.LastOffset >= from && t.FirstOffset < upper {
			*list = append(*list, t)
		}
		complete = complete || t.LastStableOffset >= upper
	}
	return complete, nil
}

// txnFault says why read_committed can't be answered.
func txnFault(err error, s *tier.Segment) *Error {
	kind, what := Damaged, "damaged"
	if e, ok := errors.AsType[*indexcache.Error](err); ok && e.Kind == indexcache.Missing {
		kind, what = Missing, "missing"
	}
	fault := failure(kind, err, "the transaction index is %s, so read_committed can't be answered", what)
	fault.Segment, fault.NextOffset = s.ID, s.EndOffset+1
	return fault
}

// earliestOpen is the first offset of the oldest transaction that is open in a producer snapshot, MaxInt64 when none
// is; known is false when there is no usable snapshot.
func earliestOpen(snapshot []byte) (offset int64, known bool) {
	if snapshot == nil {
		return 0, false
	}
	producers, err := segment.ParseSnapshot(snapshot)
	if err != nil {
		return 0, false
	}
	offset = math.MaxInt64
	for _, p := range producers {
		if p.TxnFirstOffset >= 0 {
			offset = min(offset, p.TxnFirstOffset)
		}
	}
	return offset, true
}
