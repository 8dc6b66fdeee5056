//go:build unix

package offload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// brokerHolds tells which process holds the lock that a running broker keeps on its log directory
// (org.apache.kafka.server.util.FileLock). Java locks with fcntl, which flock does not see, hence F_GETLK; it asks and
// takes nothing. No lock file means no broker.
func brokerHolds(dir *os.Root) (held bool, owner string, err error) {
	f, _, err := openRegular(dir, ".lock")
	if errors.Is(err, fs.ErrNotExist) {
		return false, "", nil
	}
	if err != nil {
		return false, "", err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil {
		return false, "", err
	}
	if lock.Type == unix.F_UNLCK {
		return false, "", nil
	}
	// Across containers and network file systems the owner's number is not known here.
	if lock.Pid <= 0 {
		return true, "another process", nil
	}
	return true, fmt.Sprintf("process %d", lock.Pid), nil
}
