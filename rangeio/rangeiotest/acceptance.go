// Package rangeiotest holds the contract that every rangeio.Backend has to pass.
package rangeiotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/rangeio"
)

// AcceptanceTest runs the contract. open gives an empty store each time and arranges for its end itself. A kind of
// store that cannot hold some keys byte for byte names what is in them (unable); those it must refuse.
func AcceptanceTest(t *testing.T, open func(t *testing.T) rangeio.Backend, unable ...string) {
	awkwardKeys := func(t *testing.T, b rangeio.Backend) { awkwardKeys(t, b, unable) }
	for _, c := range []struct {
		name string
		test func(t *testing.T, b rangeio.Backend)
	}{
		{"awkward keys come back byte for byte", awkwardKeys},
		{"refused keys", refusedKeys},
		{"sizes, empty and multipart included", sizes},
		{"ranges at the ends", ranges},
		{"overwrite changes the version", overwrite},
		{"a body is of one version", oneVersion},
		{"nobody sees a part of a put", atomicPut},
		{"missing objects", missing},
		{"a content that fails leaves no object", failingContent},
		{"list in key order", list},
		{"list of more than a page", longList},
		{"a function that ends a list", endedList},
		{"an ended context", endedContext},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Bytes gives n bytes that differ with seed and have no period, so that a shifted range never looks right.
func Bytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}).Read(b)
	return b
}

// IsKind fails the test unless err is a *rangeio.Error of that kind.
func IsKind(t *testing.T, err error, kind rangeio.Kind) {
	t.Helper()
	if !rangeio.IsKind(err, kind) {
		t.Fatalf("error is %v, want kind %v", err, kind)
	}
}

