package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInspectLooksAtALiveTier(t *testing.T) {
	cfg := testConfig(t)
	data, _ := startTier(t, cfg)
	file := configFile(t, cfg)
	dir := cfg.Offload.LogDirs[0]
	objects, err := filepath.Glob(filepath.Join(cfg.Store.File.Dir, "plain-*", "0", "*.log"))
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	object, err := filepath.Rel(cfg.Store.File.Dir, objects[0])
	if err != nil {
		t.Fatal(err)
	}
	object = filepath.ToSlash(object)
	id := strings.TrimSuffix(object[len(object)-len(".log")-22:], ".log")
	for _, c := range []struct {
		args []string
		want string // a pattern
	}{
		{[]string{"segments", "plain", "--config", file}, "plain-0 +start 0 +tiered end 554"},
		{[]string{"segments", "--config", file, "txn:1", "--json"}, `"topic":"txn".*"partition":1`},
		{[]string{"segment", "--config", file, "--", id}, "log SHA-256 +[0-9a-f]{64}"},
		{[]string{"log", filepath.Join(dir, "txn-1", "00000000000000000000.log")}, "commit"},
		{[]string{"log", object, "--config", file, "--records", "--json"}, `"type":"record"`},
		{[]string{"index", filepath.Join(dir, "txn-1", "00000000000000000000.index")}, "OFFSET +POSITION"},
		{[]string{"index", "--config", file, strings.TrimSuffix(object, ".log") + ".meta"}, "topic +plain"},
		{[]string{"verify", "--config", file, "--json", "--deep"}, `"segments":46.*"problems":0`},
		{[]string{"verify", "--config", file, "codecs"}, "(?m)^10 "},
	} {
		code, out, said := commandLine(t, append([]string{"inspect"}, c.args...)...)
		if code != exitOK || !matches(c.want, out) {
			t.Errorf("%q: exit %d\n%.600s%s", c.args, code, out, said)
		}
	}
	if resp, _ := get(t, data+"/topics", ""); resp.StatusCode != 200 {
		t.Errorf("the server answers %d afterwards", resp.StatusCode)
	}
	if err := os.Remove(objects[0]); err != nil {
		t.Fatal(err)
	}
	code, out, said := commandLine(t, "inspect", "verify", "--config", file, "--json")
	var finding struct{ Problem, Object string }
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &finding); err != nil {
		t.Fatal(err)
	}
	if code != exitFailed || finding.Problem != "missing_log" || finding.Object != object || !strings.Contains(said, "1 problems") {
		t.Errorf("exit %d, %+v, %s", code, finding, said)
	}
}

func TestInspectUsage(t *testing.T) {
	for _, c := range []struct {
		code int
		args string
		says string
	}{
		{exitUsage, "", "segments, segment, log, index, metadata-topic, verify"},
		{exitUsage, "everything", "segments, segment, log, index, metadata-topic, verify"},
		{exitUsage, "log", "FILE|OBJECT is missing"},
		{exitUsage, "segments a b", `unexpected argument "b"`},
		{exitUsage, "log --deep x", "deep"},
		{exitUsage, "log no-such-file.log --config no-such.yaml", "there is no file no-such-file.log"},
		{exitUsage, "verify --config no-such.yaml", "no-such.yaml"},
		{exitUsage, "verify --workers 0", "--workers"},
	} {
		code, _, said := commandLine(t, append([]string{"inspect"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%q: exit %d %s", c.args, code, said)
		}
	}
	// Before an offloader has made the metadata there is nothing to be said about the bucket.
	cfg := testConfig(t)
	if err := os.MkdirAll(cfg.Store.File.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	code, _, said := commandLine(t, "inspect", "verify", "--config", configFile(t, cfg))
	if code != exitFailed || !strings.Contains(said, "metadata") {
		t.Errorf("without metadata: exit %d %s", code, said)
	}
	if _, err := os.Stat(cfg.Metadata.Embedded.Path); err == nil {
		t.Error("looking made a database")
	}
}
