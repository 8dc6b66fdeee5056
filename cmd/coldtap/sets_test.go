package main

import (
	"archive/zip"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"coldtap/internal/testing/testkit"
)

// The log directories in testdata/sets.zip are a real broker's too, and each once was answered wrongly:
//   - compacted-away: the cleaner left an empty log where every record was superseded.
//   - stale-log-start: killed after DeleteRecords, before the log start was checkpointed; the lineage begins later.
//   - extreme-timestamps: a record with the timestamp 2^63-1.
func TestLogDirectoriesThatOnceWentWrong(t *testing.T) {
	for _, set := range []string{"compacted-away", "stale-log-start", "extreme-timestamps"} {
		t.Run(set, func(t *testing.T) {
			cfg := testConfig(t)
			dir := t.TempDir()
			unzip(t, "testdata/sets.zip", set+"/", dir)
			cfg.Offload.LogDirs = []string{filepath.Join(dir, "logdir")}
			base, _ := startTier(t, cfg)
			partitions, err := filepath.Glob(filepath.Join(dir, "logdir", "*-*", "partition.metadata"))
			if err != nil || len(partitions) == 0 {
				t.Fatal("no partitions", err)
			}
			for _, file := range partitions {
				partition := filepath.Base(filepath.Dir(file))
				end := activeBase(t, filepath.Dir(file))
				for _, isolation := range isolations {
					dump, err := os.Open(filepath.Join(dir, "expected", partition+"."+isolation+".ndjson"))
					if err != nil {
						t.Fatal(err)
					}
					defer dump.Close()
					got, last := readAll(t, base, partition, isolation, "earliest", -1, 4<<10)
					want, err := testkit.Parse(dump)
					if err != nil {
						t.Fatal(err)
					}
					compare(t, partition+" "+isolation, got, between(want, 0, end))
					if last.end != "tier" || last.next != end {
						t.Errorf("%s ended with %s at %d, want tier at %d", partition, last.end, last.next, end)
					}
				}
			}
		})
	}
}

// activeBase is the base offset of the partition's last log.
func activeBase(t *testing.T, dir string) (base int64) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(log), ".log"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		base = max(base, n)
	}
	return base
}

// unzip extracts what lies below a prefix of the archive.
func unzip(t *testing.T, archive, prefix, dir string) {
	t.Helper()
	z, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		name, ok := strings.CutPrefix(f.Name, prefix)
		if !ok {
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(path.Clean(name)))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(in)
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A partition of which nothing can be tiered yet is known, with an empty tier, and not "no such topic". When the broker
// deletes its beginning before anything was copied, its start moves.
func TestPartitionWithoutClosedSegmentsIsEmptyNotUnknown(t *testing.T) {
	cfg := testConfig(t)
	dir := filepath.Join(cfg.Offload.LogDirs[0], "plain-0")
	logs, err := filepath.Glob(filepath.Join(dir, "000*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range logs {
		if !strings.HasPrefix(filepath.Base(f), "00000000000000000554.") {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	base, _ := startTier(t, cfg)
	records, last := readAll(t, base, "plain-0", "read_committed", "earliest", -1, 64<<10)
	if len(records) != 0 || last.end != "tier" || last.next != 554 {
		t.Errorf("%d records, ended with %s at %d", len(records), last.end, last.next)
	}
}
