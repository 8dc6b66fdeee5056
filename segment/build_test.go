package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// testRecord is a record to put into a batch.
type testRecord struct {
	delta      int32
	timestamp  int64 // relative to the batch's
	key, value []byte
	headers    []RecordHeader
}

func appendVarint(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func appendField(b, field []byte) []byte {
	if field == nil {
		return appendVarint(b, -1)
	}
	return append(appendVarint(b, int64(len(field))), field...)
}

func appendRecord(dst []byte, r testRecord) []byte {
	b := []byte{0}
	b = appendVarint(b, r.timestamp)
	b = appendVarint(b, int64(r.delta))
	b = appendField(b, r.key)
	b = appendField(b, r.value)
	b = appendVarint(b, int64(len(r.headers)))
	for _, h := range r.headers {
		b = appendField(b, h.Key)
		b = appendField(b, h.Value)
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}

func recordBytes(records []testRecord) []byte {
	var b []byte
	for _, r := range records {
		b = appendRecord(b, r)
	}
	return b
}

// buildBatch writes a v2 batch around a payload.
func buildBatch(base int64, attributes int16, lastDelta, count int32, payload []byte) []byte {
	b := make([]byte, HeaderSize, HeaderSize+len(payload))
	binary.BigEndian.PutUint64(b[0:], uint64(base))
	binary.BigEndian.PutUint32(b[8:], uint32(HeaderSize-lengthEnd+len(payload)))
	binary.BigEndian.PutUint32(b[12:], 7)
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], uint16(attributes))
	binary.BigEndian.PutUint32(b[23:], uint32(lastDelta))
	binary.BigEndian.PutUint64(b[27:], 1_700_000_000_000)
	binary.BigEndian.PutUint64(b[35:], 1_700_000_099_999)
	binary.BigEndian.PutUint64(b[43:], ^uint64(0))
	binary.BigEndian.PutUint16(b[51:], ^uint16(0))
	binary.BigEndian.PutUint32(b[53:], ^uint32(0))
	binary.BigEndian.PutUint32(b[57:], uint32(count))
	return seal(append(b, payload...))
}

// seal renews the CRC after a change.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

// plainBatch holds n records whose value is "value-<offset>", uncompressed.
func plainBatch(base int64, n int) []byte {
	return buildBatch(base, 0, int32(n-1), int32(n), recordBytes(plainRecords(base, n)))
}

func plainRecords(base int64, n int) []testRecord {
	records := make([]testRecord, n)
	for i := range records {
		records[i] = testRecord{delta: int32(i), timestamp: int64(i), value: fmt.Appendf(nil, "value-%d", base+int64(i))}
	}
	return records
}

// buildMessage writes an entry of magic 0 or 1.
func buildMessage(magic int8, offset int64, attributes int8, timestamp int64, key, value []byte) []byte {
	b := make([]byte, 16)
	binary.BigEndian.PutUint64(b, uint64(offset))
	b = append(b, byte(magic), byte(attributes))
	if magic == 1 {
		b = binary.BigEndian.AppendUint64(b, uint64(timestamp))
	}
	for _, field := range [][]byte{key, value} {
		if field == nil {
			b = binary.BigEndian.AppendUint32(b, ^uint32(0))
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
	return b
}

func gzipped(tb testing.TB, pieces ...[]byte) []byte {
	var out bytes.Buffer
	for _, p := range pieces {
		w := gzip.NewWriter(&out)
		_, err := w.Write(p)
		if err := errors.Join(err, w.Close()); err != nil {
			tb.Fatal(err)
		}
	}
	return out.Bytes()
}

func xerial(pieces ...[]byte) []byte {
	b := []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01")
	for _, p := range pieces {
		chunk := snappy.Encode(nil, p)
		b = binary.BigEndian.AppendUint32(b, uint32(len(chunk)))
		b = append(b, chunk...)
	}
	return b
}

func lz4Frame(tb testing.TB, data []byte, options ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	err := w.Apply(append([]lz4.Option{lz4.ChecksumOption(false)}, options...)...)
	if err == nil {
		_, err = w.Write(data)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// zstdStream writes a frame as a stream, without its content's size; zstdWhole states it.
func zstdStream(tb testing.TB, data []byte) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		tb.Fatal(err)
	}
	for part := range slices.Chunk(data, 1000) {
		if _, err := w.Write(part); err != nil {
			tb.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func zstdWhole(tb testing.TB, data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil)
}

// decodeAll reads a batch to its end; the records are copies.
func decodeAll(d *Decoder, batch []byte) ([]Record, error) {
	if err := d.Open(batch); err != nil {
		return nil, err
	}
	var records []Record
	var rec Record
	for {
		ok, err := d.Next(&rec)
		if err != nil || !ok {
			return records, err
		}
		copied := rec
		copied.Key, copied.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		copied.Headers = nil
		for _, h := range rec.Headers {
			copied.Headers = append(copied.Headers, RecordHeader{bytes.Clone(h.Key), bytes.Clone(h.Value)})
		}
		records = append(records, copied)
	}
}

func mustDecode(tb testing.TB, batch []byte) []Record {
	tb.Helper()
	d := NewDecoder(64<<20, nil)
	defer d.Close()
	records, err := decodeAll(d, batch)
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

func offsets(records []Record) []int64 {
	var all []int64
	for _, r := range records {
		all = append(all, r.Offset)
	}
	return all
}

// wantPlain checks that records are those of plainRecords(base, n).
func wantPlain(tb testing.TB, records []Record, base int64, n int) {
	tb.Helper()
	if len(records) != n {
		tb.Fatalf("%d records, want %d", len(records), n)
	}
	for i, r := range records {
		if want := fmt.Sprintf("value-%d", base+int64(i)); r.Offset != base+int64(i) || string(r.Value) != want {
			tb.Fatalf("record %d: offset %d, value %q, want %q", i, r.Offset, r.Value, want)
		}
	}
}

// wantKind checks that err is this package's, of that kind.
func wantKind(tb testing.TB, err error, kind Kind) {
	tb.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind {
		tb.Fatalf("error %v, want %s", err, kind)
	}
	// Positions are those of the caller's bytes, and compressed ones have none.
	if slices.Contains([]string{"gzip", "snappy", "lz4", "zstd", "decompression"}, e.Op) && e.Position != -1 {
		tb.Errorf("error %v has a position", err)
	}
}

// allocated gives the bytes that fn allocates in total.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
