package embedded

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"coldtap/catalog"
	"coldtap/internal/filelock"
)

// lock is the one-writer lock: the kernel's, on a file beside the database. SQLite's own locks are held for a
// transaction only, and the kernel drops this one when its process dies, however it dies. The file itself stays.
type lock struct{ file *os.File }

func acquire(path string) (*lock, error) {
	const op = "lock the metadata database"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, failure(op, err)
	}
	if err := filelock.TryLock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, filelock.ErrLocked) {
			return nil, failure(op, fmt.Errorf("%s: %w", path, err))
		}
		return nil, &catalog.Error{Kind: catalog.Locked, Op: op,
			Err: fmt.Errorf("another offloader%s holds %s: one writes at a time", holder(f), path)}
	}
	// For people only: the lock is the kernel's, and it holds without the number.
	if f.Truncate(0) == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return &lock{f}, nil
}

// holder names the process that wrote its number into the lock file.
func holder(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid := strings.TrimSpace(string(b[:n]))
	if pid == "" || strings.Trim(pid, "0123456789") != "" {
		return ""
	}
	return " (process " + pid + ")"
}

func (l *lock) release() error { return l.file.Close() }
