package export

import (
	"fmt"
	"io"
	"os"
	"time"

	"coldtap/segment"
)

// sink is where a partition's records go. write and writeBatch take views that are valid for the call only.
type sink interface {
	write(r *segment.Record) error
	writeBatch(b *segment.Batch) error // Raw only, in place of write
	// checkpoint makes all records written so far durable, as what comes before the offset next, and returns the files as
	// they then are. It may do nothing (done is false) when too little was written since the last one, but not with force.
	// scanned is how many bytes of batches this run has read.
	checkpoint(next, scanned int64, force bool) (files []File, done bool, err error)
	close() error
}

// maxTopicInName keeps a file's name within the 255 bytes that file systems take.
const maxTopicInName = 200

// fileName begins the names of a partition's files. Topic names are legal ones, which are safe as path elements.
func fileName(topic string, partition int32) string {
	return fmt.Sprintf("%.*s-%d", maxTopicInName, topic, partition)
}

// openSink opens the sink where p goes on.
func (e *export) openSink(p *Partition) (sink, error) {
	name := fileName(e.options.Topic, p.Partition)
	if e.options.Format == Parquet {
		return newPartSink(e, name, p), nil
	}
	encode := e.encoder(p.Partition)
	if e.folder == nil {
		return &streamSink{to: e.options.Out, encode: encode}, nil
	}
	file := File{StartOffset: p.StartOffset, NextOffset: p.StartOffset}
	if len(p.Files) > 0 {
		file = p.Files[0]
	}
	file.Name = name + "." + string(e.options.Format)
	s := &fileSink{encode: encode, File: file, every: e.options.tuning.checkpointBytes, checkpointAt: time.Now()}
	var err error
	if s.file, err = e.folder.reopen(file.Name, file.Bytes); err != nil {
		return nil, err
	}
	if file.Bytes == 0 && e.options.Format == CSV {
		s.buf = append(s.buf, csvHead...)
	}
	return s, nil
}

const (
	// writeFrom is how much is gathered before a write.
	writeFrom = 256 << 10
	// checkpointAfter bounds how much work a kill can undo when little is written.
	checkpointAfter = 5 * time.Second
)

// fileSink appends to one file.
type fileSink struct {
	File
	encode  func(dst []byte, r *segment.Record) []byte
	file    *os.File
	buf     []byte
	written int64 // bytes behind File.Bytes, without buf
	records int64 // in them, with buf

	every          int64
	checkpointFrom int64 // scanned at the last checkpoint
	checkpointAt   time.Time
}

func (s *fileSink) write(r *segment.Record) error {
	s.buf = s.encode(s.buf, r)
	s.records++
	return s.flush(writeFrom)
}

func (s *fileSink) writeBatch(b *segment.Batch) error {
	s.buf = append(s.buf, b.Bytes...)
	s.records += int64(max(b.Header.Count, 0))
	return s.flush(writeFrom)
}

// flush writes the buffer if it holds at least from bytes.
func (s *fileSink) flush(from int) error {
	if len(s.buf) < from {
		return nil
	}
	n, err := s.file.Write(s.buf)
	s.written += int64(n)
	s.buf = reuse(s.buf)
	return err
}

// reuse empties a buffer, and drops one that a large record has grown.
func reuse(buf []byte) []byte {
	if cap(buf) > 4*writeFrom {
		return nil
	}
	return buf[:0]
}

func (s *fileSink) checkpoint(next, scanned int64, force bool) ([]File, bool, error) {
	if !force && scanned-s.checkpointFrom < s.every && time.Since(s.checkpointAt) < checkpointAfter {
		return nil, false, nil
	}
	err := s.flush(1)
	if err == nil && s.written > 0 {
		err = s.file.Sync()
	}
	if err != nil {
		return nil, false, err
	}
	s.Bytes += s.written
	s.Records += s.records
	s.NextOffset = next
	s.written, s.records = 0, 0
	s.checkpointFrom, s.checkpointAt = scanned, time.Now()
	return []File{s.File}, true, nil
}

func (s *fileSink) close() error { return s.file.Close() }

// streamSink writes to a stream that partitions share, one after another.
type streamSink struct {
	to     io.Writer
	encode func(dst []byte, r *segment.Record) []byte
	buf    []byte
}

func (s *streamSink) write(r *segment.Record) error {
	s.buf = s.encode(s.buf, r)
	if len(s.buf) < writeFrom {
		return nil
	}
	return s.flush()
}

func (s *streamSink) writeBatch(*segment.Batch) error { panic("no raw batches to a stream") }

func (s *streamSink) flush() error {
	_, err := s.to.Write(s.buf)
	s.buf = reuse(s.buf)
	return err
}

// checkpoint writes the records of a batch, so that a reader behind a pipe sees them.
func (s *streamSink) checkpoint(int64, int64, bool) ([]File, bool, error) {
	if len(s.buf) > 0 {
		if err := s.flush(); err != nil {
			return nil, false, err
		}
	}
	return nil, true, nil
}

func (s *streamSink) close() error { return nil }
