package layout

import (
	"context"
	"errors"
	"fmt"

	"coldtap/internal/readcost"
	"coldtap/rangeio"
	"coldtap/tier"
)

// Ranges is what reading a plain log needs of a *rangeio.Client.
type Ranges interface {
	ReadRange(ctx context.Context, key string, dst []byte, off int64, etag string, size int64) (
		rangeio.Info, readcost.Cost, error)
}

// ReadPlain is Reader.ReadLog for a log that is stored byte for byte under key: it fills dst with [off, off+len(dst)),
// all from the version of the object that was read first. Another version is *rangeio.Error with Kind Changed, and the
// next read begins with the version it finds. An object of another length than the segment's is an error.
func (v *Versions) ReadPlain(
	ctx context.Context, store Ranges, key string, seg *tier.Segment, dst []byte, off int64) (readcost.Cost, error) {
	if off < 0 || off > seg.Size || int64(len(dst)) > seg.Size-off {
		return readcost.Cost{}, &Error{Object: key,
			Err: fmt.Errorf("%d bytes at %d are not in a log of %d", len(dst), off, seg.Size)}
	}
	if len(dst) == 0 {
		return readcost.Cost{}, nil
	}
	info, cost, err := store.ReadRange(ctx, key, dst, off, v.Get(key), seg.Size)
	if err == nil && !v.Learn(key, info.ETag) {
		// Two first reads ran side by side and an overwrite came between them.
		err = &rangeio.Error{Kind: rangeio.Changed, Op: "get", Key: key, Err: errors.New("object was overwritten meanwhile")}
	}
	if rangeio.IsKind(err, rangeio.Changed, rangeio.NotFound) {
		v.Forget(key)
	}
	return cost, err
}

// ExpectPlain is Reader.Expect for a log that is stored byte for byte.
func ExpectPlain(seg *tier.Segment, d *Demand) (c readcost.Cost) {
	for _, n := range d.Pieces {
		from, to := d.Piece(seg, n)
		c.Requests++
		c.Bytes += to - from
	}
	return c
}

// SmallFiles estimates the bytes of a segment's small files, which its metadata does not tell: brokers write an entry
// of the offset index and one of the time index for every 4 KiB of log (index.interval.bytes).
func SmallFiles(seg *tier.Segment) int64 {
	const interval, entries, rest = 4 << 10, 8 + 12, 1 << 10
	return seg.Size/interval*entries + rest
}

// PlainChunk is the largest power-of-two multiple of 4 KiB that is at most max, or max itself below 4 KiB: the piece in
// which a log is read of which any range can be had, so that only the caller's memory decides.
func PlainChunk(max int64) int64 {
	const page = 4 << 10
	if max < page {
		return max
	}
	size := int64(page)
	for size <= max/2 {
		size *= 2
	}
	return size
}
