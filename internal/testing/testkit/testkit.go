// Package testkit is the truth that tests compare with: what Kafka's own Java consumer read back from the partitions of
// package sample, in both isolation levels.
package testkit

import (
	"bufio"
	"bytes"
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
	records, err := Parse(z)
	if err != nil || len(records) == 0 {
		tb.Fatalf("%d records for %s %s, %v", len(records), partition, isolation, err)
	}
	return records
}

// Parse reads a consumer's dump, a JSON object a line.
func Parse(dump io.Reader) (records []Record, err error) {
	lines := bufio.NewScanner(dump)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Offset      int64    `json:"offset"`
			Timestamp   int64    `json:"timestamp"`
			Type        string   `json:"timestamp_type"`
			LeaderEpoch int32    `json:"leader_epoch"`
			Key         nullable `json:"key"`
			Value       nullable `json:"value"`
			ValueSHA256 string   `json:"value_sha256"`
			ValueLength int64    `json:"value_length"`
			Headers     []header `json:"headers"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		r := Record{
			Offset: line.Offset, Timestamp: line.Timestamp, AppendTime: line.Type == "LogAppendTime",
			LeaderEpoch: line.LeaderEpoch, Key: line.Key, Value: line.Value,
			ValueSHA256: line.ValueSHA256, ValueLength: line.ValueLength,
		}
		for _, h := range line.Headers {
			r.Headers = append(r.Headers, Header(h))
		}
		records = append(records, r)
	}
	return records, lines.Err()
}

// nullable is base64 or null; no bytes and null are different.
type nullable []byte

func (n *nullable) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	*n = append([]byte{}, raw...)
	return err
}

// header is one header, [key, value].
type header Header

func (h *header) UnmarshalJSON(b []byte) error {
	var value nullable
	if err := json.Unmarshal(b, &[]any{&h.Key, &value}); err != nil {
		return err
	}
	h.Value = value
	return nil
}
