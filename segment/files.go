package segment

// Files are the small files that travel with a segment's log, as raw bytes.
//
// A nil slice means that the file does not exist or could not be used; an empty, non-nil one that it exists with no
// bytes. Nothing here is validated: the parsers of this package do that.
type Files struct {
	OffsetIndex  []byte // .index
	TimeIndex    []byte // .timeindex
	TxnIndex     []byte // .txnindex; nil when the segment has none
	Snapshot     []byte // .snapshot, the producer state at EndOffset+1
	LeaderEpochs []byte // leader-epoch-checkpoint, the lineage up to EndOffset

	// Aborted lists every aborted transaction with data in the segment, ordered by FirstOffset, whichever segment
	// holds its marker. It is meaningful only when Decided is true.
	Aborted []AbortedTxn
	// Decided says that Aborted is complete: each transaction with data in the segment has ended.
	Decided bool
	// Dense says that the log is nothing but entries whose headers' offsets leave no gap: the first begins at the
	// segment's base offset, each other one where the one before it ends, and the last ends at the segment's end offset.
	// False is not known.
	Dense bool
	// TxnDamaged says that transaction information exists but cannot be believed (damaged file or manifest), hence
	// read_committed must not be answered from this segment.
	TxnDamaged bool
	// TxnMissing names the object that held the transaction index and is not there; TxnDamaged is true too then.
	TxnMissing string
	// IndexDamaged names index files that failed their checksum and were therefore dropped; it costs only time.
	IndexDamaged []string
}

// Size is the number of bytes the files hold in memory.
func (f *Files) Size() int64 {
	n := len(f.OffsetIndex) + len(f.TimeIndex) + len(f.TxnIndex) + len(f.Snapshot) + len(f.LeaderEpochs)
	return int64(n) + 32*int64(len(f.Aborted))
}
