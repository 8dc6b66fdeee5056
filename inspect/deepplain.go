package inspect

import (
	"context"
	"errors"
	"io"

	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// runPlain reads a segment of a layout that keeps no checksum of the whole log: what the layout itself verifies, each
// small file's content, and every batch.
func (c *contentCheck) runPlain(ctx context.Context) error {
	objects := c.v.layout.Objects(c.seg)
	key := objects[0].Key
	for i := range objects {
		if objects[i].Part != layout.LogPart {
			key = objects[i].Key
			break
		}
	}
	files, _, err := c.v.layout.ReadFiles(ctx, c.seg)
	switch {
	case err == nil:
		c.files(key, files)
	default:
		problem, fatal := judge(err)
		if fatal != nil {
			return fatal
		}
		c.find(problem, key, "%s", explain(err))
	}
	key = objects[0].Key
	log := &logOfLayout{ctx: ctx, layout: c.v.layout, seg: c.seg}
	err = c.batches(ctx, segment.NewLogReader(log, c.seg.Size, 0), key)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*layout.Error](err); ok {
		c.find(UnreadableData, key, "%v", err)
		return nil
	}
	problem, fatal := judge(err)
	if fatal == nil {
		c.find(problem, key, "%s", explain(err))
	}
	return fatal
}

// logOfLayout is a segment's log as an io.Reader, front to back, as its layout gives it: opened and authenticated where
// it is stored compressed or sealed.
type logOfLayout struct {
	ctx    context.Context
	layout layout.Reader
	seg    *tier.Segment
	off    int64 // of the next piece
	piece  []byte
	unread []byte
}

func (l *logOfLayout) Read(p []byte) (int, error) {
	if len(l.unread) == 0 {
		if l.off >= l.seg.Size {
			return 0, io.EOF
		}
		n := min(l.layout.ChunkSize(l.seg, pieceSize), l.seg.Size-l.off)
		if int64(cap(l.piece)) < n {
			l.piece = make([]byte, n)
		}
		l.piece = l.piece[:n]
		if _, err := l.layout.ReadLog(l.ctx, l.seg, l.piece, l.off); err != nil {
			return 0, err
		}
		l.off += n
		l.unread = l.piece
	}
	n := copy(p, l.unread)
	l.unread = l.unread[n:]
	return n, nil
}
