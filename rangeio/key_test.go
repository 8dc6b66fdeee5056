package rangeio

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// FuzzFileName: whatever the key, its file lies below the root, under exactly the key's name, and is no temporary file.
func FuzzFileName(f *testing.F) {
	for _, s := range []string{"a/b", "..", "a/../b", "/etc/passwd", "a//b", "a/", ".coldtap-tmp-x", "x\x00y", strings.Repeat("a", 300), "...", "a/.b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		name, err := fileName(key)
		if err != nil {
			return
		}
		if name != key || !filepath.IsLocal(name) || path.Clean(name) != name || strings.HasPrefix(path.Base(name), tempPrefix) {
			t.Fatalf("key %q became %q", key, name)
		}
	})
}

// TestFileKinds: what the operating system says, in the room's words. A full disk must be told from one that may work
// the next time.
func TestFileKinds(t *testing.T) {
	for err, want := range map[error]Kind{
		syscall.ENOSPC: Full, syscall.EDQUOT: Full, syscall.EACCES: Forbidden, syscall.EROFS: Forbidden, syscall.EIO: Unavailable, syscall.EMFILE: Unavailable,
		syscall.ESTALE: Unavailable, syscall.ENOENT: NotFound, syscall.ENAMETOOLONG: BadKey, syscall.EISDIR: BadKey, fs.ErrClosed: Unavailable,
		contentError{syscall.EIO}: BadContent, contentError{fs.ErrNotExist}: BadContent,
	} {
		if got := fileKind(fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "x", Err: err})); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}
