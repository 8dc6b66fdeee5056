package segment

import (
	"errors"
	"fmt"
	"io"
)

// logBuffer is the memory through which a LogReader reads: 1 MiB is Kafka's default max.message.bytes, so that nearly
// every batch is seen whole, and reads of that size keep a disk busy.
const logBuffer = 1 << 20

// LogReader streams the entries of a log of any size through one buffer, and checks the CRC of each. Not for concurrent
// use.
type LogReader struct {
	in       io.Reader
	size     int64
	position int64 // of the next entry
	whole    int64
	buffer   []byte
	unread   []byte // the part of buffer that is read from in and not used yet
}

// LogEntry is an entry of a log as LogReader gives it.
type LogEntry struct {
	Header
	Position int64  // of the first byte
	Bytes    []byte // the whole entry, valid until the next call; nil when it is larger than the reader keeps
	CRCError error  // nil: the CRC matches
}

// NewLogReader reads the first size bytes of in. Entries of up to whole bytes are given whole; memory is 1 MiB, or
// whole where that is more and such an entry is there.
func NewLogReader(in io.Reader, size, whole int64) *LogReader {
	return &LogReader{in: in, size: size, whole: whole, buffer: make([]byte, min(size, logBuffer))}
}

// Position is that of the next entry.
func (r *LogReader) Position() int64 { return r.position }

// Next gives the next entry, io.EOF behind the last. An *Error says that no entry begins here, or only a part of one;
// its position is that of the entry in the log, and Read gives the bytes from there on. Errors of the reader come back
// as they are; where it ends before the log does, the error is io.ErrUnexpectedEOF.
func (r *LogReader) Next() (e LogEntry, err error) {
	left := r.size - r.position
	if left == 0 {
		return e, io.EOF
	}
	head, err := r.Peek(min(left, HeaderSize))
	if err != nil {
		return e, err
	}
	e.Position = r.position
	if e.Header, err = ParseHeader(head, left); err != nil {
		damage := *err.(*Error)
		damage.Position = r.position
		if damage.Kind == TooLarge {
			damage.Kind = Truncated // the limit was what is left of the log
		}
		return e, &damage
	}
	sum := NewChecksum(&e.Header)
	if e.Size() <= r.whole {
		if e.Bytes, err = r.Peek(e.Size()); err != nil {
			return e, err
		}
		sum.Add(e.Bytes)
		r.use(e.Size())
	} else if err := r.addTo(&sum, e.Size()); err != nil {
		return e, err
	}
	e.CRCError = sum.Verify()
	return e, nil
}

// addTo uses up the next n bytes for a checksum.
func (r *LogReader) addTo(sum *Checksum, n int64) error {
	for n > 0 {
		p, err := r.Peek(min(n, int64(len(r.buffer))))
		if err != nil {
			return err
		}
		sum.Add(p)
		r.use(int64(len(p)))
		n -= int64(len(p))
	}
	return nil
}

func (r *LogReader) use(n int64) {
	r.unread = r.unread[n:]
	r.position += n
}

// Peek gives the next n bytes, valid until the next call, without using them up. n is at most what is left of the log,
// so that the buffer grows only for bytes that exist.
func (r *LogReader) Peek(n int64) ([]byte, error) {
	if int64(len(r.unread)) >= n {
		return r.unread[:n], nil
	}
	if int64(len(r.buffer)) < n {
		grown := make([]byte, max(n, min(2*int64(len(r.buffer)), r.whole)))
		r.unread = grown[:copy(grown, r.unread)]
		r.buffer = grown
	} else {
		r.unread = r.buffer[:copy(r.buffer, r.unread)]
	}
	have := len(r.unread)
	more, err := io.ReadAtLeast(r.in, r.buffer[have:], int(n)-have)
	r.unread = r.buffer[:have+more]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w at byte %d of %d: it was cut while it was read", io.ErrUnexpectedEOF, r.position+int64(len(r.unread)), r.size)
	}
	if err != nil {
		return nil, err
	}
	return r.unread[:n], nil
}

// Read gives the bytes of the log from the next entry on.
func (r *LogReader) Read(p []byte) (int, error) {
	if r.position == r.size {
		return 0, io.EOF
	}
	if len(r.unread) == 0 {
		if _, err := r.Peek(1); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.unread[:min(int64(len(r.unread)), r.size-r.position)])
	r.use(int64(n))
	return n, nil
}
