package embedded

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coldtap/tier"
)

// A database that its writer has closed can be served from a read-only mount, where SQLite cannot make the files that
// following takes. One whose last commits are in a log beside it cannot: they would be missed.
func TestClosedDatabaseOnAReadOnlyMount(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "coldtap.db")
	d := openWriter(t, path)
	finish(t, d, seg(1, 0, 99))
	look := func() string {
		t.Helper()
		cmd := child(t, "open", path)
		// A mount of its own, in a mount namespace of its own.
		script := `mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" "$3"`
		inside := exec.Command("unshare", "-m", "sh", "-c", script, "sh", dir, os.Args[0], path)
		inside.Env, inside.Stderr = cmd.Env, os.Stderr
		out, err := inside.Output()
		if err != nil {
			t.Skipf("needs the right to mount: %v", err)
		}
		_, reader, _ := strings.Cut(string(out), "reader: ")
		return strings.TrimSpace(reader)
	}
	must(t, d.Close())
	if got := look(); got != "<nil>" {
		t.Errorf("closed: %s", got)
	}
	must(t, os.WriteFile(path+"-wal", []byte("commits"), 0o644))
	if got := look(); !strings.Contains(got, "write permission on the directory") {
		t.Errorf("with a log beside it: %s", got)
	}
}

// A database that is deleted is told, while its last view is served, and one that comes in its place is followed.
func TestDatabaseThatIsDeletedAndComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coldtap.db")
	d := openWriter(t, path)
	finish(t, d, seg(1, 0, 99))
	r, err := OpenReader(t.Context(), path, ReaderOptions{})
	must(t, err)
	t.Cleanup(func() { r.Close() })
	if err := r.Trouble(); err != nil {
		t.Fatal(err)
	}
	must(t, d.Close(), os.Remove(path))
	if err := r.Refresh(t.Context(), tier.PartitionID{}); err == nil || r.Trouble() == nil || !strings.Contains(r.Trouble().Error(), "is not there") {
		t.Errorf("%v, trouble %v", err, r.Trouble())
	}
	if r.Ready() != nil || r.Snapshot().Segments() != 1 {
		t.Errorf("the last view: %v, %d segments", r.Ready(), r.Snapshot().Segments())
	}
	d = openWriter(t, path)
	finish(t, d, seg(1, 0, 99))
	finish(t, d, seg(2, 100, 199))
	must(t, r.Refresh(t.Context(), tier.PartitionID{}))
	if r.Trouble() != nil || r.Snapshot().Segments() != 2 {
		t.Errorf("after it came back: %v, %d segments", r.Trouble(), r.Snapshot().Segments())
	}
	must(t, d.Close())
}