func put(t *testing.T, b rangeio.Backend, key string, content []byte) rangeio.Info {
	t.Helper()
	info, err := b.Put(t.Context(), key, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != int64(len(content)) || info.ETag == "" {
		t.Fatalf("put of %d bytes says %+v", len(content), info)
	}
	return info
}

// get reads [off, off+n) and closes the body.
func get(t *testing.T, b rangeio.Backend, key string, off, n int64, etag string) ([]byte, rangeio.Info) {
	t.Helper()
	body, info, err := b.Open(t.Context(), key, off, n, etag)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	got, err := io.ReadAll(io.LimitReader(body, 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	return got, info
}

func keys(t *testing.T, b rangeio.Backend, prefix string) []string {
	t.Helper()
	var got []string
	if err := b.List(t.Context(), prefix, func(o rangeio.Object) error {
		got = append(got, o.Key)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func awkwardKeys(t *testing.T, b rangeio.Backend, unable []string) {
	all := []string{
		"plain",
		"x+y z/%2F/a.b_c-1/0/00000000000000000000-3rWPSSwVQg68KbL1w28mKA.log",
		"topic with  two spaces/0",
		"per%cent/%41%/100%",
		"plus++/a+b",
		"-leading-dash/--/_under_score-",
		"dots/..a/b../.hidden/a.b..c",
		"a&b=c?d#e;f:g@h$i,j'k(l)m!n~o*p[q]r{s}t|u^v",
		"ünïcödé/Ω/日本/😀",
		`back\slash/"quotes"/<angle>`,
		strings.Repeat("long-part/", 80) + "end",
		strings.Repeat("n", 200),
	}
	all = slices.DeleteFunc(all, func(key string) bool {
		if !slices.ContainsFunc(unable, func(part string) bool { return strings.Contains(key, part) }) {
			return false
		}
		_, err := b.Put(t.Context(), key, strings.NewReader("x"))
		IsKind(t, err, rangeio.BadKey)
		return true
	})
	for i, key := range all {
		put(t, b, key, []byte(fmt.Sprint("content of ", i)))
	}
	for i, key := range all {
		if got, _ := get(t, b, key, 0, -1, ""); string(got) != fmt.Sprint("content of ", i) {
			t.Errorf("%q holds %q", key, got)
		}
		if info, err := b.Stat(t.Context(), key); err != nil || info.Size == 0 {
			t.Errorf("stat of %q: %+v, %v", key, info, err)
		}
	}
	want := slices.Sorted(slices.Values(all))
	if got := keys(t, b, ""); !slices.Equal(got, want) {
		t.Errorf("listed\n%q, want\n%q", got, want)
	}
	for _, key := range all {
		if got := keys(t, b, key); !slices.Contains(got, key) {
			t.Errorf("prefix %q does not find its own key but %q", key, got)
		}
		if err := b.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if left := keys(t, b, ""); len(left) > 0 {
		t.Errorf("after all deletes there is %q", left)
	}
}

func refusedKeys(t *testing.T, b rangeio.Backend) {
	for _, key := range []string{"", "..", "../x", "a/../../x", "a/./b", "a/..", "nul\x00byte", "line\nfeed", "not utf-8 \xff", strings.Repeat("k", 1025)} {
		if _, err := b.Put(t.Context(), key, strings.NewReader("x")); err == nil {
			t.Errorf("put of key %q succeeded", key)
		} else {
			IsKind(t, err, rangeio.BadKey)
		}
		if _, _, err := b.Open(t.Context(), key, 0, -1, ""); err == nil {
			t.Errorf("open of key %q succeeded", key)
		} else {
			IsKind(t, err, rangeio.BadKey)
		}
		if err := b.Delete(t.Context(), key); err == nil {
			t.Errorf("delete of key %q succeeded", key)
		} else {
			IsKind(t, err, rangeio.BadKey)
		}
	}
}

func sizes(t *testing.T, b rangeio.Backend) {
	// Around the part size of multipart uploads, where first and last part are odd.
	for i, size := range []int{0, 1, 61, 4096, 8<<20 - 1, 8 << 20, 8<<20 + 1} {
		content, key := Bytes(uint64(i), size), fmt.Sprint("size/", size)
		put(t, b, key, content)
		info, err := b.Stat(t.Context(), key)
		if err != nil || info.Size != int64(size) {
			t.Fatalf("stat of %d bytes: %+v, %v", size, info, err)
		}
		got, opened := get(t, b, key, 0, -1, info.ETag)
		if !bytes.Equal(got, content) || opened != info {
			t.Fatalf("object of %d bytes came back as %d bytes, %+v instead of %+v", size, len(got), opened, info)
		}
	}
}

func ranges(t *testing.T, b rangeio.Backend) {
	content := Bytes(7, 10_001)
	info := put(t, b, "o", content)
	size := int64(len(content))
	for _, r := range []struct{ off, n int64 }{
		{0, 1}, {0, size}, {0, size + 1}, {size - 1, 1}, {size - 1, 1000}, {10_000, 1000}, {1, size - 1}, {4096, 4096}, {5, 1 << 40},
	} {
		got, gi := get(t, b, "o", r.off, r.n, info.ETag)
		if want := content[r.off:min(r.off+r.n, size)]; !bytes.Equal(got, want) {
			t.Errorf("[%d, +%d): %d bytes, want %d", r.off, r.n, len(got), len(want))
		}
		if gi != info {
			t.Errorf("[%d, +%d): info %+v, want %+v", r.off, r.n, gi, info)
		}
	}
	var joined []byte
	for off := int64(0); off < size; off += 1000 {
		got, _ := get(t, b, "o", off, 1000, "")
		joined = append(joined, got...)
	}
	if !bytes.Equal(joined, content) {
		t.Error("pieces of 1,000 bytes do not make the object")
	}
	put(t, b, "empty", nil)
	for _, r := range []struct {
		key    string
		off, n int64
	}{{"o", size, 1}, {"o", size + 1, 10}, {"o", 1 << 50, 1}, {"empty", 0, 1}, {"empty", 1, 1}, {"o", -1, 1}, {"o", 0, 0}} {
		_, _, err := b.Open(t.Context(), r.key, r.off, r.n, "")
		if err == nil {
			t.Fatalf("%s [%d, +%d) succeeded", r.key, r.off, r.n)
		}
		IsKind(t, err, rangeio.BadRange)
	}
}

func overwrite(t *testing.T, b rangeio.Backend) {
	first := put(t, b, "o", []byte("version one"))
	second := put(t, b, "o", []byte("version TWO"))
	if first.ETag == second.ETag {
		t.Fatalf("both versions are %s", first.ETag)
	}
	_, _, err := b.Open(t.Context(), "o", 0, 5, first.ETag)
	IsKind(t, err, rangeio.Changed)
	_, _, err = b.Open(t.Context(), "o", 0, -1, first.ETag)
	IsKind(t, err, rangeio.Changed)
	if got, _ := get(t, b, "o", 8, 3, second.ETag); string(got) != "TWO" {
		t.Errorf("read %q", got)
	}
}

func oneVersion(t *testing.T, b rangeio.Backend) {
	before, after := Bytes(1, 4<<20), Bytes(2, 3<<20)
	put(t, b, "o", before)
	body, _, err := b.Open(t.Context(), "o", 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	got := make([]byte, 1<<20)
	if _, err := io.ReadFull(body, got); err != nil {
		t.Fatal(err)
	}
	put(t, b, "o", after)
	rest, err := io.ReadAll(io.LimitReader(body, 8<<20))
	if err == nil && !bytes.Equal(append(got, rest...), before) {
		t.Error("a body held bytes of two versions")
	}
	if err := b.Delete(t.Context(), "o"); err != nil {
		t.Fatal(err)
	}
}

func atomicPut(t *testing.T, b rangeio.Backend) {
	versions := [][]byte{bytes.Repeat([]byte{'a'}, 300_000), bytes.Repeat([]byte{'b'}, 200_001)}
	put(t, b, "o", versions[0])
	ctx := t.Context()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 20 {
			if _, err := b.Put(ctx, "o", bytes.NewReader(versions[i%2])); err != nil {
				t.Error(err)
			}
		}
	})
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		body, info, err := b.Open(ctx, "o", 0, -1, "")
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := io.ReadAll(io.LimitReader(body, 1<<20))
		body.Close()
		if err != nil {
			t.Error(err)
			continue
		}
		if int64(len(got)) != info.Size || !(bytes.Equal(got, versions[0]) || bytes.Equal(got, versions[1])) {
			t.Errorf("read %d bytes of an object of %d that are neither version", len(got), info.Size)
		}
	}
	<-done
}

func missing(t *testing.T, b rangeio.Backend) {
	put(t, b, "folder/o", []byte("x"))
	for _, key := range []string{"no", "folder", "folder/other", "folder/o/below", "no/no/no"} {
		_, _, err := b.Open(t.Context(), key, 0, 10, "")
		IsKind(t, err, rangeio.NotFound)
		_, err = b.Stat(t.Context(), key)
		IsKind(t, err, rangeio.NotFound)
		if err := b.Delete(t.Context(), key); err != nil {
			t.Errorf("delete of the missing %q: %v", key, err)
		}
	}
	for range 2 {
		if err := b.Delete(t.Context(), "folder/o"); err != nil {
			t.Error(err)
		}
	}
	if left := keys(t, b, ""); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	// A folder that was emptied takes objects again.
	put(t, b, "folder/o", []byte("y"))
}

// brokenContent fails, or just ends, after good bytes.
type brokenContent struct {
	size, good int64
	err        error
}

func (s brokenContent) Size() int64 { return s.size }

func (s brokenContent) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), max(s.good-off, 0)))
	clear(p[:n])
	if n < len(p) {
		return n, s.err
	}
	return n, nil
}

func failingContent(t *testing.T, b rangeio.Backend) {
	errDisk := errors.New("input/output error")
	for _, s := range []brokenContent{
		{20 << 20, 12 << 20, errDisk}, {20 << 20, 12 << 20, io.EOF}, {20 << 20, 3 << 20, io.EOF}, {1000, 600, errDisk}, {1000, 600, io.EOF}, {1, 0, io.EOF},
		{16 << 20, 8 << 20, io.EOF},
	} {
		_, err := b.Put(t.Context(), "broken", s)
		if err == nil {
			t.Fatalf("put of a source with %d of %d bytes succeeded", s.good, s.size)
		}
		IsKind(t, err, rangeio.BadContent)
		if s.err == errDisk && !errors.Is(err, errDisk) {
			t.Errorf("the cause is lost: %v", err)
		}
		_, err = b.Stat(t.Context(), "broken")
		IsKind(t, err, rangeio.NotFound)
	}
	put(t, b, "kept", []byte("the version before"))
	_, err := b.Put(t.Context(), "kept", brokenContent{9 << 20, 1 << 20, io.EOF})
	IsKind(t, err, rangeio.BadContent)
	if got, _ := get(t, b, "kept", 0, -1, ""); string(got) != "the version before" {
		t.Errorf("a failed put left %q", got)
	}
}

func list(t *testing.T, b rangeio.Backend) {
	all := []string{"a", "a-b", "a.b/c", "a/b", "a0", "b/1/x", "b/1/y", "b/10/x", "b/2/x", "b1", "c"}
	// "a" and "a/b" can not both be files.
	all = slices.DeleteFunc(all, func(k string) bool { return k == "a" })
	for i := range all {
		put(t, b, all[len(all)-1-i], []byte(strings.Repeat("x", i)))
	}
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"", all},
		{"a", all[:4]},
		{"a/", []string{"a/b"}},
		{"b/1", []string{"b/1/x", "b/1/y", "b/10/x"}},
		{"b/1/", []string{"b/1/x", "b/1/y"}},
		{"b/1/y", []string{"b/1/y"}},
		{"c", []string{"c"}},
		{"c/", nil},
		{"nothing", nil},
		{"nothing/below/", nil},
		{"../", nil},
		{"/", nil},
	} {
		if got := keys(t, b, c.prefix); !slices.Equal(got, c.want) {
			t.Errorf("prefix %q lists %q, want %q", c.prefix, got, c.want)
		}
	}
	if err := b.List(t.Context(), "c", func(o rangeio.Object) error {
		if o.Size != 0 || o.ModTime.IsZero() {
			t.Errorf("%+v", o)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func longList(t *testing.T, b rangeio.Backend) {
	const count = 1_103 // a page of S3 holds 1,000
	want := make([]string, count)
	var wg sync.WaitGroup
	next := make(chan string)
	for range 8 {
		wg.Go(func() {
			for key := range next {
				if _, err := b.Put(t.Context(), key, strings.NewReader("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range want {
		want[i] = fmt.Sprintf("p/%02d/%05d", i/100, i)
		next <- want[i]
	}
	close(next)
	wg.Wait()
	if got := keys(t, b, "p/"); !slices.Equal(got, want) {
		t.Errorf("listed %d keys, want %d in order", len(got), count)
	}
}

func endedList(t *testing.T, b rangeio.Backend) {
	for _, key := range []string{"1/a", "2/a", "3/a"} {
		put(t, b, key, nil)
	}
	enough, seen := errors.New("enough"), 0
	err := b.List(t.Context(), "", func(rangeio.Object) error {
		if seen++; seen == 2 {
			return enough
		}
		return nil
	})
	if err != enough || seen != 2 {
		t.Errorf("list ended with %v after %d objects", err, seen)
	}
}

func endedContext(t *testing.T, b rangeio.Backend) {
	put(t, b, "o", Bytes(3, 1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	body, _, err := b.Open(ctx, "o", 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	cancel()
	_, _, err = b.Open(ctx, "o", 0, -1, "")
	IsKind(t, err, rangeio.Canceled)
	_, err = b.Stat(ctx, "o")
	IsKind(t, err, rangeio.Canceled)
	IsKind(t, b.List(ctx, "", func(rangeio.Object) error { return nil }), rangeio.Canceled)
	IsKind(t, b.Delete(ctx, "o"), rangeio.Canceled)
	if _, err := b.Stat(t.Context(), "o"); err != nil {
		t.Errorf("a cancelled delete left %v", err)
	}
	_, err = b.Put(ctx, "p", bytes.NewReader(Bytes(4, 20<<20)))
	IsKind(t, err, rangeio.Canceled)
	_, err = b.Stat(t.Context(), "p")
	IsKind(t, err, rangeio.NotFound)
}
