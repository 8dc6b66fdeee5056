// Package filelock locks whole files against other processes: exclusively, advisory, and dropped by the kernel when the
// process dies, however it dies (flock). Where there is no flock every call is errors.ErrUnsupported.
package filelock

import "errors"

// ErrLocked is TryLock's error for a file that another open file holds the lock of.
var ErrLocked = errors.New("the file is locked")
