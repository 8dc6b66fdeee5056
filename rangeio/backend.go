package rangeio

import (
	"context"
	"io"
	"time"
)

// Info is what a store's answer said about an object.
type Info struct {
	Size int64  // bytes of the whole object, whatever range was asked for
	ETag string // opaque version, quoted as the store gave it; the file store makes it of size, modification time and inode
}

// Object is one entry of a listing.
type Object struct {
	Key     string
	Size    int64 // bytes
	ModTime time.Time
}

// Content is what Put sends. It is read from the start again when an attempt failed, so ReadAt must give the same bytes
// each time. *bytes.Reader and *io.SectionReader are Contents.
type Content interface {
	io.ReaderAt
	Size() int64 // bytes; an end before it makes Put fail with BadContent and leaves no object
}

// Backend is one attempt at one operation against one kind of store. Errors are *Error, classified. It does not retry
// beyond what a write of many parts needs. All methods may be called concurrently. The acceptance test in rangeiotest
// is its contract.
//
// Keys are byte strings: UTF-8 without control characters, at most 1,024 bytes, slashes between parts, no part "." or
// "..". Others are BadKey.
type Backend interface {
	// Open starts reading [off, off+n) of key, n ≥ 1; n = -1 reads the whole object from off 0. With etag not "", another
	// version is Changed. The body gives at most the bytes asked for, fewer when the object ends earlier; an off at or
	// past the end is BadRange. The caller closes the body. ctx governs the body too: ending it ends a blocked Read.
	Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error)
	// Stat gives size and version without the bytes.
	Stat(ctx context.Context, key string) (Info, error)
	// Put writes the whole object, atomically: no reader sees a part of it, and readers of the version before keep it.
	// An existing object is replaced. It is durable when Put returns.
	Put(ctx context.Context, key string, c Content) (Info, error)
	// Delete removes the object; a missing one is no error.
	Delete(ctx context.Context, key string) error
	// List calls fn for each object whose key begins with prefix, in byte order of the keys. An error of fn ends the
	// listing and comes back as it is.
	List(ctx context.Context, prefix string, fn func(Object) error) error
	// String names the store for messages: "s3://bucket/prefix", "file:///dir".
	String() string
	// Close frees connections and descriptors. Bodies still open may break.
	Close() error
}
