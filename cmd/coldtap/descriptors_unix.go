//go:build unix

package main

import "syscall"

// descriptors is how many files and connections the process may have open. The Go runtime raises the soft limit to the
// hard one at start.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	return uint64(limit.Cur)
}
