package offload

import (
	"fmt"

	"coldtap/segment"
)

// txnIndex compares a segment's transaction index with the ABORT markers in its log, by producer and marker. An index
// that lacks one of them makes aborted records visible (KAFKA-13727), hence it is written anew from the log.
//
// An entry without its marker is no fault where the marker's batch is gone: the cleaner leaves such entries.
type txnIndex struct {
	entries []segment.AbortedTxn // ascending by marker
	at      int                  // the first entry whose marker is not reached yet
	fromLog []segment.AbortedTxn // what the log says
	byEntry map[int64]segment.AbortedTxn
	fault   string
	file    string
}

func newTxnIndex(base, next int64, raw []byte, err error) *txnIndex {
	x := &txnIndex{byEntry: make(map[int64]segment.AbortedTxn), file: segment.FileName(base, ".txnindex")}
	if err == nil {
		x.entries, err = segment.ParseTxnIndex(raw, base)
	}
	if err != nil {
		x.fault, x.entries = err.Error(), nil
		return x
	}
	for _, e := range x.entries {
		x.byEntry[e.LastOffset] = e
		if e.LastOffset >= next {
			x.fault = fmt.Sprintf("has a marker at offset %d, beyond the segment", e.LastOffset)
		}
	}
	return x
}

// checkEntries compares the entries up to a batch that ends at last with the log; t is the state before the batch.
func (x *txnIndex) checkEntries(b *batch, last int64, t *transactions) error {
	for ; x.at < len(x.entries) && x.entries[x.at].LastOffset <= last; x.at++ {
		e := x.entries[x.at]
		if e.LastOffset < b.BaseOffset {
			// The marker is gone. The cleaner removes it after the data, never before.
			if txn, ok := t.open[e.ProducerID]; ok && txn.hasData && txn.first <= e.LastOffset {
				return damaged(x.file,
					"producer %d aborted the transaction from offset %d at offset %d, but the log has its data and no marker",
					e.ProducerID, txn.first, e.LastOffset)
			}
			continue
		}
		if !isAbort(b, e.ProducerID) && x.fault == "" {
			x.fault = fmt.Sprintf("has an abort of producer %d at offset %d, where the log has none", e.ProducerID, e.LastOffset)
		}
	}
	return nil
}

// isAbort says whether a batch is an ABORT marker of the producer, or a marker's batch that the cleaner has emptied.
func isAbort(b *batch, producer int64) bool {
	if !b.IsControl() || b.ProducerID != producer || b.Bytes == nil {
		return false
	}
	kind, _, ok, err := segment.ParseControl(b.Bytes)
	return err == nil && (!ok && b.Count == 0 || ok && kind == segment.ControlAbort)
}

// addAborted adds a transaction that an ABORT marker in the segment has ended.
func (x *txnIndex) addAborted(e *endedTxn) {
	x.fromLog = append(x.fromLog, e.abortedTxn())
	entry, ok := x.byEntry[e.marker]
	if x.fault != "" {
		return
	}
	switch {
	case ok && entry.ProducerID == e.producer && entry.FirstOffset <= e.first:
	case ok:
		x.fault = fmt.Sprintf("has producer %d from offset %d aborted at offset %d, the log producer %d from offset %d",
			entry.ProducerID, entry.FirstOffset, e.marker, e.producer, e.first)
	case e.hasData:
		x.fault = fmt.Sprintf("lacks the transaction of producer %d from offset %d, aborted at offset %d",
			e.producer, e.first, e.marker)
	}
}
