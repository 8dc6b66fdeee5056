package rangeio_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

func TestFileLaterAcceptance(t *testing.T) {
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend {
		b := rangeio.OpenFileLater(t.TempDir())
		t.Cleanup(func() { b.Close() })
		return b
	})
}

func TestFileLaterFindsAFolderThatAppears(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	b := rangeio.OpenFileLater(dir)
	defer b.Close()
	_, err := b.Stat(t.Context(), "a")
	if e, ok := errors.AsType[*rangeio.Error](err); !ok || e.Kind != rangeio.NoBucket {
		t.Fatalf("before: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a look made the folder: %v", err)
	}
	w, err := rangeio.OpenFile(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Put(t.Context(), "a", bytes.NewReader([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if info, err := b.Stat(t.Context(), "a"); err != nil || info.Size != 1 {
		t.Errorf("after: %+v, %v", info, err)
	}
}
