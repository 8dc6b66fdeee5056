package bench

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"

	"coldtap/segment"
)

// indexInterval is Kafka's index.interval.bytes default.
const indexInterval = 4096

// logWriter writes uncompressed v2 batches (kafka-formats: RecordBatch) with the indexes a broker would write.
type logWriter struct {
	spec   Spec
	base   int64 // of the next segment
	random *rand.Rand
}

// segment writes one segment from w.base on and gives its log, its indexes and its last offset.
func (w *logWriter) segment() (log []byte, files *segment.Files, last int64) {
	if w.random == nil {
		w.random = rand.New(rand.NewPCG(1, 2)) // the same data in every run
	}
	files = &segment.Files{OffsetIndex: []byte{}, TimeIndex: []byte{}}
	offset, sinceIndexed := w.base, 0
	log = make([]byte, 0, w.spec.SegmentBytes+w.spec.BatchRecords*(w.spec.ValueBytes+64))
	for len(log) < w.spec.SegmentBytes {
		position := len(log)
		log = w.batch(log, offset)
		last = offset + int64(w.spec.BatchRecords) - 1
		if sinceIndexed > indexInterval {
			files.OffsetIndex = binary.BigEndian.AppendUint32(files.OffsetIndex, uint32(last-w.base))
			files.OffsetIndex = binary.BigEndian.AppendUint32(files.OffsetIndex, uint32(position))
			files.TimeIndex = binary.BigEndian.AppendUint64(files.TimeIndex, uint64(epochMs+last))
			files.TimeIndex = binary.BigEndian.AppendUint32(files.TimeIndex, uint32(last-w.base))
			sinceIndexed = 0
		}
		sinceIndexed += len(log) - position
		offset = last + 1
	}
	return log, files, last
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch appends one batch whose first record has the given offset.
func (w *logWriter) batch(dst []byte, offset int64) []byte {
	start := len(dst)
	timestamp := uint64(epochMs + offset)
	last := w.spec.BatchRecords - 1
	dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	dst = append(dst, 0, 0, 0, 0) // length, filled in below
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = append(dst, 2, 0, 0, 0, 0, 0, 0) // magic, crc (below), attributes
	dst = binary.BigEndian.AppendUint32(dst, uint32(last))
	dst = binary.BigEndian.AppendUint64(dst, timestamp)
	dst = binary.BigEndian.AppendUint64(dst, timestamp+uint64(last))
	dst = append(dst, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // no producer
	dst = binary.BigEndian.AppendUint32(dst, uint32(w.spec.BatchRecords))
	var body []byte
	for i := range w.spec.BatchRecords {
		body = append(body[:0], 0)
		body = binary.AppendVarint(body, int64(i)) // timestamp delta
		body = binary.AppendVarint(body, int64(i)) // offset delta
		body = binary.AppendVarint(body, 16)
		body = binary.BigEndian.AppendUint64(body, 0x6b65792d6b65792d) // "key-key-"
		body = appendDigits(body, offset+int64(i))
		body = binary.AppendVarint(body, int64(w.spec.ValueBytes))
		body = w.appendText(body)
		body = binary.AppendVarint(body, 0) // headers
		dst = binary.AppendVarint(dst, int64(len(body)))
		dst = append(dst, body...)
	}
	batch := dst[start:]
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
	return dst
}

// appendDigits writes n as eight decimal digits.
func appendDigits(dst []byte, n int64) []byte {
	var digits [8]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	return append(dst, digits[:]...)
}

// letters has text's usual mix: mostly plain, and now and then a byte that JSON must escape.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789  \","

func (w *logWriter) appendText(dst []byte) []byte {
	for range w.spec.ValueBytes {
		dst = append(dst, letters[w.random.IntN(len(letters))])
	}
	return dst
}
