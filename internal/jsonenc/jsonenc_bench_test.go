package jsonenc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"coldtap/segment"
)

// benchRecords are records of about 1 KiB: a key, a JSON-like text with quotation marks in it, two headers.
func benchRecords() []segment.Record {
	records := make([]segment.Record, 100)
	for i := range records {
		var value bytes.Buffer
		for j := 0; value.Len() < 950; j++ {
			fmt.Fprintf(&value, `{"order":%d,"line":%d,"text":"some ordinary words of a sentence, and a number"}`, i, j)
		}
		records[i] = segment.Record{
			Offset: int64(1000 + i), Timestamp: 1700000000000 + int64(i), LeaderEpoch: 4,
			Key: fmt.Appendf(nil, "customer-%06d", i), Value: value.Bytes(),
			Headers: []segment.RecordHeader{{Key: []byte("trace"), Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736")}, {Key: []byte("source"), Value: []byte("shop")}},
		}
	}
	return records
}

func payload(records []segment.Record) (n int64) {
	for i := range records {
		n += int64(len(records[i].Key) + len(records[i].Value))
		for _, h := range records[i].Headers {
			n += int64(len(h.Key) + len(h.Value))
		}
	}
	return n
}

func BenchmarkEncodeNDJSON(b *testing.B) {
	records := benchRecords()
	b.SetBytes(payload(records))
	e := encoder(Text)
	dst := make([]byte, 0, 1<<20)
	for b.Loop() {
		dst = dst[:0]
		for i := range records {
			dst = append(e.AppendRecord(dst, &records[i]), '\n')
		}
	}
}

func BenchmarkEncodingJSON(b *testing.B) {
	records := benchRecords()
	b.SetBytes(payload(records))
	enc := json.NewEncoder(io.Discard)
	enc.SetEscapeHTML(false)
	for b.Loop() {
		for i := range records {
			if err := enc.Encode(referenceOf(&records[i], asText)); err != nil {
				b.Fatal(err)
			}
		}
	}
}
