package offload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"coldtap/segment"
)

// snapshotLimit bounds a producer snapshot: 64 MiB is 1.4 million producers.
const snapshotLimit = 64 << 20

func (p *localLog) readSnapshot(offset int64) (raw []byte, states []segment.ProducerState, err error) {
	name := segment.FileName(offset, ".snapshot")
	if raw, err = readSmall(p.root, name, snapshotLimit); err != nil {
		return nil, nil, err
	}
	if states, err = segment.ParseSnapshot(raw); err != nil {
		return nil, nil, damaged(name, "%v", err)
	}
	return raw, states, nil
}

// stateAt gives the transactions that are open at an offset: the newest usable snapshot at or below it, and a replay of
// the log from there, not beyond.
//
// When the log is damaged or ends before the offset, the state is the one at reached, and the error says why.
func (p *localLog) stateAt(ctx context.Context, offset int64) (t *transactions, reached int64, err error) {
	first := p.segments[0].base
	t = startTransactions(first, p.compacted)
	for _, at := range slices.Backward(p.snapshots) {
		if at > offset || at < first {
			continue
		}
		_, states, err := p.readSnapshot(at)
		if err == nil {
			t = loadTransactions(at, states, p.compacted)
			break
		}
		p.note(fmt.Sprintf("passed over a snapshot: %v", err))
	}
	if t.from == offset {
		return t, offset, nil
	}
	reached = t.from
	for i := p.segmentAt(t.from); i < len(p.segments) && p.segments[i].base < offset; i++ {
		to, err := p.replay(ctx, t, i, max(t.from, p.segments[i].base), offset, nil)
		reached = max(reached, to)
		if err != nil {
			return t, reached, err
		}
	}
	if reached < offset && offset > p.segments[len(p.segments)-1].base {
		return t, reached, damaged("log", "ends at offset %d, below %d", reached, offset)
	}
	return t, offset, nil
}

// replay moves t over the batches of segment i that begin in [from, to), and gives the offset that it reached. end gets
// each transaction that ends; it may be nil.
func (p *localLog) replay(ctx context.Context, t *transactions, i int, from, to int64, end func(*endedTxn)) (reached int64, err error) {
	s := &p.segments[i]
	reached = max(from, s.base)
	f, _, err := p.openLog(s)
	if err != nil {
		return reached, err
	}
	defer f.Close()
	next := s.next
	if next < 0 {
		next = maxOffset
	}
	r := newBatchReader(ctx, s.logName(), f, s.size, s.base, next)
	whole := s.next >= 0 && s.next <= to
	for {
		b, err := r.readBelow(to, whole)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return reached, err
		}
		if b.LastOffset() < from {
			continue
		}
		e, err := t.apply(&b)
		if err != nil {
			return reached, damaged(s.logName(), "%v", err)
		}
		if e != nil && end != nil {
			end(e)
		}
		reached = max(reached, b.LastOffset()+1)
	}
	// The end of a closed segment is the next one's base, whatever its batches say.
	if whole {
		if r.want < s.next {
			t.compacted = true
		}
		reached = s.next
	}
	return min(reached, max(to, from)), nil
}

// laterMarkers finds out how the transactions end that are open at a segment's end. It replays the log ahead of the
// copy, no further than needed and never beyond the high watermark, and remembers the aborted ones: 32 bytes for each
// that ended between the copy and the offset that it has reached.
type laterMarkers struct {
	p         *localLog
	ahead     *transactions // at reached
	reached   int64
	abortedBy map[int64][]segment.AbortedTxn // by producer id
}

// abortedOf gives the aborted ones among the transactions that are open in t, the state at the offset at, and have data
// in the segment that ends there.
func (o *laterMarkers) abortedOf(ctx context.Context, t *transactions, at int64) ([]segment.AbortedTxn, error) {
	var aborted []segment.AbortedTxn
	for producer, txn := range t.open {
		if !txn.inSegment {
			continue
		}
		if o.ahead == nil || o.reached < at {
			o.ahead, o.reached, o.abortedBy = t.clone(), at, make(map[int64][]segment.AbortedTxn)
		}
		for o.isStillOpen(producer, at) {
			if err := o.advance(ctx); err != nil {
				return nil, fmt.Errorf("how the transaction of producer %d from offset %d ends cannot be told: %w",
					producer, txn.first, err)
			}
		}
		for _, a := range o.abortedBy[producer] {
			if a.FirstOffset < at && a.LastOffset >= at {
				a.FirstOffset = txn.first
				aborted = append(aborted, a)
			}
		}
	}
	return aborted, nil
}

// isStillOpen says whether the producer's transaction that was open at an offset is open at the offset reached. A
// producer has one at a time, so the offset identifies it, even where the two states have different first offsets of
// it.
func (o *laterMarkers) isStillOpen(producer, at int64) bool {
	txn, ok := o.ahead.open[producer]
	return ok && txn.first < at
}

// advance replays one more segment.
func (o *laterMarkers) advance(ctx context.Context) error {
	to := o.p.highWatermark
	if o.reached >= to {
		return damaged("log", "no marker below the high watermark %d", to)
	}
	i := o.p.segmentAt(o.reached)
	reached, err := o.p.replay(ctx, o.ahead, i, o.reached, to, func(e *endedTxn) {
		if e.aborted {
			o.abortedBy[e.producer] = append(o.abortedBy[e.producer], e.abortedTxn())
		}
	})
	if err == nil && reached == o.reached {
		err = damaged("log", "ends at offset %d, below the high watermark %d", reached, to)
	}
	o.reached = reached
	return err
}

// forget drops what ended below an offset.
func (o *laterMarkers) forget(below int64) {
	for producer, list := range o.abortedBy {
		list = slices.DeleteFunc(list, func(a segment.AbortedTxn) bool { return a.LastOffset < below })
		if len(list) == 0 {
			delete(o.abortedBy, producer)
		} else {
			o.abortedBy[producer] = list
		}
	}
}
