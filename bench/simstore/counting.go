package simstore

import (
	"context"
	"io"
	"strings"
	"sync/atomic"

	"coldtap/rangeio"
)

// Counting counts what is read from a store.
type Counting struct {
	rangeio.Backend
	logGets atomic.Int64
	bytes   atomic.Int64
}

// NewCounting counts the reads of b.
func NewCounting(b rangeio.Backend) *Counting { return &Counting{Backend: b} }

// LogGets is how many GETs of .log objects there were.
func (s *Counting) LogGets() int64 { return s.logGets.Load() }

// BytesRead is how many bytes of bodies were read.
func (s *Counting) BytesRead() int64 { return s.bytes.Load() }

// Open counts the request and, as they are read, its bytes.
func (s *Counting) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
	if strings.HasSuffix(key, ".log") {
		s.logGets.Add(1)
	}
	body, info, err := s.Backend.Open(ctx, key, off, n, etag)
	if err != nil {
		return nil, info, err
	}
	return &countedBody{ReadCloser: body, bytes: &s.bytes}, info, nil
}

type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

// Read counts what the body gave.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}
