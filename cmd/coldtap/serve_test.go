package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/internal/config"
)

// A hang-up takes new limits from the file, and a broken file changes nothing.
func TestReloadTakesNewLimits(t *testing.T) {
	cfg := testConfig(t)
	if _, err := offloadOnce(t.Context(), cfg, offloadOptions{}, quiet()); err != nil {
		t.Fatal(err)
	}
	s, base := serverFor(t, cfg)
	file := filepath.Join(t.TempDir(), "coldtap.yaml")
	ask := func() int {
		resp, _ := get(t, base+"/topics/plain/partitions/0/records?offset=0&max_bytes=2097152", "")
		return resp.StatusCode
	}
	if got := ask(); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	for _, step := range []struct {
		text string
		want int
	}{
		{"store: {kind: file}\nlimits: {max_response_bytes: 1MiB}\n", http.StatusBadRequest},
		{"store: {kind: file}\nlimits: {max_response_bytes: 4MiB, nonsense: 1}\n", http.StatusBadRequest},
		{"store: {kind: file}\nlimits: {max_response_bytes: 4MiB}\n", http.StatusOK},
	} {
		if err := os.WriteFile(file, []byte(step.text), 0o644); err != nil {
			t.Fatal(err)
		}
		s.reload(config.Loader{File: file})
		if got := ask(); got != step.want {
			t.Errorf("after %q: %d, want %d", step.text, got, step.want)
		}
	}
}

// A process with a small limit of open files must leave some of them for what clients ask it to read, and say so.
func TestFewDescriptors(t *testing.T) {
	for _, c := range []struct {
		limit   uint64
		threads int
		want    int
		warned  bool
	}{
		{unlimited, 32, 16384, false},
		{1 << 20, 32, 16384, false},
		{16384 + 256 + 64, 32, 16384, false},
		{16384 + 256 + 63, 32, 16383, true},
		{1024, 32, 704, true},
		{256, 32, 16, true},
		{0, 1 << 20, 16, true},
	} {
		var said bytes.Buffer
		got := connections(c.limit, c.threads, slog.New(slog.NewTextHandler(&said, nil)))
		if got != c.want || (said.Len() > 0) != c.warned {
			t.Errorf("%d descriptors, %d threads: %d connections, want %d; said %q", c.limit, c.threads, got, c.want, said.String())
		}
	}
	if descriptors() < 64 {
		t.Errorf("%d descriptors", descriptors())
	}
}

// What hangs at the end must not keep the process, and what obeys its share is told apart from what does not.
func TestEndingHasShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		defer close(hung)
		for _, c := range []struct {
			name string
			f    func(ctx context.Context) error
			took time.Duration
			want string
		}{
			{"well", func(context.Context) error { return nil }, 0, ""},
			{"fails", func(context.Context) error { return errors.New("broken") }, 0, "broken"},
			{"obeys", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 5 * time.Second, "context deadline exceeded"},
			{"hangs", func(context.Context) error { <-hung; return nil }, 5*time.Second + lateness, "not ended within 5s"},
		} {
			began := time.Now()
			err := within(5*time.Second, c.f)
			if took := time.Since(began); took != c.took || (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
				t.Errorf("%s: %v after %s", c.name, err, took)
			}
		}
	})
}

// A start that hangs in a system call, as over a pipe, ends when it is asked to.
func TestEndWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		defer close(hung)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := orEnd(ctx, func() error { <-hung; return nil }); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := orEnd(ctx, func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
