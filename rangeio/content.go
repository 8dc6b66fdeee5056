package rangeio

import (
	"errors"
	"fmt"
	"io"
)

// contentError marks an error of the content to be put, which no retry against the store can cure.
type contentError struct{ err error }

func (e contentError) Error() string { return e.err.Error() }
func (e contentError) Unwrap() error { return e.err }

// contentReader reads a Content from front to back. An end before Size is an error: taken for the end of the data, it
// would complete a truncated object that looks whole.
type contentReader struct {
	c    Content
	size int64
	off  int64
	err  error // first error of the source, kept because upload layers rewrap or drop it
}

func newContentReader(c Content) *contentReader { return &contentReader{c: c, size: c.Size()} }

func (r *contentReader) Read(p []byte) (int, error) {
	if r.off >= r.size {
		return 0, io.EOF
	}
	if rest := r.size - r.off; int64(len(p)) > rest {
		p = p[:rest]
	}
	n, err := r.c.ReadAt(p, r.off)
	r.off += int64(n)
	switch {
	case n == len(p):
		return n, nil
	case err == nil, err == io.EOF:
		err = fmt.Errorf("source ended at %d of %d bytes: %w", r.off, r.size, io.ErrUnexpectedEOF)
	}
	r.err = contentError{err}
	return n, r.err
}

// Seek lets the upload layer ask for the size.
func (r *contentReader) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += r.off
	case io.SeekEnd:
		off += r.size
	}
	if off < 0 {
		return 0, errors.New("seek before the start")
	}
	r.off = off
	return off, nil
}
