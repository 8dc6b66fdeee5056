package rangeio

import (
	"context"
	"io"
	"os"
	"sync"
)

// laterStore is a file store whose folder may not be there yet: a gateway that is started before the first offload. Each
// operation looks for the folder until it is found; before, they fail with NoBucket.
type laterStore struct {
	dir string

	mu struct {
		sync.Mutex
		found  Backend
		closed bool
	}
}

// OpenFileLater is OpenFile for a folder that somebody else makes. It never fails, and never writes by itself.
func OpenFileLater(dir string) Backend { return &laterStore{dir: dir} }

func (s *laterStore) open(op string) (Backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.found == nil {
		b, err := OpenFile(s.dir, false)
		if err != nil {
			return nil, err
		}
		s.mu.found = b
	}
	if s.mu.closed {
		return nil, &Error{Kind: Unavailable, Op: op, Key: s.dir, Err: os.ErrClosed}
	}
	return s.mu.found, nil
}

func (s *laterStore) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	b, err := s.open("get")
	if err != nil {
		return nil, Info{}, err
	}
	return b.Open(ctx, key, off, n, etag)
}

func (s *laterStore) Stat(ctx context.Context, key string) (Info, error) {
	b, err := s.open("stat")
	if err != nil {
		return Info{}, err
	}
	return b.Stat(ctx, key)
}

func (s *laterStore) Put(ctx context.Context, key string, c Content) (Info, error) {
	b, err := s.open("put")
	if err != nil {
		return Info{}, err
	}
	return b.Put(ctx, key, c)
}

func (s *laterStore) Delete(ctx context.Context, key string) error {
	b, err := s.open("delete")
	if err != nil {
		return err
	}
	return b.Delete(ctx, key)
}

func (s *laterStore) List(ctx context.Context, prefix string, fn func(Object) error) error {
	b, err := s.open("list")
	if err != nil {
		return err
	}
	return b.List(ctx, prefix, fn)
}

func (s *laterStore) String() string { return "file://" + s.dir }

func (s *laterStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	if s.mu.found == nil {
		return nil
	}
	return s.mu.found.Close()
}
