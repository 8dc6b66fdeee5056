package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

var errFault = errors.New("fault")

// steps records the steps of a replacement and lets the n-th of them fail, n from 1; 0: none.
func steps(t *testing.T, n int, fault error) *[]string {
	t.Helper()
	oldSync, oldRename := syncFile, rename
	t.Cleanup(func() { syncFile, rename = oldSync, oldRename })
	done := new([]string)
	step := func(name string, do func() error) error {
		*done = append(*done, name)
		if len(*done) == n {
			return fault
		}
		return do()
	}
	syncFile = func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.IsDir() {
			return step("sync folder", f.Sync)
		}
		return step("sync file", f.Sync)
	}
	rename = func(r *os.Root, from, to string) error {
		return step("rename", func() error { return r.Rename(from, to) })
	}
	return done
}

// folder gives the path of a file that holds "old".
func folder(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func content(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the file lies %v, %v", entries, err)
	}
	return string(raw)
}

func writeNew(w io.Writer) error {
	_, err := io.WriteString(w, "new")
	return err
}

func TestTheStepsInTheirOrder(t *testing.T) {
	file := folder(t)
	done := steps(t, 0, nil)
	if err := Write(file, "file.tmp", 0o600, writeNew); err != nil {
		t.Fatal(err)
	}
	if got := content(t, file); got != "new" {
		t.Errorf("the file holds %q", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if want := []string{"sync file", "rename", "sync folder"}; !slices.Equal(*done, want) {
		t.Errorf("steps %q, want %q", *done, want)
	}
}

// TestEachFault: whatever fails, the name stands for a whole file, no temporary one is left, and the caller hears of
// it.
func TestEachFault(t *testing.T) {
	for n, want := range map[int]string{1: "old", 2: "old", 3: "new"} {
		file := folder(t)
		steps(t, n, errFault)
		if err := Write(file, "file.tmp", 0o600, writeNew); !errors.Is(err, errFault) {
			t.Errorf("step %d fails: %v", n, err)
		}
		if got := content(t, file); got != want {
			t.Errorf("step %d fails: the file holds %q, want %q", n, got, want)
		}
	}
	for name, write := range map[string]func(io.Writer) error{
		"at once": func(io.Writer) error { return errFault },
		"midway": func(w io.Writer) error {
			w.Write(make([]byte, 1<<20))
			return errFault
		},
	} {
		file := folder(t)
		done := steps(t, 0, nil)
		if err := Write(file, "file.tmp", 0o600, write); !errors.Is(err, errFault) || content(t, file) != "old" || len(*done) > 0 {
			t.Errorf("the content ends %s: %v, %q", name, err, *done)
		}
	}
}

func TestFoldersThatCannotBeSynced(t *testing.T) {
	for _, fault := range []error{syscall.EINVAL, syscall.ENOTSUP} {
		file := folder(t)
		steps(t, 3, &fs.PathError{Op: "sync", Path: ".", Err: fault})
		if err := Write(file, "file.tmp", 0o600, writeNew); err != nil || content(t, file) != "new" {
			t.Errorf("%v: %v", fault, err)
		}
	}
	file := folder(t)
	steps(t, 1, syscall.EINVAL)
	if err := Write(file, "file.tmp", 0o600, writeNew); !errors.Is(err, syscall.EINVAL) || content(t, file) != "old" {
		t.Errorf("a file that cannot be synced: %v", err)
	}
}

func TestALeftoverIsOverwritten(t *testing.T) {
	file := folder(t)
	if err := os.WriteFile(file+".tmp", make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(file, "file.tmp", 0o600, writeNew); err != nil || content(t, file) != "new" {
		t.Error(err)
	}
}

func TestNoSuchFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no", "file")
	if err := Write(file, "file.tmp", 0o600, writeNew); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestATemporaryFileThatIsTakenAway: another process that removes it makes the replacement fail, nothing else.
func TestATemporaryFileThatIsTakenAway(t *testing.T) {
	file := folder(t)
	err := Write(file, "file.tmp", 0o600, func(w io.Writer) error {
		return errors.Join(os.Remove(file+".tmp"), writeNew(w))
	})
	if !errors.Is(err, fs.ErrNotExist) || content(t, file) != "old" {
		t.Error(err)
	}
}

func TestBelowARoot(t *testing.T) {
	file := folder(t)
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := Create(root, "../out.tmp", 0o600); err == nil {
		t.Error("a temporary file lies outside")
	}
	f, err := Create(root, "file.tmp", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeNew(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit("../file"); err == nil {
		t.Error("it is renamed to a name outside")
	}
	if err := f.Commit("file"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil || content(t, file) != "new" {
		t.Error(err)
	}
}
