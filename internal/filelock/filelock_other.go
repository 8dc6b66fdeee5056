//go:build !unix

package filelock

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

var errNone = fmt.Errorf("there is no flock on %s: %w", runtime.GOOS, errors.ErrUnsupported)

// Lock gives errors.ErrUnsupported.
func Lock(*os.File) error { return errNone }

// TryLock gives errors.ErrUnsupported.
func TryLock(*os.File) error { return errNone }
