package local

import (
	"context"

	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"
)

// store is what a Layout needs of a *rangeio.Client.
type store interface {
	ReadRange(ctx context.Context, key string, dst []byte, off int64, etag string, size int64) (rangeio.Info, readcost.Cost, error)
	ReadObject(ctx context.Context, key string, limit int64) ([]byte, rangeio.Info, readcost.Cost, error)
}

// Layout implements layout.Reader. All methods may be called concurrently.
type Layout struct {
	store    store
	prefix   string
	versions *layout.Versions
}

// New makes a layout over a store. prefix is put in front of every key, byte for byte: "" when the store is rooted at
// the plugin's kafka-tiered-storage folder, "kafka-tiered-storage/" when it is rooted at the plugin's dir.
func New(client *rangeio.Client, prefix string) *Layout {
	return &Layout{store: client, prefix: prefix, versions: layout.NewVersions()}
}

// ChunkSize is the largest power-of-two multiple of 4 KiB that is at most max, or max itself below 4 KiB: any range of
// a .log can be read, so only the caller's memory decides.
func (l *Layout) ChunkSize(_ *tier.Segment, max int64) int64 {
	return layout.PlainChunk(max)
}

// ReadLog fills dst with log bytes [off, off+len(dst)), all from the version of the object that was read first, though
// the plugin never writes over an object (a second copy has a new id). Another version is *rangeio.Error with Kind
// Changed, and the next read begins with the version it finds. An object of another length than the segment's is an
// error.
func (l *Layout) ReadLog(ctx context.Context, seg *tier.Segment, dst []byte, off int64) (readcost.Cost, error) {
	stem, err := l.stem(seg)
	if err != nil {
		return readcost.Cost{}, err
	}
	return l.versions.ReadPlain(ctx, l.store, stem+suffixLog, seg, dst, off)
}

// Expect counts a GET for each piece of the log and for each of the small files.
func (l *Layout) Expect(seg *tier.Segment, d layout.Demand) readcost.Cost {
	c := layout.ExpectPlain(seg, &d)
	if d.Files {
		c.Requests += 4
		if !seg.TxnIndexEmpty {
			c.Requests++
		}
		c.Bytes += layout.SmallFiles(seg)
	}
	return c
}
