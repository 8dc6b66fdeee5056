package offload

import (
	"fmt"
	"maps"

	"coldtap/segment"
)

// openTxn is a transaction that has begun and not ended.
type openTxn struct {
	first int64 // first data offset, as a snapshot remembers it or as the log shows it
	told  bool  // it is the snapshot's
	seen  bool  // the log that was replayed holds data of it; false = a snapshot says that it is open
	here  bool  // the same for the segment that is being read
}

// transactions is which transactions are open at a place in the log: the state of Kafka's ProducerStateManager, as far
// as it decides what read_committed may show.
//
// It knows what a snapshot said at the place where the replay began, and the log from there on. Where compaction has
// been, both may disagree without harm: the snapshot was written before the data went.
type transactions struct {
	open map[int64]openTxn // by producer id
	// from is where the replay began. complete says that from is a snapshot's place, so that a transaction that began
	// earlier is known; else it began at the first segment, and earlier data is not in the log.
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
			t.open[s.ProducerID] = openTxn{first: s.TxnFirstOffset, told: true}
		}
	}
	return t
}

func (t *transactions) clone() *transactions {
	c := *t
	c.open = maps.Clone(t.open)
	return &c
}

// ended is a transaction that a marker has closed.
type ended struct {
	openTxn
	producer int64
	marker   int64
	aborted  bool
	// stable is the last stable offset right after: what Kafka's transaction index holds besides.
	stable int64
}

func (e *ended) abortedTxn() segment.AbortedTxn {
	return segment.AbortedTxn{ProducerID: e.producer, FirstOffset: e.first, LastOffset: e.marker, LastStableOffset: e.stable}
}

// apply moves the state over a batch; the result is the transaction that it ends, if it does. Markers of transactions
// without data here end nothing.
func (t *transactions) apply(b *batch) (*ended, error) {
	if b.gap || b.cleaned {
		t.compacted = true
	}
	if b.ProducerID < 0 || !b.IsTransactional() {
		return nil, nil
	}
	if !b.IsControl() {
		// A batch that the cleaner emptied keeps a producer's sequence alive; its marker may be gone, and it holds
		// nothing that could be hidden or shown.
		if b.Count == 0 {
			return nil, nil
		}
		txn, ok := t.open[b.ProducerID]
		if !ok {
			txn.first = b.BaseOffset
		}
		txn.seen, txn.here = true, true
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
	return &ended{
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

// enter begins a segment: from now on, here speaks of that one.
func (t *transactions) enter() {
	for id, txn := range t.open {
		if txn.here {
			txn.here = false
			t.open[id] = txn
		}
	}
}

// agree compares the state with the snapshot of the same place, which travels with the segment and which a broker would
// start from. A disagreement that compaction does not explain is an error. Afterwards what the log itself did not show
// is as the snapshot says.
func (t *transactions) agree(states []segment.ProducerState) error {
	said := make(map[int64]int64)
	for _, s := range states {
		if s.TxnFirstOffset >= 0 {
			said[s.ProducerID] = s.TxnFirstOffset
		}
	}
	for id, txn := range t.open {
		first, ok := said[id]
		switch {
		case !ok && txn.seen:
			return fmt.Errorf("does not know the open transaction of producer %d from offset %d", id, txn.first)
		case !ok && !t.compacted:
			return fmt.Errorf("does not know the open transaction of producer %d from offset %d, which an earlier snapshot names",
				id, txn.first)
		case !ok:
			delete(t.open, id)
		case first > txn.first && txn.told && t.compacted:
			// The one that the earlier snapshot names has ended, its marker is compacted away, and this is another.
			txn.first, txn.told = first, false
			t.open[id] = txn
		case first > txn.first, first < txn.first && !t.mayPredate(first):
			return fmt.Errorf("has the open transaction of producer %d begin at offset %d, the log at %d", id, first, txn.first)
		}
	}
	for id, first := range said {
		if _, ok := t.open[id]; !ok && !t.mayPredate(first) {
			return fmt.Errorf("has an open transaction of producer %d from offset %d, which the log does not have", id, first)
		}
	}
	return nil
}

// mayPredate tells whether a transaction's first data may be out of sight: compacted away, or before the log begins.
func (t *transactions) mayPredate(first int64) bool {
	return t.compacted || !t.complete && first < t.from
}
