package offload

import (
	"fmt"
	"maps"

	"coldtap/segment"
)

// openTxn is a transaction that has begun and not ended.
type openTxn struct {
	first        int64 // first data offset, from a snapshot or from the log
	fromSnapshot bool  // first is a snapshot's
	hasData      bool  // the replayed log holds data of it; false = only a snapshot says that it is open
	inSegment    bool  // the segment that is being read holds data of it
}

// transactions is which transactions are open at a place in the log: the state of Kafka's ProducerStateManager, as far
// as it decides what read_committed may show.
//
// It starts with a snapshot's state where the replay begins, and follows the log from there on. In a compacted log the
// two may disagree without harm: the snapshot was written before the data was removed.
type transactions struct {
	open map[int64]openTxn // by producer id
	// from is where the replay began. complete says that from is a snapshot's offset, so that every open transaction that
	// began earlier is known; else the replay began at the first segment, and earlier data is not in the log.
	from     int64
	complete bool
	// compacted says that the log, as far as it was replayed or at all, is known to have lost batches legally.
	compacted bool
}

// startTransactions is the state at the first segment's base when there is no snapshot for it.
func startTransactions(from int64, compacted bool) *transactions {
	return &transactions{open: make(map[int64]openTxn), from: from, complete: from == 0, compacted: compacted}
}

// loadTransactions is the state that a producer snapshot describes.
func loadTransactions(from int64, states []segment.ProducerState, compacted bool) *transactions {
	t := startTransactions(from, compacted)
	t.complete = true
	for _, s := range states {
		if s.TxnFirstOffset >= 0 {
			t.open[s.ProducerID] = openTxn{first: s.TxnFirstOffset, fromSnapshot: true}
		}
	}
	return t
}

func (t *transactions) clone() *transactions {
	c := *t
	c.open = maps.Clone(t.open)
	return &c
}

// endedTxn is a transaction that a marker has ended.
type endedTxn struct {
	openTxn
	producer int64
	marker   int64
	aborted  bool
	// stable is the last stable offset right after the marker, which Kafka's transaction index holds too.
	stable int64
}

func (e *endedTxn) abortedTxn() segment.AbortedTxn {
	return segment.AbortedTxn{ProducerID: e.producer, FirstOffset: e.first, LastOffset: e.marker, LastStableOffset: e.stable}
}

// apply moves the state over a batch; the result is the transaction that it ends, nil if it ends none. Markers of
// transactions that are not known to be open end none.
func (t *transactions) apply(b *batch) (*endedTxn, error) {
	if b.gap || b.cleaned {
		t.compacted = true
	}
	if b.ProducerID < 0 || !b.IsTransactional() {
		return nil, nil
	}
	if !b.IsControl() {
		// A batch that the cleaner emptied only keeps the producer's last sequence. It holds no record, and its marker may
		// be gone.
		if b.Count == 0 {
			return nil, nil
		}
		txn, ok := t.open[b.ProducerID]
		if !ok {
			txn.first = b.BaseOffset
		}
		txn.hasData, txn.inSegment = true, true
		t.open[b.ProducerID] = txn
		return nil, nil
	}
	if b.Bytes == nil {
		return nil, fmt.Errorf("byte %d: control batch of %d bytes", b.Position, b.Size())
	}
	kind, _, ok, err := segment.ParseControl(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", b.Position, err)
	}
	if !ok || kind != segment.ControlAbort && kind != segment.ControlCommit {
		return nil, nil
	}
	txn, ok := t.open[b.ProducerID]
	if !ok {
		return nil, nil
	}
	delete(t.open, b.ProducerID)
	return &endedTxn{
		openTxn: txn, producer: b.ProducerID, marker: b.BaseOffset, aborted: kind == segment.ControlAbort,
		stable: t.stable(b.LastOffset() + 1),
	}, nil
}

// stable is the last stable offset when the log ends at end.
func (t *transactions) stable(end int64) int64 {
	for _, txn := range t.open {
		end = min(end, txn.first)
	}
	return end
}

// startSegment starts the next segment: inSegment is about that one from now on.
func (t *transactions) startSegment() {
	for id, txn := range t.open {
		if txn.inSegment {
			txn.inSegment = false
			t.open[id] = txn
		}
	}
}

// checkSnapshot compares the state with the snapshot at the same offset, which travels with the segment and which a
// broker would start from. A disagreement that compaction does not explain is an error. Afterwards transactions without
// data in the replayed log are as in the snapshot.
func (t *transactions) checkSnapshot(states []segment.ProducerState) error {
	inSnapshot := make(map[int64]int64)
	for _, s := range states {
		if s.TxnFirstOffset >= 0 {
			inSnapshot[s.ProducerID] = s.TxnFirstOffset
		}
	}
	for id, txn := range t.open {
		first, ok := inSnapshot[id]
		switch {
		case !ok && txn.hasData:
			return fmt.Errorf("does not know the open transaction of producer %d from offset %d", id, txn.first)
		case !ok && !t.compacted:
			return fmt.Errorf("does not know the open transaction of producer %d from offset %d, which an earlier snapshot names",
				id, txn.first)
		case !ok:
			delete(t.open, id)
		case first > txn.first && txn.fromSnapshot && t.compacted:
			// The earlier snapshot's transaction has ended, its marker is compacted away, and this is a later one.
			txn.first, txn.fromSnapshot = first, false
			t.open[id] = txn
		case first > txn.first, first < txn.first && !t.mayPredate(first):
			return fmt.Errorf("has the open transaction of producer %d begin at offset %d, the log at %d", id, first, txn.first)
		}
	}
	for id, first := range inSnapshot {
		if _, ok := t.open[id]; !ok && !t.mayPredate(first) {
			return fmt.Errorf("has an open transaction of producer %d from offset %d, which the log does not have", id, first)
		}
	}
	return nil
}

// mayPredate says whether a transaction's first data may be missing legally: compacted away, or before the log begins.
func (t *transactions) mayPredate(first int64) bool {
	return t.compacted || !t.complete && first < t.from
}
