package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/jsonenc"
	"coldtap/internal/sample"
	"coldtap/segment"

	"github.com/parquet-go/parquet-go"
)

// lineReaders give what an export of each format holds of a partition as the gateway's ndjson with encoding=base64
// shows it.
var lineReaders = map[Format]func(t *testing.T, dir, partition string, m *Manifest, p *Partition) []string{
	NDJSON: func(t *testing.T, dir, partition string, _ *Manifest, _ *Partition) []string {
		return slices.Collect(strings.Lines(readFile(t, dir, partition+".ndjson")))
	},
	CSV:     csvLines,
	Parquet: parquetLines,
	Raw:     rawLines,
}

func csvLines(t *testing.T, dir, partition string, _ *Manifest, _ *Partition) (lines []string) {
	rows, err := csv.NewReader(strings.NewReader(readFile(t, dir, partition+".csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if head := strings.Join(rows[0], ",") + "\r\n"; head != csvHead {
		t.Errorf("the first line is %q", head)
	}
	show := func(cell string) string {
		if cell == `\N` {
			return "null"
		}
		return `"` + cell + `"`
	}
	for _, r := range rows[1:] {
		lines = append(lines, fmt.Sprintf(`{"topic":"%s","partition":%s,"offset":%s,"timestamp":%s,"timestamp_type":"%s","key":%s,"value":%s,"headers":%s,"leader_epoch":%s}`+"\n",
			r[0], r[1], r[2], r[3], r[4], show(r[5]), show(r[6]), r[7], r[8]))
	}
	return lines
}

func parquetLines(t *testing.T, dir, _ string, _ *Manifest, p *Partition) (lines []string) {
	for _, f := range p.Files {
		file, err := os.Open(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		r := parquet.NewReader(file, parquetSchema)
		rows, records := make([]parquet.Row, 10), int64(0)
		for {
			n, err := r.ReadRows(rows)
			for _, row := range rows[:n] {
				lines = append(lines, lineOf(row))
				records++
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if records != f.Records {
			t.Errorf("%s has %d records, the manifest says %d", f.Name, records, f.Records)
		}
		r.Close()
		file.Close()
	}
	return lines
}

// lineOf shows a row of a Parquet file.
func lineOf(row parquet.Row) string {
	r := segment.Record{}
	bytesOf := func(v parquet.Value) []byte {
		if v.IsNull() {
			return nil
		}
		return append([]byte{}, v.ByteArray()...)
	}
	var topic string
	var partition int32
	values := 0
	for _, v := range row {
		switch v.Column() {
		case columnTopic:
			topic = string(v.ByteArray())
		case columnPartition:
			partition = v.Int32()
		case columnOffset:
			r.Offset = v.Int64()
		case columnTimestamp:
			r.Timestamp = v.Int64()
		case columnTimestampType:
			if string(v.ByteArray()) == "LOG_APPEND_TIME" {
				r.TimestampType = segment.LogAppendTime
			}
		case columnKey:
			r.Key = bytesOf(v)
		case columnValue:
			r.Value = bytesOf(v)
		case columnHeaderKey:
			if !v.IsNull() {
				r.Headers = append(r.Headers, segment.RecordHeader{Key: bytesOf(v)})
			}
		case columnHeaderValue:
			if v.DefinitionLevel() > 0 {
				r.Headers[values].Value = bytesOf(v)
				values++
			}
		case columnLeaderEpoch:
			r.LeaderEpoch = v.Int32()
		}
	}
	return lineOfRecord(topic, partition, &r)
}

func lineOfRecord(topic string, partition int32, r *segment.Record) string {
	var e jsonenc.Encoder
	e.Reset(topic, partition, jsonenc.Base64)
	return string(e.AppendRecord(nil, r)) + "\n"
}

func rawLines(t *testing.T, dir, partition string, m *Manifest, p *Partition) (lines []string) {
	d := segment.NewDecoder(1<<30, nil)
	defer d.Close()
	for b, err := range segment.Batches([]byte(readFile(t, dir, partition+".raw"))) {
		if err == nil {
			err = segment.VerifyCRC(&b.Header, b.Bytes)
		}
		if err == nil {
			err = d.Open(b.Bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Header.IsControl() {
			if m.Asked["isolation"] == "read_committed" {
				t.Errorf("a control batch at offset %d", b.Header.BaseOffset)
			}
			continue
		}
		var r segment.Record
		for {
			more, err := d.Next(&r)
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
			if r.Offset >= p.StartOffset && r.Offset < *p.EndOffset {
				lines = append(lines, lineOfRecord(m.Topic, p.Partition, &r))
			}
		}
	}
	return lines
}

// equal compares lines and says where they differ.
func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s: line %d is\n%.300s want\n%.300s", what, i, got[i], want[i])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d records, the gateway has %d", what, len(got), len(want))
	}
}

// encodingFor is what makes ndjson and CSV comparable with base64 JSON.
func encodingFor(f Format) string {
	if f == NDJSON || f == CSV {
		return "base64"
	}
	return ""
}

// forEachPartition calls fn with each partition of an export of a topic.
func forEachPartition(m *Manifest, fn func(dir string, p *Partition)) {
	for _, p := range m.Partitions {
		fn(fmt.Sprintf("%s-%d", m.Topic, p.Partition), p)
	}
}

var sampleTopics = []string{"plain", "txn", "gaps", "codecs"}

// TestEveryFormatHoldsWhatTheGatewayShows: all topics, both isolation levels, in small requests and parts.
func TestEveryFormatHoldsWhatTheGatewayShows(t *testing.T) {
	base := startGateway(t)
	for format, lines := range lineReaders {
		for _, isolation := range []string{"read_committed", "read_uncommitted"} {
			t.Run(string(format)+"/"+isolation, func(t *testing.T) {
				partitions := 0
				for _, topic := range sampleTopics {
					dir := t.TempDir()
					m := mustRun(t, small(Options{URL: base, Topic: topic, To: Latest, Format: format, Encoding: encodingFor(format), Isolation: isolation, Dir: dir}))
					forEachPartition(m, func(name string, p *Partition) {
						partitions++
						want := fetchLines(t, base, name, "offset=earliest&encoding=base64&isolation_level="+isolation)
						equal(t, name, lines(t, dir, name, m, p), want)
						if format != Raw && p.Records != int64(len(want)) {
							t.Errorf("%s: the manifest says %d records, there are %d", name, p.Records, len(want))
						}
					})
				}
				if partitions != len(sample.Partitions) {
					t.Errorf("%d partitions", partitions)
				}
			})
		}
	}
}

// TestNDJSONIsTheGatewaysByteForByte in each of its encodings, to a file and to a stream.
func TestNDJSONIsTheGatewaysByteForByte(t *testing.T) {
	base := startGateway(t)
	for _, encoding := range []string{"text", "json", "base64"} {
		for _, topic := range sampleTopics {
			query := "offset=earliest"
			if encoding != "text" {
				query += "&encoding=" + encoding
			}
			dir := t.TempDir()
			o := small(Options{URL: base, Topic: topic, To: Latest, Format: NDJSON, Encoding: encoding})
			var all, stream bytes.Buffer
			o.Dir = dir
			m := mustRun(t, o)
			forEachPartition(m, func(name string, p *Partition) {
				want := strings.Join(fetchLines(t, base, name, query), "")
				all.WriteString(want)
				if got := readFile(t, dir, name+".ndjson"); got != want {
					t.Errorf("%s %s differs", name, encoding)
				}
			})
			o.Dir, o.Out = "", &stream
			if mustRun(t, o); stream.String() != all.String() {
				t.Errorf("%s %s: the stream differs", topic, encoding)
			}
		}
	}
}

func TestCSVFields(t *testing.T) {
	record := func(key, value []byte, headers ...segment.RecordHeader) *segment.Record {
		return &segment.Record{Offset: 7, Timestamp: 1700000000000, LeaderEpoch: 2, Key: key, Value: value, Headers: headers}
	}
	for _, c := range []struct {
		name, encoding string
		r              *segment.Record
		want           string
	}{
		{"null and empty", "base64", record(nil, []byte{}), `7,1700000000000,CREATE_TIME,\N,,[],2`},
		{"bytes", "base64", record([]byte{0xff, 0xfe}, []byte(`\N`)), `7,1700000000000,CREATE_TIME,//4=,XE4=,[],2`},
		{"text null and empty", "text", record(nil, []byte{}), `7,1700000000000,CREATE_TIME,\N,,[],2`},
		{"text", "text", record([]byte("a"), []byte("x, \"y\"\r\nz")), "7,1700000000000,CREATE_TIME,a,\"x, \"\"y\"\"\r\nz\",[],2"},
		{"text like null", "text", record([]byte(`\N`), nil), `7,1700000000000,CREATE_TIME,"\N",\N,[],2`},
		{"no text", "text", record([]byte{0xff}, nil), `7,1700000000000,CREATE_TIME,"{""__raw__"":""/w==""}",\N,[],2`},
		{"headers", "text", record(nil, nil, segment.RecordHeader{Key: []byte("h"), Value: []byte("1")}, segment.RecordHeader{Key: []byte("n")}),
			`7,1700000000000,CREATE_TIME,\N,\N,"[{""key"":""h"",""value"":""1""},{""key"":""n"",""value"":null}]",2`},
	} {
		e := &export{options: Options{Topic: "t", Format: CSV, Encoding: c.encoding}}
		if got := string(e.encoder(3)(nil, c.r)); got != "t,3,"+c.want+"\r\n" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzCSV: a CSV reader gives each field back.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,\"b\"\r\n"), []byte(`\N`), []byte("h"))
	f.Add([]byte{0xff}, []byte(" x\n"), []byte{0xc3})
	f.Fuzz(func(t *testing.T, key, value, header []byte) {
		r := &segment.Record{Key: key, Value: value, Headers: []segment.RecordHeader{{Key: header, Value: value}}}
		for _, encoding := range []string{"base64", "text"} {
			e := &export{options: Options{Topic: "t", Format: CSV, Encoding: encoding}}
			text := string(e.encoder(0)(nil, r))
			fields, err := csv.NewReader(strings.NewReader(text)).Read()
			if err != nil || len(fields) != 9 || !json.Valid([]byte(fields[7])) {
				t.Fatalf("%q: %v", text, err)
			}
			// encoding/csv makes a line feed of CR LF inside quotes.
			lf := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
			for i, b := range map[int][]byte{5: key, 6: value} {
				var want string
				var j jsonenc.Encoder
				j.Reset("t", 0, encodings[encoding])
				line := j.AppendRecord(nil, r)
				var doc map[string]json.RawMessage
				if err := json.Unmarshal(line, &doc); err != nil {
					t.Fatal(err)
				}
				shown := doc[map[int]string{5: "key", 6: "value"}[i]]
				switch {
				case b == nil:
					want = `\N`
				case shown[0] == '"':
					if err := json.Unmarshal(shown, &want); err != nil {
						t.Fatal(err)
					}
				default:
					want = string(shown)
				}
				if fields[i] != lf(want) {
					t.Fatalf("%s: field %d is %q, want %q", encoding, i, fields[i], want)
				}
			}
		}
	})
}
