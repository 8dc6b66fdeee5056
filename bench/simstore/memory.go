package simstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"coldtap/rangeio"
)

// Memory is a rangeio.Backend in memory that passes the acceptance test. Use NewMemory.
type Memory struct {
	mu struct {
		sync.Mutex
		objects map[string]stored
		version uint64
	}
}

// stored is one version of an object; its bytes never change.
type stored struct {
	content []byte
	etag    string
	at      time.Time
}

// NewMemory gives an empty store.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.objects = map[string]stored{}
	return m
}

func (m *Memory) String() string { return "memory://" }

// Close does nothing; the objects stay.
func (m *Memory) Close() error { return nil }

// Keys lists all objects, sorted.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.mu.objects))
}

// Bytes gives a copy of an object's content, nil when there is none.
func (m *Memory) Bytes(key string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.mu.objects[key].content)
}

// Set puts an object without a Backend's checks: damaged or foreign content, for instance.
func (m *Memory) Set(key string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setLocked(key, bytes.Clone(content))
}

func (m *Memory) setLocked(key string, content []byte) rangeio.Info {
	m.mu.version++
	o := stored{content: content, etag: fmt.Sprintf(`"v%d"`, m.mu.version), at: time.Now()}
	m.mu.objects[key] = o
	return rangeio.Info{Size: int64(len(content)), ETag: o.etag}
}

// find checks context and key, and gives the object.
func (m *Memory) find(ctx context.Context, op, key string) (stored, error) {
	if err := usable(ctx, op, key); err != nil {
		return stored{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.mu.objects[key]
	if !ok {
		return stored{}, &rangeio.Error{Kind: rangeio.NotFound, Op: op, Key: key}
	}
	return o, nil
}

func usable(ctx context.Context, op, key string) error {
	if err := ctx.Err(); err != nil {
		return &rangeio.Error{Kind: rangeio.Canceled, Op: op, Key: key, Err: err}
	}
	bad := key == "" || len(key) > 1024 || strings.ToValidUTF8(key, "") != key || strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f })
	for part := range strings.SplitSeq(key, "/") {
		bad = bad || part == "." || part == ".."
	}
	if bad {
		return &rangeio.Error{Kind: rangeio.BadKey, Op: op, Key: key}
	}
	return nil
}

func (m *Memory) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
	o, err := m.find(ctx, "get", key)
	if err != nil {
		return nil, rangeio.Info{}, err
	}
	size := int64(len(o.content))
	kind := rangeio.Kind(0)
	switch {
	case etag != "" && etag != o.etag:
		kind = rangeio.Changed
	case n < 0:
		off, n = 0, size
	case off < 0 || n == 0 || off >= size:
		kind = rangeio.BadRange
	}
	if kind != 0 {
		return nil, rangeio.Info{}, &rangeio.Error{Kind: kind, Op: "get", Key: key}
	}
	body := bytes.NewReader(o.content[off : off+min(n, size-off)])
	return io.NopCloser(body), rangeio.Info{Size: size, ETag: o.etag}, nil
}

func (m *Memory) Stat(ctx context.Context, key string) (rangeio.Info, error) {
	o, err := m.find(ctx, "stat", key)
	return rangeio.Info{Size: int64(len(o.content)), ETag: o.etag}, err
}

func (m *Memory) Put(ctx context.Context, key string, c rangeio.Content) (rangeio.Info, error) {
	if err := usable(ctx, "put", key); err != nil {
		return rangeio.Info{}, err
	}
	content := make([]byte, c.Size())
	if n, err := c.ReadAt(content, 0); n < len(content) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return rangeio.Info{}, &rangeio.Error{Kind: rangeio.BadContent, Op: "put", Key: key, Err: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.setLocked(key, content), nil
}

func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := usable(ctx, "delete", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.objects, key)
	return nil
}

func (m *Memory) List(ctx context.Context, prefix string, fn func(rangeio.Object) error) error {
	for _, key := range m.Keys() {
		if err := ctx.Err(); err != nil {
			return &rangeio.Error{Kind: rangeio.Canceled, Op: "list", Key: prefix, Err: err}
		}
		m.mu.Lock()
		o, ok := m.mu.objects[key]
		m.mu.Unlock()
		if !ok || !strings.HasPrefix(key, prefix) {
			continue
		}
		if err := fn(rangeio.Object{Key: key, Size: int64(len(o.content)), ModTime: o.at}); err != nil {
			return err
		}
	}
	return nil
}
