package inspect

import (
	"errors"
	"fmt"
	"io"

	"coldtap/segment"
)

const (
	// bufferSize is the memory through which a log is read. 1 MiB is Kafka's default max.message.bytes, so that nearly
	// every batch is seen whole.
	bufferSize = 1 << 20
	// maxWhole is the largest batch whose records can be shown.
	maxWhole = 64 << 20
)

// entry is one batch of a log, or one message of magic 0 or 1.
type entry struct {
	segment.Header
	position int64
	bytes    []byte // whole, valid until the next one; nil when larger than the reader keeps
	sound    bool   // its CRC matches
}

// logReader streams the entries of a log.
type logReader struct {
	in       io.Reader
	size     int64
	position int64 // of the next entry
	whole    int64 // largest entry that is given whole
	buffer   []byte
	held     []byte // what of buffer is read and not yet used
}

// newLogReader reads size bytes of in. Entries up to whole bytes are given whole.
func newLogReader(in io.Reader, size, whole int64) *logReader {
	return &logReader{in: in, size: size, whole: whole, buffer: make([]byte, min(size, bufferSize))}
}

// next gives the next entry, or io.EOF behind the last. A *segment.Error says that nothing further can be made out; its
// position is that of the log.
func (r *logReader) next() (e entry, err error) {
	left := r.size - r.position
	if left == 0 {
		return e, io.EOF
	}
	head, err := r.peek(min(left, segment.HeaderSize))
	if err != nil {
		return e, err
	}
	e.position = r.position
	if e.Header, err = segment.ParseHeader(head, left); err != nil {
		if damage, ok := errors.AsType[*segment.Error](err); ok {
			at := *damage
			at.Position = r.position
			if at.Kind == segment.TooLarge {
				at.Kind = segment.Truncated // the limit was what is left of the log
			}
			return e, &at
		}
		return e, err
	}
	r.position += e.Size()
	if e.Size() > r.whole {
		e.sound, err = r.pass(&e)
		return e, err
	}
	if e.bytes, err = r.peek(e.Size()); err != nil {
		return e, err
	}
	r.held = r.held[len(e.bytes):]
	e.sound = segment.VerifyCRC(&e.Header, e.bytes) == nil
	return e, nil
}

// peek gives the next n bytes without using them up. n is at most what is left of the log, so that the buffer grows
// for bytes that exist.
func (r *logReader) peek(n int64) ([]byte, error) {
	if int64(len(r.held)) >= n {
		return r.held[:n], nil
	}
	if int64(len(r.buffer)) < n {
		grown := make([]byte, min(max(n, 2*int64(len(r.buffer))), max(n, r.whole)))
		r.held = grown[:copy(grown, r.held)]
		r.buffer = grown
	} else {
		r.held = r.buffer[:copy(r.buffer, r.held)]
	}
	have := len(r.held)
	more, err := io.ReadAtLeast(r.in, r.buffer[have:], int(n)-have)
	r.held = r.buffer[:have+more]
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("it was cut while it was read: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, err
	}
	return r.held[:n], nil
}

// pass is segment.VerifyCRC for an entry that is not to be held.
func (r *logReader) pass(e *entry) (sound bool, err error) {
	sum := segment.NewChecksum(&e.Header)
	for left := e.Size(); left > 0; {
		p, err := r.peek(min(left, int64(len(r.buffer))))
		if err != nil {
			return false, err
		}
		sum.Add(p)
		left -= int64(len(p))
		r.held = r.held[len(p):]
	}
	return sum.Verify() == nil, nil
}

// drain reads the rest, so that whoever looks at the bytes behind the reader has seen all.
func (r *logReader) drain() error {
	_, err := io.Copy(io.Discard, r.in)
	return err
}
