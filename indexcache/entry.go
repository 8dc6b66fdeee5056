package indexcache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"coldtap/segment"
	"coldtap/tier"
)

// Entry is a segment's small files, parsed. Immutable, garbage-collected.
type Entry struct {
	Offsets segment.OffsetIndex // empty when missing or damaged: a scan from 0 is right, only slower
	Times   segment.TimeIndex   // likewise
	Files   *segment.Files      // as loaded, damaged ones included
	// Aborted is sorted by FirstOffset, without duplicates. When Decided, it is complete: every aborted transaction with
	// data in the segment. Otherwise it is what the segment's own transaction index holds: the transactions whose abort
	// marker lies in the segment.
	Aborted []segment.AbortedTxn
	Decided bool
	TxnErr  error // *Error; non-nil: read_committed must fail

	damaged []string // files that could not be used
}

// entryOverhead is what an entry takes besides the bytes of its files: its structs, and its place in list, map and
// ristretto.
const entryOverhead = 1 << 10

var errBeyondEnd = errors.New("index entry beyond the segment's end offset")

// newEntry parses files, which it keeps. Nothing that is wrong with them makes it fail.
func newEntry(seg *tier.Segment, files *segment.Files) *Entry {
	e := &Entry{Files: files, damaged: slices.Clone(files.IndexDamaged)}
	var err error
	if e.Offsets, err = parseOffsets(files.OffsetIndex, seg); err != nil {
		e.damaged = append(e.damaged, "index")
	}
	if e.Times, err = parseTimes(files.TimeIndex, seg); err != nil {
		e.damaged = append(e.damaged, "timeindex")
	}
	switch {
	case files.TxnMissing != "":
		e.TxnErr = &Error{Kind: Missing, Segment: seg.ID.String(),
			Err: fmt.Errorf("the object %s is not there", files.TxnMissing)}
	case files.TxnDamaged:
		e.TxnErr = &Error{Kind: Damaged, Segment: seg.ID.String()}
	case files.Decided:
		e.Decided, e.Aborted = true, ordered(files.Aborted)
	default:
		txns, err := segment.ParseTxnIndex(files.TxnIndex, seg.BaseOffset)
		if err != nil {
			e.TxnErr = &Error{Kind: Damaged, Segment: seg.ID.String(), Err: err}
		}
		e.Aborted = ordered(txns)
	}
	if e.TxnErr != nil {
		e.Aborted = nil
		e.damaged = append(e.damaged, "txnindex")
	}
	return e
}

// parseOffsets gives an empty index with the right base when raw cannot be used. Kafka itself has uploaded indexes with
// positions beyond the log (KAFKA-15401).
func parseOffsets(raw []byte, seg *tier.Segment) (segment.OffsetIndex, error) {
	x, err := segment.ParseOffsetIndex(raw, seg.BaseOffset, seg.Size)
	if err == nil && x.Len() > 0 {
		if last, _ := x.Entry(x.Len() - 1); last > seg.EndOffset {
			err = errBeyondEnd
		}
	}
	if err != nil {
		x, _ = segment.ParseOffsetIndex(nil, seg.BaseOffset, seg.Size)
	}
	return x, err
}

func parseTimes(raw []byte, seg *tier.Segment) (segment.TimeIndex, error) {
	x, err := segment.ParseTimeIndex(raw, seg.BaseOffset)
	if err == nil && x.Len() > 0 {
		if _, last := x.Entry(x.Len() - 1); last > seg.EndOffset {
			err = errBeyondEnd
		}
	}
	if err != nil {
		x, _ = segment.ParseTimeIndex(nil, seg.BaseOffset)
	}
	return x, err
}

// ordered gives txns sorted by first offset and without duplicates; txns itself stays as it is.
func ordered(txns []segment.AbortedTxn) []segment.AbortedTxn {
	order := func(a, b segment.AbortedTxn) int {
		return cmp.Or(cmp.Compare(a.FirstOffset, b.FirstOffset), cmp.Compare(a.LastOffset, b.LastOffset),
			cmp.Compare(a.ProducerID, b.ProducerID))
	}
	inOrder := true
	for i := 1; i < len(txns) && inOrder; i++ {
		inOrder = order(txns[i-1], txns[i]) < 0
	}
	if inOrder {
		return txns
	}
	txns = slices.Clone(txns)
	slices.SortFunc(txns, order)
	return slices.CompactFunc(txns, func(a, b segment.AbortedTxn) bool { return order(a, b) == 0 })
}

// cost is the memory that the entry holds, in bytes.
func (e *Entry) cost() int64 {
	n := entryOverhead + e.Files.Size()
	if shared := len(e.Aborted) > 0 && len(e.Files.Aborted) > 0 && &e.Aborted[0] == &e.Files.Aborted[0]; !shared {
		n += int64(len(e.Aborted)) * int64(unsafe.Sizeof(segment.AbortedTxn{}))
	}
	return n
}
