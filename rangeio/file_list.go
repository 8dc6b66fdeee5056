package rangeio

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// List walks the folders in the byte order of the keys, one folder in memory at a time per level.
func (s *fileStore) List(ctx context.Context, prefix string, fn func(Object) error) error {
	dir, _ := path.Split(prefix)
	start := "."
	if dir != "" {
		start = strings.TrimSuffix(dir, "/")
		if _, err := fileName(start); err != nil {
			return nil // nothing can have been stored there
		}
	}
	err := s.walk(ctx, start, prefix, fn)
	if stop, ok := errors.AsType[listError](err); ok {
		return stop.err
	}
	switch {
	case err == nil && s.rootRemoved():
		return &Error{Kind: NoBucket, Op: opList, Key: prefix, Err: fs.ErrNotExist}
	case err != nil:
		return &Error{Kind: s.kindOfRead(err), Op: opList, Key: prefix, Err: err}
	}
	return nil
}

// walk gives the objects below dir whose key begins with prefix. Errors of fn come back as listError.
func (s *fileStore) walk(ctx context.Context, dir, prefix string, fn func(Object) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := s.root.Open(dir)
	if err != nil {
		return s.allowMissing(dir, err)
	}
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return s.allowMissing(dir, err)
	}
	// All keys below a folder go on with a slash, which sorts after "-" and "." but before letters; so folders sort by
	// their name with the slash.
	sortName := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortName(a), sortName(b)) })
	for _, e := range entries {
		key := path.Join(dir, e.Name())
		if _, err := fileName(key); err != nil {
			continue // temporary files, and names that no key can have
		}
		if e.IsDir() {
			if below := key + "/"; strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below) {
				if err := s.walk(ctx, key, prefix, fn); err != nil {
					return err
				}
			}
			continue
		}
		if !e.Type().IsRegular() || !strings.HasPrefix(key, prefix) {
			continue
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		if err := fn(Object{Key: key, Size: fi.Size(), ModTime: fi.ModTime()}); err != nil {
			return listError{err}
		}
	}
	return nil
}

// allowMissing drops the error of a folder that is not there: below the root it only means that there are no objects.
func (s *fileStore) allowMissing(dir string, err error) error {
	if dir != "." && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		return nil
	}
	return err
}
