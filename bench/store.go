package bench

import (
	"context"
	"io"
	"strings"
	"sync/atomic"

	"coldtap/bench/simstore"
	"coldtap/rangeio"
)

// countingStore is an in-memory store that counts what is read from it.
type countingStore struct {
	rangeio.Backend
	logGets atomic.Int64 // GETs of .log objects
	bytes   atomic.Int64 // bytes of all bodies, as read
}

func newCountingStore() *countingStore {
	return &countingStore{Backend: simstore.NewMemory()}
}

// Open counts the request and, as they are read, its bytes.
func (s *countingStore) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
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
