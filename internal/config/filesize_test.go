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
		_, err := Loader{File: path}.Load()
		if got := err != nil && strings.Contains(err.Error(), "more than 1MiB"); got != refused {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestAFileThatCannotBeReadIsTheOnlyProblem: what required keys lack is not said of a file that nobody could read.
func TestAFileThatCannotBeReadIsTheOnlyProblem(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "coldtap.yaml")
	if err := os.WriteFile(broken, []byte("store:\n\tkind: s3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{broken, broken + ".missing"} {
		_, err := Loader{File: path}.Load()
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
