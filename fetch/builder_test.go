package fetch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
)

// rec is a record of a test batch; its offset is the batch's base plus delta.
type rec struct {
	delta int
	time  int64
	key   string
	value string
}

// batchOf describes a v2 batch for encode.
type batchOf struct {
	base     int64
	last     int // last offset delta; 0 = that of the last record
	epoch    int32
	attrs    int16 // 0x10 transactional, 0x20 control
	producer int64 // 0 = none
	maxTime  int64 // 0 = largest of the records
	horizon  int64 // stands in the base timestamp's field; 0 = the first record's time does
	zip      bool
	records  []rec
}

var testCRC = crc32.MakeTable(crc32.Castagnoli)

func (b batchOf) encode() []byte {
	var payload []byte
	last, maxTime := b.last, b.maxTime
	for _, r := range b.records {
		last = max(last, r.delta)
		if b.maxTime == 0 {
			maxTime = max(maxTime, r.time)
		}
		body := []byte{0}
		body = binary.AppendVarint(body, r.time-b.baseTime())
		body = binary.AppendVarint(body, int64(r.delta))
		body = binary.AppendVarint(body, int64(len(r.key)))
		body = append(body, r.key...)
		body = binary.AppendVarint(body, int64(len(r.value)))
		body = append(body, r.value...)
		body = append(body, 0)
		payload = binary.AppendVarint(payload, int64(len(body)))
		payload = append(payload, body...)
	}
	attrs := b.attrs
	if b.horizon != 0 {
		attrs |= 0x40
	}
	if b.zip {
		attrs |= 1
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(payload)
		w.Close()
		payload = z.Bytes()
	}
	producer := b.producer
	if producer == 0 {
		producer = -1
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(b.base))
	out = binary.BigEndian.AppendUint32(out, uint32(49+len(payload)))
	out = binary.BigEndian.AppendUint32(out, uint32(b.epoch))
	out = append(out, 2, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(attrs))
	out = binary.BigEndian.AppendUint32(out, uint32(last))
	out = binary.BigEndian.AppendUint64(out, uint64(b.baseTime()))
	out = binary.BigEndian.AppendUint64(out, uint64(maxTime))
	out = binary.BigEndian.AppendUint64(out, uint64(producer))
	out = append(out, 0, 0, 0xff, 0xff, 0xff, 0xff)
	out = binary.BigEndian.AppendUint32(out, uint32(len(b.records)))
	out = append(out, payload...)
	seal(out)
	return out
}

func (b batchOf) baseTime() int64 {
	if len(b.records) == 0 {
		return -1
	}
	if b.horizon != 0 {
		return b.horizon
	}
	return b.records[0].time
}

// seal writes a v2 batch's checksum.
func seal(b []byte) { binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], testCRC)) }

// marker is the ABORT (type 0) or COMMIT (type 1) batch of a producer.
func marker(offset, producer int64, kind byte, time int64) []byte {
	return batchOf{base: offset, attrs: 0x30, producer: producer,
		records: []rec{{time: time, key: "\x00\x00\x00" + string(kind), value: "\x00\x00\x00\x00\x00\x07"}}}.encode()
}

// one is a batch of a single record whose value makes it size bytes long, or the few more that it takes at least.
func one(offset, time int64, size int) []byte {
	for n := max(size-80, 0); ; n++ {
		b := batchOf{base: offset, records: []rec{{time: time, key: "k", value: string(make([]byte, n))}}}.encode()
		if short := size - len(b); short <= 0 {
			return b
		} else if short > 1 {
			n += short - 2
		}
	}
}

// dense is a batch of the records first to last, a second apart from time 1,000 on.
func dense(first, last int64, zip bool) []byte {
	b := batchOf{base: first, zip: zip}
	for o := first; o <= last; o++ {
		b.records = append(b.records, rec{delta: int(o - first), time: 1000 * (o + 1), key: "k", value: "v"})
	}
	return b.encode()
}

// legacy is an uncompressed message of magic 0 or 1.
func legacy(offset int64, magic byte, time int64, value string) []byte {
	body := []byte{magic, 0}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(time))
	}
	body = binary.BigEndian.AppendUint32(body, 0xffffffff)
	body = binary.BigEndian.AppendUint32(body, uint32(len(value)))
	body = append(body, value...)
	out := binary.BigEndian.AppendUint64(nil, uint64(offset))
	out = binary.BigEndian.AppendUint32(out, uint32(4+len(body)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

func offsetIndex(base int64, pairs ...int64) []byte {
	out := []byte{}
	for i := 0; i < len(pairs); i += 2 {
		out = binary.BigEndian.AppendUint32(out, uint32(pairs[i]-base))
		out = binary.BigEndian.AppendUint32(out, uint32(pairs[i+1]))
	}
	return out
}

func timeIndex(base int64, pairs ...int64) []byte {
	out := []byte{}
	for i := 0; i < len(pairs); i += 2 {
		out = binary.BigEndian.AppendUint64(out, uint64(pairs[i]))
		out = binary.BigEndian.AppendUint32(out, uint32(pairs[i+1]-base))
	}
	return out
}
