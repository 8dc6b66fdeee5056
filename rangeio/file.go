package rangeio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// tempPrefix marks files being written. Keys with a part of that form are refused, so that a leftover never looks like
// an object.
const tempPrefix = ".coldtap-tmp-"

// maxPart is what ext4, xfs and apfs allow for one name, in bytes.
const maxPart = 255

// fileStore keeps each object in a file of its own under one folder. The folder is held open (os.Root): no key, .. or
// symbolic link leads out of it, and it stays the same folder when it is renamed.
type fileStore struct {
	root *os.Root
	dir  string // absolute, for messages

	preparing sync.Mutex // one folder at a time is made and cleaned
	mu        struct {
		sync.Mutex
		prepared map[string]bool // folders whose entries are durable and whose leftovers were cleaned, see prepare
	}
}

// OpenFile is the file store rooted at dir (created if missing when create is true). Writes go to a temporary file in
// the same folder, which is synced, renamed over the object, and the folder synced. Readers of the version before keep
// it. Keys are confined to dir; parts of a key are limited to 255 bytes and must not be empty.
func OpenFile(dir string, create bool) (Backend, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if create {
		if err := os.MkdirAll(abs, 0o750); err != nil {
			return nil, err
		}
	}
	s, err := openFolder(abs)
	if err != nil {
		return nil, err // not s: a nil *fileStore in a Backend is no nil Backend
	}
	return s, nil
}

// openFolder opens a folder that is there. Its errors are *Error.
func openFolder(dir string) (*fileStore, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, &Error{Kind: NoBucket, Op: "open", Key: dir, Err: err}
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		kind := fileKind(err)
		if fi, serr := os.Stat(abs); kind == NotFound || (serr == nil && !fi.IsDir()) {
			kind = NoBucket
		}
		return nil, &Error{Kind: kind, Op: "open", Key: abs, Err: err}
	}
	s := &fileStore{root: root, dir: abs}
	s.mu.prepared = map[string]bool{}
	return s, nil
}

func (s *fileStore) String() string { return "file://" + filepath.ToSlash(s.dir) }

func (s *fileStore) Close() error { return s.root.Close() }

// fileName gives the path of a key below the root, or why there can be none.
func fileName(key string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	for part := range strings.SplitSeq(key, "/") {
		switch {
		case part == "":
			return "", errors.New("key has an empty part")
		case len(part) > maxPart:
			return "", fmt.Errorf("key has a part of %d bytes, %d allowed", len(part), maxPart)
		case strings.HasPrefix(part, tempPrefix):
			return "", fmt.Errorf("key has a part that begins with %q", tempPrefix)
		}
	}
	return key, nil
}

// version makes the ETag: a rename changes the inode, a rewrite in place the modification time.
func version(fi fs.FileInfo) string {
	number, _, _ := inode(fi)
	return fmt.Sprintf(`"%x-%x-%x"`, fi.Size(), fi.ModTime().UnixNano(), number)
}

// Open keeps one open file for the whole body: an object replaced meanwhile does not change under the reader.
func (s *fileStore) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	fail := func(kind Kind, err error) (io.ReadCloser, Info, error) {
		return nil, Info{}, &Error{Kind: kind, Op: opGet, Key: key, Err: err}
	}
	f, fi, err := s.open(ctx, key)
	if err != nil {
		return fail(s.kindOfRead(err), err)
	}
	info := Info{Size: fi.Size(), ETag: version(fi)}
	switch {
	case etag != "" && etag != info.ETag:
		f.Close()
		return fail(Changed, fmt.Errorf("version %s instead of %s", info.ETag, etag))
	case n < 0:
		off, n = 0, info.Size
	case off < 0 || n == 0 || off >= info.Size:
		f.Close()
		return fail(BadRange, fmt.Errorf("%d bytes at %d of %d", n, off, info.Size))
	}
	return &fileBody{SectionReader: io.NewSectionReader(f, off, min(n, info.Size-off)), f: f, ctx: ctx}, info, nil
}

// open opens the file of an object. Without O_NONBLOCK, opening a named pipe in its place would block for ever.
func (s *fileStore) open(ctx context.Context, key string) (*os.File, fs.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	name, err := fileName(key)
	if err != nil {
		return nil, nil, keyError{err}
	}
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", fi.Mode().Type(), fs.ErrNotExist)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

func (s *fileStore) Stat(ctx context.Context, key string) (Info, error) {
	f, fi, err := s.open(ctx, key)
	if err != nil {
		return Info{}, &Error{Kind: s.kindOfRead(err), Op: opStat, Key: key, Err: err}
	}
	f.Close()
	return Info{Size: fi.Size(), ETag: version(fi)}, nil
}

// fileBody is a range of one open file.
type fileBody struct {
	*io.SectionReader
	f   *os.File
	ctx context.Context
}

func (b *fileBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.SectionReader.Read(p)
}

func (b *fileBody) Close() error { return b.f.Close() }

// keyError marks a key that cannot be a file's name.
type keyError struct{ error }

// fileKind classifies an error of the file system.
func fileKind(err error) Kind {
	if _, ok := errors.AsType[keyError](err); ok {
		return BadKey
	}
	if _, ok := errors.AsType[contentError](err); ok {
		return BadContent
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	switch errno {
	case syscall.ENOENT, syscall.ENXIO:
		return NotFound
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return Full
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return Forbidden
	case syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EILSEQ, syscall.EINVAL, syscall.ENOTDIR, syscall.EISDIR, syscall.ENOTEMPTY, syscall.EEXIST:
		return BadKey
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Canceled
	case errors.Is(err, fs.ErrClosed):
		return Unavailable
	}
	// os.Root's error for a link that leads out has no number and no name.
	if pe, ok := errors.AsType[*fs.PathError](err); ok && errno == 0 && strings.Contains(pe.Err.Error(), "escapes") {
		return BadKey
	}
	return Unavailable
}

// kindOfRead is fileKind for operations on an object that should exist: a key below another object's name, or a
// folder's name, is a missing object.
func (s *fileStore) kindOfRead(err error) Kind {
	kind := fileKind(err)
	if kind == BadKey && (errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)) {
		kind = NotFound
	}
	if kind == NotFound && s.rootRemoved() {
		kind = NoBucket
	}
	return kind
}

// rootRemoved distinguishes a missing object from a missing store: the open folder of a removed root has no links left.
func (s *fileStore) rootRemoved() bool {
	fi, err := s.root.Stat(".")
	if err != nil {
		return true
	}
	_, links, ok := inode(fi)
	return ok && links == 0
}
