package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	if err := Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := TryLock(second); !errors.Is(err, ErrLocked) {
		t.Errorf("a second holder: %v", err)
	}
	if _, err := second.WriteString("the content is not locked"); err != nil {
		t.Error(err)
	}
	first.Close()
	if err := TryLock(second); err != nil {
		t.Errorf("after the first holder closed its file: %v", err)
	}
}
