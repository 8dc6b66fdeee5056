package segment

// Decoder yields the records of batches, one batch at a time: Open, Next until it gives false or an error, Open again,
// and Close at the end. Not for concurrent use; reusable without allocation.
//
// An uncompressed batch is never copied, and reading it takes no memory but for records with headers. A compressed one
// is decompressed whole in Open, into a buffer that stays, with its reservation, until Close.
type Decoder struct {
	header  Header
	records []byte // v2: the records; legacy: the inner messages, or the whole entry when it is not compressed
	at      int    // of the next record
	left    int32  // records still to come
	count   int32  // of the batch
	err     error  // what ended the batch

	lastDelta int32 // v2: offset delta of the record before
	shift     int64 // legacy: what turns an inner offset into an absolute one

	headers []RecordHeader
	out     output
}

// NewDecoder: limit bounds the decompressed size of one batch in bytes (TooLarge above it); each buffer growth is
// reserved from budget first and released in Close. Readers of a codec, pooled for all decoders, hold up to 0.5 MiB
// each while they run, which is not reserved.
func NewDecoder(limit int64, budget Budget) *Decoder {
	return &Decoder{out: output{limit: limit, budget: budget}}
}

// Open starts a batch, of any magic and codec; batch is exactly the whole of it and must stay unchanged until the next
// Open or Close. The CRC is the caller's business, except for the messages inside a compressed one of magic 0 or 1.
// Control batches open too (records = markers); a batch with Count 0 has no records, whatever codec it names.
//
// After an error Next gives the same error, and Open may be called with another batch.
func (d *Decoder) Open(batch []byte) error {
	d.records, d.at, d.left, d.shift, d.lastDelta = nil, 0, 0, 0, -1
	d.err = d.open(batch)
	d.count = d.left
	return d.err
}

// Rewind makes Next begin with the batch's first record again, without decompressing anything. After an error it does
// nothing.
func (d *Decoder) Rewind() { d.at, d.left, d.lastDelta = 0, d.count, -1 }

func (d *Decoder) open(batch []byte) error {
	var err error
	if d.header, err = ParseHeader(batch, maxEntrySize); err != nil {
		return err
	}
	if size := d.header.Size(); size > int64(len(batch)) {
		return fail(Truncated, "batch", int64(len(batch)), "batch at offset %d has %d bytes", d.header.BaseOffset, size)
	} else if size < int64(len(batch)) {
		return corrupt("batch", size, "%d bytes after the batch at offset %d", int64(len(batch))-size, d.header.BaseOffset)
	}
	if d.header.Magic < 2 {
		return d.openLegacy(batch)
	}
	if d.header.Count == 0 {
		return nil
	}
	d.records = batch[HeaderSize:]
	if codec := d.header.Codec(); codec != None {
		if d.records, err = d.decompress(codec, d.records); err != nil {
			return err
		}
	}
	if int64(d.header.Count)*minRecordSize > int64(len(d.records)) {
		return corrupt("batch", 57, "%d records in %d bytes at offset %d",
			d.header.Count, len(d.records), d.header.BaseOffset)
	}
	d.left = d.header.Count
	return nil
}

// Next fills rec with the next record; false at the end. It checks that lengths are consumed exactly, offsets ascend
// within the batch's range, and that nothing trails the last record. After an error it gives the same error again.
func (d *Decoder) Next(rec *Record) (bool, error) {
	if d.err != nil {
		return false, d.err
	}
	if d.left == 0 {
		if d.at != len(d.records) {
			d.err = d.corruptRecord(d.at, "bytes after the last record")
			return false, d.err
		}
		return false, nil
	}
	d.left--
	if d.header.Magic < 2 {
		d.nextMessage(rec)
		return true, nil
	}
	if d.err = d.nextRecord(rec); d.err != nil {
		return false, d.err
	}
	return true, nil
}

// Close releases what the decoder reserved and forgets the batch; Open may be called again.
func (d *Decoder) Close() {
	d.records, d.at, d.left, d.count, d.err = nil, 0, 0, 0, nil
	d.headers = nil
	d.out.close()
}
