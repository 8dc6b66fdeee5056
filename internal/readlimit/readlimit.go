// Package readlimit reads small files whole. Memory follows the bytes that are there, not a size that a header
// claims.
package readlimit

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrTooLarge is wrapped by the error of a source above its limit.
var ErrTooLarge = errors.New("file too large")

// File reads the file whole, as All does.
func File(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return All(f, limit)
}

// All reads r to its end: at most limit bytes, or an error. The result is never nil without an error.
func All(r io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return raw, nil
}
