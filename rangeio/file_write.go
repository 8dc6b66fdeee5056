package rangeio

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"coldtap/internal/atomicfile"
	"coldtap/internal/filelock"
)

// copyBuffer is the piece in which a file is written, and after which a cancelled Put ends.
const copyBuffer = 1 << 20

// Put writes a temporary file beside the object, syncs it, renames it over the object and syncs the folder.
func (s *fileStore) Put(ctx context.Context, key string, c Content) (Info, error) {
	info, err := s.put(ctx, key, c)
	if err != nil {
		kind := fileKind(err)
		if kind == NotFound {
			kind = Unavailable
			if s.rootRemoved() {
				kind = NoBucket
			}
		}
		return Info{}, &Error{Kind: kind, Op: opPut, Key: key, Err: err}
	}
	return info, nil
}

func (s *fileStore) put(ctx context.Context, key string, c Content) (info Info, err error) {
	name, err := fileName(key)
	if err != nil {
		return Info{}, keyError{err}
	}
	// A delete that empties a folder removes it, maybe between prepare and replace; then the folder is made again.
	for range 8 {
		if err := s.prepare(path.Dir(name)); err != nil {
			if errors.Is(err, fs.ErrNotExist) && !s.rootRemoved() {
				continue
			}
			return Info{}, err
		}
		info, err = s.replace(ctx, name, c)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || fileKind(err) == BadContent {
			return info, err
		}
		s.forget(path.Dir(name))
	}
	return Info{}, err
}

// replace writes c beside name and renames it over name.
func (s *fileStore) replace(ctx context.Context, name string, c Content) (Info, error) {
	temp := path.Join(path.Dir(name), tempPrefix+rand.Text())
	f, err := atomicfile.Create(s.root, temp, 0o640)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	// The lock says that the writer lives. removeLeftovers, maybe in another process, removes files that are not locked,
	// and this one too if it ran before the lock.
	if err := filelock.Lock(f.File); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return Info{}, err
	}
	if _, err := s.root.Lstat(temp); err != nil {
		return Info{}, err
	}
	if err := copyContent(ctx, f, c); err != nil {
		return Info{}, err
	}
	if err := f.Commit(name); err != nil {
		return Info{}, err
	}
	fi, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	return Info{Size: fi.Size(), ETag: version(fi)}, nil
}

// copyContent writes exactly c.Size() bytes or fails.
func copyContent(ctx context.Context, w io.Writer, c Content) error {
	size := c.Size()
	buf := make([]byte, min(copyBuffer, max(size, 1)))
	r := newContentReader(c)
	for done := int64(0); done < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(r, buf[:min(int64(len(buf)), size-done)])
		if err != nil {
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		done += int64(n)
	}
	return nil
}

// Delete removes the object's file and the folders that it leaves empty.
func (s *fileStore) Delete(ctx context.Context, key string) error {
	fail := func(kind Kind, err error) error { return &Error{Kind: kind, Op: opDelete, Key: key, Err: err} }
	name, err := fileName(key)
	if err != nil {
		return fail(BadKey, err)
	}
	if err := ctx.Err(); err != nil {
		return fail(Canceled, err)
	}
	fi, err := s.root.Lstat(name)
	if err == nil && fi.IsDir() {
		return nil // no object has a folder's name
	}
	if err == nil {
		err = s.root.Remove(name)
	}
	if err != nil {
		if kind := s.kindOfRead(err); kind != NotFound {
			return fail(kind, err)
		}
		return nil
	}
	// Without this sync a crash could undo the removal after the metadata has dropped the segment.
	dir := path.Dir(name)
	if err := atomicfile.SyncFolder(s.root, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(fileKind(err), err)
	}
	for ; dir != "."; dir = path.Dir(dir) {
		s.forget(dir)
		if s.root.Remove(dir) != nil {
			break // not empty
		}
	}
	return nil
}

// prepare makes a folder and everything above it, durably, and once per folder and process removes temporary files of
// writers that died.
func (s *fileStore) prepare(dir string) error {
	if s.isPrepared(dir) {
		return nil
	}
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.isPrepared(dir) {
		return nil
	}
	if err := s.root.MkdirAll(dir, 0o750); err != nil {
		// A part that is a file comes back as EEXIST or ENOTDIR: the key lies below another object's.
		return err
	}
	for d := dir; d != "."; d = path.Dir(d) {
		if err := atomicfile.SyncFolder(s.root, path.Dir(d)); err != nil {
			return err
		}
	}
	s.removeLeftovers(dir)
	s.mu.Lock()
	s.mu.prepared[dir] = true
	s.mu.Unlock()
	return nil
}

func (s *fileStore) isPrepared(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.prepared[dir]
}

func (s *fileStore) forget(dir string) {
	s.mu.Lock()
	delete(s.mu.prepared, dir)
	s.mu.Unlock()
}

// removeLeftovers removes temporary files in dir that no living writer holds locked. What it cannot remove only takes
// room.
func (s *fileStore) removeLeftovers(dir string) {
	d, err := s.root.Open(dir)
	if err != nil {
		return
	}
	names, _ := d.Readdirnames(-1)
	d.Close()
	for _, base := range names {
		if !strings.HasPrefix(base, tempPrefix) {
			continue
		}
		temp := path.Join(dir, base)
		f, err := s.root.OpenFile(temp, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if filelock.TryLock(f) == nil {
			s.root.Remove(temp)
		}
		f.Close()
	}
}
