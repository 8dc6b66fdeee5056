package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/clusterfixture"

	"github.com/prometheus/client_golang/prometheus"
)

func encryptedSet(t *testing.T) *clusterfixture.AivenSet {
	t.Helper()
	sets := clusterfixture.LoadAiven(t)
	return sets[slices.IndexFunc(sets, func(s *clusterfixture.AivenSet) bool { return len(s.Keys) > 1 })]
}

// Keys that are put into the folder are used without a restart.
func TestNewKeysNeedNoRestart(t *testing.T) {
	set := encryptedSet(t)
	cfg := archiveConfig(t, set)
	cfg.Layout.Aiven.EncryptionKeys, cfg.Layout.Aiven.EncryptionKeysDir = nil, t.TempDir()
	base, admin := startServer(t, cfg)
	waitReady(t, admin)
	p := set.Partitions()[0]
	name, number, _ := cutLast(p.Name(), "-")
	read := func() string {
		_, body := get(t, fmt.Sprintf("%s/topics/%s/partitions/%s/records?offset=%d&isolation_level=read_uncommitted", base, name, number, p.Start), "")
		return string(body)
	}
	if body := read(); !strings.Contains(body, "which is not among the keys (none configured)") {
		t.Errorf("without keys: %.300s", body)
	}
	for id, pem := range set.Keys {
		if err := os.WriteFile(filepath.Join(cfg.Layout.Aiven.EncryptionKeysDir, id+".pem"), pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the new keys", func() bool { return !strings.Contains(read(), "error_code") })
	got, _ := readAll(t, base, p.Name(), "read_uncommitted", "earliest", -1, 100_000)
	compare(t, p.Name(), got[max(0, len(got)-len(set.Expected(t, p.Name(), "read_uncommitted"))):], set.Expected(t, p.Name(), "read_uncommitted"))
}

// A bucket whose prefix was changed in between is read as a whole.
func TestABucketWithTwoPrefixes(t *testing.T) {
	set := encryptedSet(t)
	cfg := archiveConfig(t, set)
	const now = "moved/to/"
	count := 0
	err := filepath.WalkDir(cfg.Store.File.Dir, func(path string, d fs.DirEntry, err error) error {
		key, err2 := filepath.Rel(cfg.Store.File.Dir, path)
		if err != nil || err2 != nil || d.IsDir() || strings.HasPrefix(key, now) {
			return err
		}
		// Segments of even ids are of the time of the new prefix.
		if segment := filepath.Base(path)[21:43]; segment[0]%2 == 0 {
			count++
			to := filepath.Join(cfg.Store.File.Dir, now+strings.TrimPrefix(key, set.Prefix))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			return os.Rename(path, to)
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Fatal(count, err)
	}
	cfg.Layout.Aiven.KeyPrefix, cfg.Layout.Aiven.KeyPrefixes = "", []string{now, set.Prefix}
	base, admin := startServer(t, cfg)
	waitReady(t, admin)
	for _, p := range set.Partitions() {
		want := set.Expected(t, p.Name(), "read_committed")
		got, last := readAll(t, base, p.Name(), "read_committed", "earliest", -1, 100_000)
		for len(got) > 0 && got[0].Offset < p.Start {
			got = got[1:]
		}
		compare(t, p.Name(), got, want)
		if last.end != "tier" || last.next != p.HighWatermark {
			t.Errorf("%s ends with %s at %d, want tier at %d", p.Name(), last.end, last.next, p.HighWatermark)
		}
	}
}

// A bucket whose segments are all under another than the first of the prefixes can be read.
func TestTheFirstOfTwoPrefixesMayBeEmpty(t *testing.T) {
	set := encryptedSet(t)
	cfg := archiveConfig(t, set)
	cfg.Layout.Aiven.KeyPrefix, cfg.Layout.Aiven.KeyPrefixes = "", []string{"to/come/", set.Prefix}
	s, data := serverFor(t, cfg)
	waitReady(t, "http://"+s.adminListener.Addr().String())
	names, err := openLayout(cfg, s.store, 0, prometheus.NewRegistry()) // one that has learned nothing from reads
	if err != nil {
		t.Fatal(err)
	}
	keys := someLogs(s.catalog.Snapshot(), names)
	if err := s.store.ReadProbe(t.Context(), keys); err != nil || len(keys) == 0 {
		t.Errorf("%s: %v, asked for %q", data, err, keys)
	}
}
