package segment

import "encoding/binary"

const txnEntrySize = 34

// AbortedTxn is one entry of a .txnindex. It is written in the segment that holds the transaction's ABORT marker;
// FirstOffset may lie in a much earlier one.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64 // of the transaction's data
	LastOffset  int64 // of the ABORT marker
	// LastStableOffset is the one right after this transaction ended: the first offset of the oldest other open
	// transaction, else LastOffset+1. It is in no order from entry to entry. -1 when unknown.
	LastStableOffset int64
}

// ParseTxnIndex reads a transaction index of the segment with the given base offset; no bytes give no entries. Corrupt:
// markers that do not ascend or lie below base, a first offset beyond its marker, negative numbers. A version other
// than 0 is Unsupported. Part of an entry at the end is Truncated: Kafka ignores it, but what it lost may be an aborted
// transaction, whose records would then be shown as committed.
func ParseTxnIndex(raw []byte, base int64) ([]AbortedTxn, error) {
	if over := len(raw) % txnEntrySize; over != 0 {
		return nil, fail(Truncated, "transaction index", int64(len(raw)-over), "%d bytes of an entry of %d", over, txnEntrySize)
	}
	txns := make([]AbortedTxn, 0, len(raw)/txnEntrySize)
	last := base - 1
	for i := range cap(txns) {
		at := i * txnEntrySize
		c := cursor{b: raw, at: at}
		if version := c.int16(); version != 0 {
			return nil, fail(Unsupported, "transaction index", int64(at), "version %d", version)
		}
		t := AbortedTxn{
			ProducerID: c.int64(), FirstOffset: c.int64(), LastOffset: c.int64(), LastStableOffset: c.int64(),
		}
		if t.LastOffset <= last || t.FirstOffset > t.LastOffset || t.FirstOffset < 0 || t.ProducerID < 0 ||
			t.LastStableOffset < -1 {
			return nil, corrupt("transaction index", int64(at),
				"producer %d, offsets %d to %d, stable offset %d, after a marker at %d",
				t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset, last)
		}
		last = t.LastOffset
		txns = append(txns, t)
	}
	return txns, nil
}

// AppendTxnIndex appends txns in the file's format, which ParseTxnIndex reads back if they ascend by LastOffset.
func AppendTxnIndex(dst []byte, txns ...AbortedTxn) []byte {
	for _, t := range txns {
		dst = append(dst, 0, 0)
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.ProducerID))
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.FirstOffset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.LastOffset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.LastStableOffset))
	}
	return dst
}
