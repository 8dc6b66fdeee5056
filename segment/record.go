package segment

import "unsafe"

// RecordHeader is one header of a record. Value nil = null; Key is never nil, may be empty, and may repeat.
type RecordHeader struct{ Key, Value []byte }

const recordHeaderSize = int64(unsafe.Sizeof(RecordHeader{}))

// minRecordSize is a v2 record's length, attributes, two deltas, two lengths and header count, a byte each;
// minRecordHeaderSize its two lengths.
const (
	minRecordSize       = 7
	minRecordHeaderSize = 2
)

// Record is one record as a consumer sees it. Key and Value nil = null; empty is not null. All slices are views, valid
// until the Decoder's next Open or Close.
type Record struct {
	Offset        int64
	Timestamp     int64 // milliseconds; -1 = none (magic 0)
	TimestampType TimestampType
	LeaderEpoch   int32 // -1 = unknown
	Key, Value    []byte
	Headers       []RecordHeader // reused by the next call of Next
}

// nextRecord reads the next record of a v2 batch.
func (d *Decoder) nextRecord(rec *Record) error {
	start := d.at
	c := cursor{b: d.records, at: start}
	size := c.varint()
	if c.fault != "" {
		return d.corruptRecord(start, "length: "+c.fault)
	}
	if size < 0 || int(size) > c.left() {
		return d.corruptRecord(start, "length beyond the batch")
	}
	end := c.at + int(size)
	c.b = c.b[:end]

	c.int8() // attributes, of which no bit has a meaning yet
	timestamp := c.varlong()
	delta := c.varint()
	key := c.bytes(c.varint())
	value := c.bytes(c.varint())
	count := c.varint()
	if c.fault != "" {
		return d.corruptRecord(start, c.fault)
	}
	if count < 0 || int(count) > c.left()/minRecordHeaderSize {
		return d.corruptRecord(start, "header count does not fit the record")
	}
	if count > 0 {
		if err := d.reserveHeaders(int(count)); err != nil {
			return err
		}
		for i := range d.headers[:count] {
			n := c.varint()
			if n < 0 {
				return d.corruptRecord(start, "null header key")
			}
			d.headers[i].Key = c.bytes(n)
			d.headers[i].Value = c.bytes(c.varint())
		}
		if c.fault != "" {
			return d.corruptRecord(start, "headers: "+c.fault)
		}
	}
	if c.at != end {
		return d.corruptRecord(start, "bytes left over in the record")
	}
	if delta <= d.lastDelta || delta > d.header.LastOffsetDelta {
		return d.corruptRecord(start, "offset out of order or outside the batch")
	}
	d.at, d.lastDelta = end, delta

	rec.Offset = d.header.BaseOffset + int64(delta)
	rec.LeaderEpoch = d.header.LeaderEpoch
	rec.TimestampType = d.header.TimestampType()
	if rec.TimestampType == LogAppendTime {
		rec.Timestamp = d.header.MaxTimestamp
	} else {
		rec.Timestamp = d.header.BaseTimestamp + timestamp
	}
	rec.Key, rec.Value = key, value
	rec.Headers = d.headers[:count:count]
	return nil
}

// reserveHeaders makes room for n headers. In the decoder's memory a header takes 24 times its smallest form in the
// batch, hence it is bounded and reserved like decompressed bytes.
func (d *Decoder) reserveHeaders(n int) error {
	if n <= cap(d.headers) {
		d.headers = d.headers[:cap(d.headers)]
		return nil
	}
	size := int64(n) * recordHeaderSize
	if size > d.out.limit {
		return fail(TooLarge, "record", -1, "%d headers take %d bytes, limit %d", n, size, d.out.limit)
	}
	n = max(n, min(2*cap(d.headers), int(d.out.limit/recordHeaderSize)), 8)
	old := int64(cap(d.headers)) * recordHeaderSize
	d.headers = nil
	d.out.release(old)
	if err := d.out.reserve(int64(n) * recordHeaderSize); err != nil {
		return err
	}
	d.headers = make([]RecordHeader, n)
	return nil
}

func (d *Decoder) corruptRecord(at int, detail string) error {
	position := int64(-1)
	if d.header.Codec() == None {
		position = int64(HeaderSize + at)
	}
	return corrupt("record", position, "%s (in the batch at offset %d, byte %d of its records)",
		detail, d.header.BaseOffset, at)
}
