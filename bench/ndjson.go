package bench

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"coldtap/internal/jsonenc"
	"coldtap/segment"
)

const (
	encodeRecords = 1000
	encodeRounds  = 9
	encodePasses  = 20 // over all records, in each round
)

// NDJSON compares the record encoder with encoding/json on the same decoded records, encoding only, in turn. The middle
// ratio counts.
func NDJSON() ([]Figure, error) {
	records, err := decodedRecords()
	if err != nil {
		return nil, err
	}
	var encoder jsonenc.Encoder
	encoder.Reset(Topic, 0, jsonenc.Text)
	var buffer []byte
	ours := func() (n int) {
		for i := range records {
			buffer = append(encoder.AppendRecord(buffer[:0], &records[i]), '\n')
			n += len(buffer)
		}
		return n
	}
	theirs := func() (n int) {
		for i := range records {
			line, _ := json.Marshal(plainRecord(&records[i]))
			n += len(line) + 1
		}
		return n
	}
	var ratios []float64
	for range encodeRounds {
		a, b := throughput(ours), throughput(theirs)
		ratios = append(ratios, a/b)
	}
	return []Figure{atLeast("throughput, ours / encoding/json", median(ratios), 3, " ×")}, nil
}

// throughput is output bytes per second.
func throughput(encode func() int) float64 {
	start, n := time.Now(), 0
	for range encodePasses {
		n += encode()
	}
	return float64(n) / time.Since(start).Seconds()
}

// decodedRecords are records as the decoder gives them, kept beyond its buffers.
func decodedRecords() (records []segment.Record, err error) {
	w := &logWriter{spec: Spec{SegmentBytes: 1, BatchRecords: encodeRecords, ValueBytes: 1000}}
	log, _, _ := w.segment()
	decoder := segment.NewDecoder(int64(len(log)), nil)
	defer decoder.Close()
	if err := decoder.Open(log); err != nil {
		return nil, err
	}
	for {
		var r segment.Record // views into log, which stays
		if more, err := decoder.Next(&r); err != nil || !more {
			return records, err
		}
		records = append(records, r)
	}
}

// jsonRecord is the contract's record as encoding/json would be given it.
type jsonRecord struct {
	Topic         string       `json:"topic"`
	Partition     int32        `json:"partition"`
	Offset        int64        `json:"offset"`
	Timestamp     int64        `json:"timestamp"`
	TimestampType string       `json:"timestamp_type"`
	Key           any          `json:"key"`
	Value         any          `json:"value"`
	Headers       []jsonHeader `json:"headers"`
	LeaderEpoch   int32        `json:"leader_epoch"`
}

type jsonHeader struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

func plainRecord(r *segment.Record) *jsonRecord {
	headers := make([]jsonHeader, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = jsonHeader{string(h.Key), plainBytes(h.Value)}
	}
	return &jsonRecord{
		Topic: Topic, Offset: r.Offset, Timestamp: r.Timestamp, TimestampType: "CREATE_TIME",
		Key: plainBytes(r.Key), Value: plainBytes(r.Value), Headers: headers, LeaderEpoch: r.LeaderEpoch,
	}
}

func plainBytes(b []byte) any {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return string(b)
	}
	return map[string]string{"__raw__": base64.StdEncoding.EncodeToString(b)}
}
