//go:build unix

package embedded

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isReadOnly says that a folder is on a read-only mount. A folder that only we may not write to is another thing: its
// owner may have the database open.
func isReadOnly(dir string) bool { return errors.Is(unix.Access(dir, unix.W_OK), unix.EROFS) }
