package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock waits for the lock of an open file. Closing the file gives it back.
func Lock(f *os.File) error { return lock(f, 0) }

// TryLock is Lock without waiting: ErrLocked.
func TryLock(f *os.File) error {
	err := lock(f, windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// lock locks one byte at 1<<62, behind all content: what Windows locks, others can neither read nor write.
func lock(f *os.File, flags uint32) error {
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|flags, 0, 1, 0, &at)
}
