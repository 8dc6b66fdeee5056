// Package atomicfile replaces files in one step that is durable when it returns: after a crash a name stands for the
// whole file before or for the whole new one.
//
// The new file is written under a temporary name in the same folder, synced, renamed, and the folder is synced. A crash
// leaves the temporary file; its name is the caller's choice, so that the caller can tell it and remove it.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"syscall"
)

// steps are variables for tests, which let one of them fail.
var (
	syncFile = (*os.File).Sync
	rename   = (*os.Root).Rename
)

// File is a file that is being written under a temporary name.
type File struct {
	*os.File
	root      *os.Root
	temp      string
	committed bool
}

// Create opens temp, a path below root, for writing; what an earlier crash left under that name is overwritten.
func Create(root *os.Root, temp string, perm fs.FileMode) (*File, error) {
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}
	return &File{File: f, root: root, temp: temp}, nil
}

// Commit gives the file its name, in the folder of the temporary one, and makes both durable. The file stays open: a
// lock on it is held until Close.
func (f *File) Commit(name string) error {
	if err := syncFile(f.File); err != nil {
		return err
	}
	if err := rename(f.root, f.temp, name); err != nil {
		return err
	}
	f.committed = true
	return SyncFolder(f.root, path.Dir(name))
}

// Close closes the file, and removes it when it was not committed.
func (f *File) Close() error {
	err := f.File.Close()
	if !f.committed {
		err = errors.Join(err, f.root.Remove(f.temp))
	}
	return err
}

// SyncFolder makes the names in a folder below root durable. Windows has no such call. Some network file systems refuse
// it with EINVAL or ENOTSUP; they write names through.
func SyncFolder(root *os.Root, dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := syncFile(d); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return fmt.Errorf("sync of folder %s: %w", dir, err)
	}
	return nil
}

// Write replaces the file at a path with what write gives; temp is the temporary file's name in the same folder.
func Write(file, temp string, perm fs.FileMode, write func(io.Writer) error) error {
	dir, name := filepath.Split(file)
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := Create(root, temp, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 256<<10)
	if err := write(out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Commit(name)
}
