package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file above 1 MiB is refused by its size; one below is looked at.
func TestFileSizeIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coldtap.yaml")
	for size, refused := range map[int]bool{maxFile: false, maxFile + 1: true} {
		if err := os.WriteFile(path, []byte("#"+strings.Repeat(" ", size-1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Source{File: path}.Load()
		if got := err != nil && strings.Contains(err.Error(), "more than 1MiB"); got != refused {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
