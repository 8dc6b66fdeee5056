package rangeio

import (
	"context"
	"io"
	"os"
	"sync"
)

// laterStore is a file store whose folder may not be there yet, or may be replaced by another one: a gateway that is
// started before the first offload, a mount that comes back. Each operation looks for the folder until it is found;
// before, they fail with NoBucket. An operation that fails because another folder has its place is done once more
// there.
type laterStore struct {
	dir string

	mu struct {
		sync.Mutex
		found  *fileStore
		closed bool
	}
}

// OpenFileLater is OpenFile for a folder that another process makes. It never fails, and makes no folder itself.
func OpenFileLater(dir string) Backend { return &laterStore{dir: dir} }

func (s *laterStore) open(op string) (*fileStore, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, &Error{Kind: Unavailable, Op: op, Key: s.dir, Err: os.ErrClosed}
	}
	if s.mu.found == nil {
		f, err := openFolder(s.dir)
		if err != nil {
			return nil, err
		}
		s.mu.found = f
	}
	return s.mu.found, nil
}

// dropReplaced closes a folder that is no longer the one at the path; false when it still is.
func (s *laterStore) dropReplaced(f *fileStore) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.found != f {
		return true // another operation has
	}
	ours, err := f.root.Stat(".")
	now, nowErr := os.Stat(s.dir)
	if err == nil && nowErr == nil && os.SameFile(ours, now) {
		return false
	}
	s.mu.found = nil
	f.Close()
	return true
}

// do runs an operation, and once more if the folder was replaced.
func (s *laterStore) do(op string, f func(*fileStore) error) error {
	for again := false; ; again = true {
		store, err := s.open(op)
		if err != nil {
			return err
		}
		err = f(store)
		if err == nil || again || !s.dropReplaced(store) {
			return err
		}
	}
}

func (s *laterStore) Open(ctx context.Context, key string, off, n int64, etag string) (body io.ReadCloser, info Info, err error) {
	err = s.do(opGet, func(f *fileStore) (err error) {
		body, info, err = f.Open(ctx, key, off, n, etag)
		return err
	})
	return body, info, err
}

func (s *laterStore) Stat(ctx context.Context, key string) (info Info, err error) {
	err = s.do(opStat, func(f *fileStore) (err error) {
		info, err = f.Stat(ctx, key)
		return err
	})
	return info, err
}

func (s *laterStore) Put(ctx context.Context, key string, c Content) (info Info, err error) {
	err = s.do(opPut, func(f *fileStore) (err error) {
		info, err = f.Put(ctx, key, c)
		return err
	})
	return info, err
}

func (s *laterStore) Delete(ctx context.Context, key string) error {
	return s.do(opDelete, func(f *fileStore) error { return f.Delete(ctx, key) })
}

// List begins again in another folder only when the caller has seen nothing of the first one.
func (s *laterStore) List(ctx context.Context, prefix string, fn func(Object) error) error {
	for again := false; ; again = true {
		f, err := s.open(opList)
		if err != nil {
			return err
		}
		seen := false
		err = f.List(ctx, prefix, func(o Object) error {
			seen = true
			return fn(o)
		})
		if seen || again || !s.dropReplaced(f) {
			return err
		}
	}
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
