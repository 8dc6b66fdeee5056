package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

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
		s.reload(config.Source{File: file})
		if got := ask(); got != step.want {
			t.Errorf("after %q: %d, want %d", step.text, got, step.want)
		}
	}
}
