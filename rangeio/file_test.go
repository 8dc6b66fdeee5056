package rangeio_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

func openFile(t *testing.T, dir string) rangeio.Backend {
	t.Helper()
	b, err := rangeio.OpenFile(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestFileStoreAcceptance(t *testing.T) {
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend {
		return openFile(t, filepath.Join(t.TempDir(), "made", "below"))
	})
}

func TestFileStoreRoot(t *testing.T) {
	dir := t.TempDir()
	_, err := rangeio.OpenFile(filepath.Join(dir, "none"), false)
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = rangeio.OpenFile(file, false)
	rangeiotest.IsKind(t, err, rangeio.NoBucket)

	root := filepath.Join(dir, "root")
	b := openFile(t, root)
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	// The store itself is gone: that must not look like objects that were deleted.
	_, err = b.Stat(t.Context(), "a/b")
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	_, _, err = b.Open(t.Context(), "a", 0, 1, "")
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	_, err = b.Put(t.Context(), "a/b", strings.NewReader("x"))
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	rangeiotest.IsKind(t, b.List(t.Context(), "", nil), rangeio.NoBucket)
	rangeiotest.IsKind(t, b.List(t.Context(), "a/", nil), rangeio.NoBucket)
	rangeiotest.IsKind(t, b.Delete(t.Context(), "a"), rangeio.NoBucket)
}

func TestFileStoreKeysThatAreNoNames(t *testing.T) {
	b := openFile(t, t.TempDir())
	if _, err := b.Put(t.Context(), "a/file", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"/abs", "end/", "a//b", strings.Repeat("n", 256), "a", "a/file/below", "a/file/below/that", ".coldtap-tmp-x", "a/.coldtap-tmp-x"} {
		_, err := b.Put(t.Context(), key, strings.NewReader("x"))
		rangeiotest.IsKind(t, err, rangeio.BadKey)
	}
}

func TestFileStoreIsConfined(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := openFile(t, dir)
	for name, target := range map[string]string{"link": secret, "out": outside, "up": "../" + filepath.Base(outside)} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"link", "out/secret", "up/secret"} {
		if _, _, err := b.Open(t.Context(), key, 0, -1, ""); err == nil {
			t.Errorf("%s was opened", key)
		}
		if _, err := b.Stat(t.Context(), key); err == nil {
			t.Errorf("%s was looked at", key)
		}
	}
	for _, key := range []string{"out/new", "up/new"} {
		_, err := b.Put(t.Context(), key, strings.NewReader("x"))
		rangeiotest.IsKind(t, err, rangeio.BadKey)
		b.Delete(t.Context(), "out/secret")
	}
	// A link in an object's place is replaced, not followed.
	if _, err := b.Put(t.Context(), "link", strings.NewReader("mine")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret" {
		t.Errorf("outside: %q, %v", got, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside has %v", entries)
	}
	if err := b.List(t.Context(), "", func(o rangeio.Object) error {
		if o.Key != "link" {
			t.Errorf("listed %q", o.Key)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestFileStorePipeIsNoObject(t *testing.T) {
	dir := t.TempDir()
	b := openFile(t, dir)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	_, _, err := b.Open(t.Context(), "pipe", 0, -1, "") // must not wait for a writer
	rangeiotest.IsKind(t, err, rangeio.NotFound)
}

func TestFileStoreLeftovers(t *testing.T) {
	dir := t.TempDir()
	b := openFile(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "p"), 0o750); err != nil {
		t.Fatal(err)
	}
	dead, alive := filepath.Join(dir, "p", ".coldtap-tmp-DEAD"), filepath.Join(dir, "p", ".coldtap-tmp-ALIVE")
	if err := os.WriteFile(dead, []byte("half an obj"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(alive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Skip(err)
	}
	list := func() (keys []string) {
		if err := b.List(t.Context(), "", func(o rangeio.Object) error { keys = append(keys, o.Key); return nil }); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	if got := list(); len(got) != 0 {
		t.Errorf("leftovers are listed: %q", got)
	}
	_, err = b.Stat(t.Context(), "p/.coldtap-tmp-DEAD")
	rangeiotest.IsKind(t, err, rangeio.BadKey)
	if _, err := b.Put(t.Context(), "p/o", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("a dead writer's file is still there: %v", err)
	}
	if _, err := os.Stat(alive); err != nil {
		t.Errorf("a living writer's file was taken: %v", err)
	}
}

// TestFileStoreListsNoWriters: while an object is written over, it is never missing, doubled or under another name.
// (Some S3 servers over a folder do list their temporary files for a moment.)
func TestFileStoreListsNoWriters(t *testing.T) {
	b := openFile(t, t.TempDir())
	ctx, done := t.Context(), make(chan struct{})
	if _, err := b.Put(ctx, "p/o", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for range 50 {
			if _, err := b.Put(ctx, "p/o", strings.NewReader("x")); err != nil {
				t.Error(err)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		var keys []string
		if err := b.List(ctx, "", func(o rangeio.Object) error { keys = append(keys, o.Key); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(keys) != 1 || keys[0] != "p/o" {
			t.Fatalf("listed %q", keys)
		}
	}
}

func TestFileStoreSeesChangeInPlace(t *testing.T) {
	dir := t.TempDir()
	b := openFile(t, dir)
	info, err := b.Put(t.Context(), "o", bytes.NewReader(rangeiotest.Bytes(1, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "o"), 999); err != nil {
		t.Fatal(err)
	}
	_, _, err = b.Open(t.Context(), "o", 0, 10, info.ETag)
	rangeiotest.IsKind(t, err, rangeio.Changed)
}

func TestFileStoreReadStaysWithItsVersion(t *testing.T) {
	b := openFile(t, t.TempDir())
	before := rangeiotest.Bytes(1, 100_000)
	if _, err := b.Put(t.Context(), "o", bytes.NewReader(before)); err != nil {
		t.Fatal(err)
	}
	body, _, err := b.Open(t.Context(), "o", 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := b.Put(t.Context(), "o", strings.NewReader("short")); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "o"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, before) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestFileStoreFull writes to a file system without room. Making one needs root; elsewhere TestFileKinds has to do.
func TestFileStoreFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("no tmpfs: ", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	b := openFile(t, dir)
	_, err := b.Put(t.Context(), "a/o", bytes.NewReader(make([]byte, 1<<20)))
	rangeiotest.IsKind(t, err, rangeio.Full)
	if entries, _ := os.ReadDir(filepath.Join(dir, "a")); len(entries) != 0 {
		t.Errorf("a full disk is left with %v", entries)
	}
	if _, err := b.Put(t.Context(), "a/o", strings.NewReader("fits")); err != nil {
		t.Error(err)
	}
}
