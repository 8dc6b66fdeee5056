//go:build unix

package rangeio

import (
	"io/fs"
	"syscall"
)

// inode gives a file's number within its file system and how many names it has; false where that is not known.
func inode(fi fs.FileInfo) (number, links uint64, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return st.Ino, uint64(st.Nlink), true
}
