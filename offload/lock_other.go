//go:build !unix

package offload

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// brokerHolds cannot ask for Java's lock here, and without an answer nothing is copied.
func brokerHolds(*os.Root) (held bool, owner string, err error) {
	return false, "", fmt.Errorf("there is no fcntl on %s, so that a running broker could not be noticed: %w", runtime.GOOS, errors.ErrUnsupported)
}
