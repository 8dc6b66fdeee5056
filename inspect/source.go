package inspect

import (
	"context"
	"io"

	"coldtap/rangeio"
)

// pieceSize is how much of an object one request brings.
const pieceSize = 4 << 20

// Object is an object of a store as an io.Reader, front to back, all of one version. Not for concurrent use.
type Object struct {
	ctx    context.Context
	store  *rangeio.Client
	key    string
	etag   string
	size   int64
	off    int64 // of the next piece
	piece  []byte
	unread []byte
}

// OpenObject asks for size and version; nothing else is read yet.
func OpenObject(ctx context.Context, store *rangeio.Client, key string) (*Object, error) {
	info, err := store.Stat(ctx, key)
	if rangeio.IsKind(err, rangeio.NotFound, rangeio.BadKey) {
		return nil, &Error{Kind: Unknown, Op: "open", Err: err}
	}
	if err != nil {
		return nil, err
	}
	return &Object{ctx: ctx, store: store, key: key, etag: info.ETag, size: info.Size}, nil
}

// Size is the object's, in bytes.
func (o *Object) Size() int64 { return o.size }

func (o *Object) Read(p []byte) (int, error) {
	if len(o.unread) == 0 {
		if o.off >= o.size {
			return 0, io.EOF
		}
		n := min(pieceSize, o.size-o.off)
		if int64(cap(o.piece)) < n {
			o.piece = make([]byte, n)
		}
		o.piece = o.piece[:n]
		info, _, err := o.store.ReadRange(o.ctx, o.key, o.piece, o.off, o.etag, o.size)
		if err != nil {
			return 0, err
		}
		o.etag = info.ETag
		o.off += n
		o.unread = o.piece
	}
	n := copy(p, o.unread)
	o.unread = o.unread[n:]
	return n, nil
}
