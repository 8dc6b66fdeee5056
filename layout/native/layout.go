package native

import (
	"context"

	"coldtap/internal/budget"
	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// store is what a Layout needs of a *rangeio.Client.
type store interface {
	ReadRange(ctx context.Context, key string, dst []byte, off int64, etag string, size int64) (rangeio.Info, readcost.Cost, error)
	ReadObject(ctx context.Context, key string, limit int64) ([]byte, rangeio.Info, readcost.Cost, error)
	Stat(ctx context.Context, key string) (rangeio.Info, error)
	Put(ctx context.Context, key string, content rangeio.Content) (rangeio.Info, error)
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string, fn func(rangeio.Object) error) error
}

// Layout implements layout.Reader, layout.Manifests and layout.Names, and writes segments. All methods may be called
// concurrently, but one segment must not be written and deleted, or written twice, at the same time.
type Layout struct {
	store    store
	prefix   string
	versions *layout.Versions
	memory   *budget.Budget // of manifests that are read without metadata
}

var (
	_ layout.Manifests = (*Layout)(nil)
	_ layout.Names     = (*Layout)(nil)
)

// New makes a layout over a store. prefix is put in front of every key, byte for byte (an S3 backend has its own prefix
// besides; usually "").
func New(client *rangeio.Client, prefix string) *Layout { return newLayout(client, prefix) }

func newLayout(s store, prefix string) *Layout {
	return &Layout{store: s, prefix: prefix, versions: layout.NewVersions(), memory: budget.New(scanMemory)}
}

// ChunkSize is the largest power-of-two multiple of 4 KiB that is at most max, or max itself below 4 KiB: any range of
// a .log can be read, so only the caller's memory decides.
func (l *Layout) ChunkSize(_ *tier.Segment, max int64) int64 {
	return layout.PlainChunk(max)
}

// ReadLog fills dst with log bytes [off, off+len(dst)), all from the version of the object that was read first. Another
// version is *rangeio.Error with Kind Changed: bytes that the caller keeps of this segment are then worthless, and the
// next read begins with the version it finds.
func (l *Layout) ReadLog(ctx context.Context, seg *tier.Segment, dst []byte, off int64) (readcost.Cost, error) {
	if err := checkSegment(seg); err != nil {
		return readcost.Cost{}, err
	}
	return l.versions.ReadPlain(ctx, l.store, l.LogKey(seg), seg, dst, off)
}

// ReadFiles reads the segment's small files with one request, and checks that they are this segment's.
func (l *Layout) ReadFiles(ctx context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
	if err := checkSegment(seg); err != nil {
		return nil, readcost.Cost{}, err
	}
	key := l.MetaKey(seg)
	raw, _, cost, err := l.store.ReadObject(ctx, key, MaxMeta)
	if err != nil {
		return nil, cost, err
	}
	m, files, err := DecodeMeta(raw)
	if err == nil {
		err = m.Describes(seg)
	}
	if err != nil {
		return nil, cost, &layout.Error{Object: key, Err: err}
	}
	return files, cost, nil
}

// Expect counts a GET for each piece of the log and one for the small files.
func (l *Layout) Expect(seg *tier.Segment, d layout.Demand) readcost.Cost {
	c := layout.ExpectPlain(seg, &d)
	if d.Files {
		c.Requests++
		c.Bytes += layout.SmallFiles(seg)
	}
	return c
}
