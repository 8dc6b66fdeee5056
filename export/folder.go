package export

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"coldtap/internal/atomicfile"
	"coldtap/internal/filelock"
)

const (
	lockName = "manifest.lock"
	partial  = ".partial" // what is not whole yet
)

// folder is the export's folder, held against other exports. Names are taken below it whatever they are.
type folder struct {
	root *os.Root
	lock *os.File
}

func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	lock, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		root.Close()
		return nil, err
	}
	f := &folder{root, lock}
	if err := filelock.TryLock(lock); err != nil {
		f.close()
		if errors.Is(err, filelock.ErrLocked) {
			err = fmt.Errorf("another export is writing to %s", dir)
		}
		return nil, err
	}
	return f, nil
}

func (f *folder) close() error {
	return errors.Join(f.lock.Close(), f.root.Close())
}

// empty refuses a folder that holds anything but what an export leaves behind that was ended before its first manifest.
func (f *folder) empty(dir string) error {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name != lockName && name != manifestName+partial {
			return badOption("%s is not empty and holds no %s; give a new folder", dir, manifestName)
		}
	}
	return nil
}

// replace writes a file in one step: after a crash it is the old one or the new one.
func (f *folder) replace(name string, content []byte) error {
	file, err := atomicfile.Create(f.root, name+partial, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.Commit(name)
}

// reopen opens a file for appending behind its first size bytes and drops what follows them; size 0 creates it.
func (f *folder) reopen(name string, size int64) (*os.File, error) {
	flags := os.O_WRONLY
	if size == 0 {
		flags |= os.O_CREATE
	}
	file, err := f.root.OpenFile(name, flags, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.Size() < size:
		err = changed(name, info.Size(), size)
	default:
		if err = file.Truncate(size); err == nil {
			_, err = file.Seek(size, 0)
		}
	}
	if err == nil && size == 0 {
		err = atomicfile.SyncFolder(f.root, ".")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// verify says whether the files are as long as the manifest says; one that is appended to may be longer.
func (f *folder) verify(m *Manifest, exactly bool) error {
	for _, p := range m.Partitions {
		for _, file := range p.Files {
			info, err := f.root.Stat(file.Name)
			if err != nil {
				return fmt.Errorf("%s names a file that is not there: %w", manifestName, err)
			}
			if info.Size() < file.Bytes || exactly && info.Size() != file.Bytes {
				return changed(file.Name, info.Size(), file.Bytes)
			}
		}
	}
	return nil
}

// sweepParts removes the parts that a run finished just before it was killed, and began: the manifest does not name
// them. They are written again, but perhaps cut at other offsets, and then under other names.
func (f *folder) sweepParts(m *Manifest) error {
	named, begins := map[string]bool{}, map[string]bool{}
	for _, p := range m.Partitions {
		begins[fileName(m.Topic, p.Partition)] = true
		for _, file := range p.Files {
			named[file.Name] = true
		}
	}
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		base, unfinished := strings.CutSuffix(name, partial)
		if !unfinished {
			base = partOf(name)
		}
		if begins[base] && !named[name] {
			if err := f.root.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func changed(name string, is, was int64) error {
	return fmt.Errorf("%s has %d bytes and %s says %d: it was changed; start again in a new folder", name, is, manifestName, was)
}
