package export

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coldtap/internal/atomicfile"
	"coldtap/internal/jsonenc"
	"coldtap/segment"

	"github.com/parquet-go/parquet-go"
)

// parquetRow is the schema of a Parquet file. Null keys and values are null. A header's key that is not UTF-8 is shown
// as the marker of package jsonenc.
type parquetRow struct {
	Topic         string          `parquet:"topic,dict"`
	Partition     int32           `parquet:"partition"`
	Offset        int64           `parquet:"offset,delta"`
	Timestamp     int64           `parquet:"timestamp,delta,timestamp(millisecond)"`
	TimestampType string          `parquet:"timestamp_type,dict"`
	Key           []byte          `parquet:"key,optional"`
	Value         []byte          `parquet:"value,optional"`
	Headers       []parquetHeader `parquet:"headers,list"`
	LeaderEpoch   int32           `parquet:"leader_epoch"`
}

type parquetHeader struct {
	Key   string `parquet:"key"`
	Value []byte `parquet:"value,optional"`
}

var parquetSchema = parquet.SchemaOf(parquetRow{})

// Columns of parquetSchema, in its order.
const (
	columnTopic = iota
	columnPartition
	columnOffset
	columnTimestamp
	columnTimestampType
	columnKey
	columnValue
	columnHeaderKey
	columnHeaderValue
	columnLeaderEpoch
)

// partSink writes Parquet files one after another. One that is not whole has another name, so that going on needs no
// appending to a Parquet file: what was not finished is written again.
type partSink struct {
	folder   *folder
	name     string           // what the parts' names begin with
	place    [2]parquet.Value // topic and partition, the same in each row
	tuning   *tuning
	files    []File
	next     int64            // where the part starts
	scanned  int64            // at the part's start
	file     *atomicfile.File // nil: the part has no record yet
	bytes    countedWriter
	writer   *parquet.GenericWriter[any]
	records  int64
	row      parquet.Row
	rowGroup int64 // bytes that the row group holds so far
}

// countedWriter counts what reaches the file.
type countedWriter struct {
	file *atomicfile.File
	n    int64
}

func (w *countedWriter) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	w.n += int64(n)
	return n, err
}

func newPartSink(e *export, name string, p *Partition) *partSink {
	return &partSink{
		folder: e.folder, name: name, tuning: &e.options.tuning, files: slices.Clone(p.Files), next: p.NextOffset,
		place: [2]parquet.Value{
			parquet.ByteArrayValue([]byte(e.options.Topic)).Level(0, 0, columnTopic),
			parquet.Int32Value(p.Partition).Level(0, 0, columnPartition),
		},
	}
}

func (s *partSink) open() (err error) {
	if s.file, err = atomicfile.Create(s.folder.root, s.name+partial, 0o666); err != nil {
		return err
	}
	s.bytes = countedWriter{file: s.file}
	s.writer = parquet.NewGenericWriter[any](&s.bytes, parquetSchema, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("coldtap", "1", "export"))
	return nil
}

func (s *partSink) write(r *segment.Record) error {
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	row := append(s.row[:0], s.place[0], s.place[1],
		parquet.Int64Value(r.Offset).Level(0, 0, columnOffset),
		parquet.Int64Value(r.Timestamp).Level(0, 0, columnTimestamp),
		timestampTypes[r.TimestampType].Level(0, 0, columnTimestampType),
		optional(r.Key, 0, 0, columnKey),
		optional(r.Value, 0, 0, columnValue))
	s.rowGroup += int64(len(r.Key) + len(r.Value))
	if len(r.Headers) == 0 {
		row = append(row, parquet.NullValue().Level(0, 0, columnHeaderKey))
	}
	for i := range r.Headers {
		h := &r.Headers[i]
		row = append(row, parquet.ByteArrayValue(headerKey(h.Key)).Level(min(i, 1), 1, columnHeaderKey))
		s.rowGroup += int64(len(h.Key) + len(h.Value))
	}
	if len(r.Headers) == 0 {
		row = append(row, parquet.NullValue().Level(0, 0, columnHeaderValue))
	}
	for i := range r.Headers {
		row = append(row, optional(r.Headers[i].Value, min(i, 1), 1, columnHeaderValue))
	}
	row = append(row, parquet.Int32Value(r.LeaderEpoch).Level(0, 0, columnLeaderEpoch))
	s.row = row
	if _, err := s.writer.WriteRows([]parquet.Row{row}); err != nil {
		return err
	}
	s.records++
	if s.rowGroup += rowOverhead; s.rowGroup < s.tuning.rowGroupBytes {
		return nil
	}
	s.rowGroup = 0
	return s.writer.Flush()
}

// rowOverhead is what a row's numbers take in a row group, so that rows without bytes are bounded too.
const rowOverhead = 64

var timestampTypes = [...]parquet.Value{
	segment.CreateTime:    parquet.ByteArrayValue([]byte("CREATE_TIME")),
	segment.LogAppendTime: parquet.ByteArrayValue([]byte("LOG_APPEND_TIME")),
}

// optional is a nullable value below level defined.
func optional(b []byte, repetition, defined, column int) parquet.Value {
	if b == nil {
		return parquet.NullValue().Level(repetition, defined, column)
	}
	return parquet.ByteArrayValue(b).Level(repetition, defined+1, column)
}

func headerKey(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return jsonenc.AppendMarker(make([]byte, 0, base64.StdEncoding.EncodedLen(len(b))+16), b)
}

func (s *partSink) writeBatch(*segment.Batch) error { panic("no raw batches in a Parquet file") }

const partSuffix = ".parquet"

// partName is the name of the part that starts at an offset, and partOf gives back what it begins with, or nothing.
func partName(begins string, start int64) string {
	return fmt.Sprintf("%s-%020d%s", begins, start, partSuffix)
}

func partOf(name string) (begins string) {
	rest, ok := strings.CutSuffix(name, partSuffix)
	if i := strings.LastIndexByte(rest, '-'); ok && i >= 0 {
		if start, err := strconv.ParseInt(rest[i+1:], 10, 64); err == nil && partName(rest[:i], start) == name {
			return rest[:i]
		}
	}
	return ""
}

// scanPerPart is how many times a part's size of batches are looked at before a part is finished though filters left
// little of them.
const scanPerPart = 32

func (s *partSink) checkpoint(next, scanned int64, force bool) ([]File, bool, error) {
	if s.file == nil {
		s.next, s.scanned = next, scanned
		return s.files, true, nil
	}
	if !force && s.bytes.n < s.tuning.partBytes && scanned-s.scanned < scanPerPart*s.tuning.partBytes {
		return nil, false, nil
	}
	if err := s.writer.Close(); err != nil {
		return nil, false, err
	}
	name := partName(s.name, s.next)
	if err := s.file.Commit(name); err != nil {
		return nil, false, err
	}
	err := s.file.Close()
	s.file = nil
	if err != nil {
		return nil, false, err
	}
	s.files = append(s.files, File{Name: name, Bytes: s.bytes.n, Records: s.records, StartOffset: s.next, NextOffset: next})
	s.next, s.scanned, s.records, s.rowGroup = next, scanned, 0, 0
	return s.files, true, nil
}

// close removes a part that is not finished.
func (s *partSink) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
