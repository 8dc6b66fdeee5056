// Package testkit is the truth that tests compare with: what Kafka's own Java consumer read back from the partitions of
// package sample, in both isolation levels.
package testkit

import (
	"bufio"
	"compress/gzip"
	"embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"testing"
)

//go:embed testdata/*.ndjson.gz
var expected embed.FS

// Record is one record as Kafka's consumer saw it. Nil Key or Value = null. Where the consumer's dump kept only a
// digest of a long value, Value is nil and ValueSHA256 and ValueLength describe it; likewise for keys.
type Record struct {
	Offset      int64
	Timestamp   int64
	AppendTime  bool
	LeaderEpoch int32
	Key, Value  []byte
	ValueSHA256 string
	ValueLength int64
	Headers     []Header
}

// Header is one record header; nil Value = null.
type Header struct {
	Key   string
	Value []byte
}

// Expected gives the records of a partition of the sample ("txn-0") in an isolation level ("read_committed" or
// "read_uncommitted"), in offset order, to the end of the broker's log (beyond what can be tiered).
func Expected(tb testing.TB, partition, isolation string) []Record {
	tb.Helper()
	f, err := expected.Open("testdata/" + partition + "." + isolation + ".ndjson.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	records := Parse(tb, z)
	if len(records) == 0 {
		tb.Fatalf("no records for %s %s", partition, isolation)
	}
	return records
}

// Parse reads a consumer's dump, a JSON object a line.
func Parse(tb testing.TB, dump io.Reader) (records []Record) {
	tb.Helper()
	lines := bufio.NewScanner(dump)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Offset      int64        `json:"offset"`
			Timestamp   int64        `json:"timestamp"`
			Type        string       `json:"timestamp_type"`
			LeaderEpoch int32        `json:"leader_epoch"`
			Key         *string      `json:"key"`
			Value       *string      `json:"value"`
			ValueSHA256 string       `json:"value_sha256"`
			ValueLength int64        `json:"value_length"`
			Headers     [][2]*string `json:"headers"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			tb.Fatal(err)
		}
		r := Record{
			Offset: line.Offset, Timestamp: line.Timestamp, AppendTime: line.Type == "LogAppendTime",
			LeaderEpoch: line.LeaderEpoch, Key: decode(tb, line.Key), Value: decode(tb, line.Value),
			ValueSHA256: line.ValueSHA256, ValueLength: line.ValueLength,
		}
		for _, h := range line.Headers {
			r.Headers = append(r.Headers, Header{Key: *h[0], Value: decode(tb, h[1])})
		}
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	return records
}

func decode(tb testing.TB, s *string) []byte {
	if s == nil {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(*s)
	if err != nil {
		tb.Fatal(err)
	}
	return append([]byte{}, b...)
}
