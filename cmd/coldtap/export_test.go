package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExportCommand: its exit codes, and what it says where.
func TestExportCommand(t *testing.T) {
	base, _ := startTier(t, testConfig(t))
	dir := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		args      string
		code      int
		out, said string
	}{
		{"txn:0-1 --out " + dir + " --format parquet", exitOK, "complete: 1436 records of 2 partitions", ""},
		{"txn:0-1 --out " + dir + " --format parquet", exitOK, "complete: 1436 records of 2 partitions", ""},
		{"txn:1 --out " + dir + " --format parquet", exitUsage, "", `partitions was "0-1" and is "1"`},
		{"txn --out - --from 10 --to 20", exitOK, `"offset":12,`, "complete: 18 records of 2 partitions"},
		{"txn --out - --from 10 --to 5000", exitFailed, `"offset":12,`, "from offset 804 on: the tier ends at offset 804"},
		{"plain --out - --from 1700000000000ms --to 1700000010000ms --lateness 24h", exitFailed, `"offset":`, "7 records of 1 partition, as far as --lateness 24h0m0s reaches"},
		{"plain --out - --from 1700000000000ms --to 1700000010000ms", exitOK, "", "complete: 0 records of 1 partition, as far as --lateness 0s reaches"},
		{"plain --out - --from yesterday", exitUsage, "", "--from: a position must be"},
		{"plain --out - --header x", exitUsage, "", "name=value"},
		{"plain --out - --format raw", exitUsage, "", "standard output"},
		{"plain", exitUsage, "", `"out" not set`},
		{"--out -", exitUsage, "", "TOPIC is missing"},
		{"nosuch --out -", exitFailed, "", "40401"},
		{"plain:3 --out -", exitUsage, "", "no partition 3"},
	} {
		code, out, said := commandLine(t, append([]string{"export", "--url", base}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(said, c.said) {
			t.Errorf("export %s: exit %d\n%.500s\n%s", c.args, code, out, said)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("%v %v", entries, err)
	}
}
