package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coldtap/internal/config"
)

// configFile writes a configuration and gives the file's name.
func configFile(t *testing.T, cfg config.Config) string {
	t.Helper()
	var text bytes.Buffer
	if err := cfg.Print(&text); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "coldtap.yaml")
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// offloadSample copies the sample into the configured tier.
func offloadSample(t *testing.T, cfg config.Config) {
	t.Helper()
	report, err := offloadOnce(t.Context(), cfg, offloadOptions{}, quiet())
	if err != nil || report.Failed() {
		t.Fatalf("offload: %v", err)
	}
}

// answers reads everything that a server has of the sample: listings, and every partition under both isolation levels.
func answers(t *testing.T, data string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	take := func(path string) {
		resp, body := get(t, data+path, "application/x-ndjson, application/json;q=0.9")
		all[path] = fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
	take("/topics")
	for partition, end := range closedEnds {
		dash := strings.LastIndexByte(partition, '-')
		path := "/topics/" + partition[:dash] + "/partitions/" + partition[dash+1:]
		take(path + "/offsets")
		for _, isolation := range isolations {
			take(fmt.Sprintf("%s/records?offset=0&end_offset=%d&isolation_level=%s", path, end, isolation))
		}
	}
	return all
}

func TestARebuiltTierAnswersAsBefore(t *testing.T) {
	cfg := testConfig(t)
	data, _ := startTier(t, cfg)
	want := answers(t, data)
	// The old server keeps its database open; the rebuilt one is another file, as after a lost disk.
	cfg.Metadata.Embedded.Path = filepath.Join(t.TempDir(), "anew", "coldtap.db")
	file := configFile(t, cfg)
	code, out, said := commandLine(t, "offload", "rebuild", "--config", file)
	if code != exitOK || !strings.Contains(out, "recorded 46 segments") || !matches("plain-0 +[0-9]+ segments .*to 554", out) {
		t.Fatalf("exit %d\n%s%s", code, out, said)
	}
	data, _ = startServer(t, cfg)
	got := answers(t, data)
	for path, before := range want {
		if !strings.HasPrefix(before, "200 ") {
			t.Errorf("%s: %.200s", path, before)
		}
		if got[path] != before {
			t.Errorf("%s differs: %.300s\nbefore: %.300s", path, got[path], before)
		}
	}
}

func TestRebuildTellsWhatItLeavesOut(t *testing.T) {
	cfg := testConfig(t)
	offloadSample(t, cfg)
	metas, err := filepath.Glob(filepath.Join(cfg.Store.File.Dir, "plain-*", "0", "*.meta"))
	if err != nil || len(metas) < 3 {
		t.Fatal(metas, err)
	}
	if err := os.Remove(metas[1]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(metas[2], []byte("\x1b[2Jnot a manifest"), 0o644); err != nil {
		t.Fatal(err)
	}
	database := cfg.Metadata.Embedded.Path
	cfg.Metadata.Embedded.Path = filepath.Join(t.TempDir(), "coldtap.db")
	file := configFile(t, cfg)
	code, out, said := commandLine(t, "offload", "rebuild", "--config", file, "--dry-run")
	if code != exitFailed || !matches("orphan +plain-.*log", out) || !matches("damaged_meta +plain-.*meta", out) || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d\n%q%s", code, out, said)
	}
	if _, err := os.Stat(cfg.Metadata.Embedded.Path); err == nil {
		t.Error("--dry-run made a database")
	}
	// The old database knows of segments that the bucket no longer tells of.
	cfg.Metadata.Embedded.Path = database
	code, _, said = commandLine(t, "offload", "rebuild", "--config", configFile(t, cfg))
	if code != exitFailed || !strings.Contains(said, "the bucket has nothing whole") {
		t.Errorf("over a database with more: exit %d %s", code, said)
	}
}
