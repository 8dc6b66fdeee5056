package readlimit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAll(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int64
		ok    bool
	}{{"", 0, true}, {"abc", 3, true}, {"abc", 4, true}, {"abcd", 3, false}} {
		got, err := All(strings.NewReader(c.in), c.limit)
		if c.ok && (err != nil || got == nil || string(got) != c.in) || !c.ok && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%q within %d: %q, %v", c.in, c.limit, got, err)
		}
	}
	broken := errors.New("broken")
	if _, err := All(iotest.ErrReader(broken), 10); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if _, err := File(path, 3); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := File(path, 3); string(got) != "abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := File(path, 2); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}
