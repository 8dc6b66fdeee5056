// Package filelock locks whole files against other processes: exclusively, and dropped by the kernel when the process
// dies, however it dies. On Unix it is flock, on Windows LockFileEx. Java's lock on a log directory is another thing:
// fcntl, which flock does not see.
package filelock

import "errors"

// ErrLocked is TryLock's error for a file that another open file holds the lock of.
var ErrLocked = errors.New("the file is locked")
