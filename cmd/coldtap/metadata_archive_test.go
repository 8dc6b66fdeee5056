package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/config"
	"coldtap/internal/testing/clusterfixture"
)

// archiveConfig reads the bucket of a cluster that is gone.
func archiveConfig(t *testing.T, set *clusterfixture.AivenSet) config.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Store.Kind, cfg.Store.File.Dir = "file", filepath.Join(dir, "bucket")
	set.Unpack(t, cfg.Store.File.Dir)
	cfg.Layout.Kind, cfg.Layout.Aiven.KeyPrefix = "aiven", set.Prefix
	for id, pem := range set.Keys {
		file := filepath.Join(dir, id+".pem")
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg.Layout.Aiven.EncryptionKeys = append(cfg.Layout.Aiven.EncryptionKeys, config.EncryptionKey{ID: id, PrivateKeyFile: file})
	}
	cfg.Metadata.Kind, cfg.Metadata.Archive.Snapshot = "archive", filepath.Join(dir, "archive.snapshot")
	cfg.Cache.Memory, cfg.Cache.Chunk = 8<<20, 1<<20
	if problems := cfg.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return cfg
}

// A bucket without its cluster gives what the cluster's consumers read: whole, and from a second start on its snapshot
// file. Where DeleteRecords came after the last copy the bucket cannot know, and begins earlier.
func TestServesABucketWithoutItsCluster(t *testing.T) {
	for _, set := range clusterfixture.LoadAiven(t) {
		t.Run(set.Name, func(t *testing.T) {
			cfg := archiveConfig(t, set)
			for range 2 {
				t.Run("", func(t *testing.T) {
					base, admin := startServer(t, cfg)
					waitReady(t, admin)
					compared := 0
					for _, p := range set.Partitions() {
						for _, isolation := range isolations {
							want := set.Expected(t, p.Name(), isolation)
							got, last := readAll(t, base, p.Name(), isolation, "earliest", -1, 100_000)
							for len(got) > 0 && got[0].Offset < p.Start {
								got = got[1:]
							}
							compare(t, p.Name()+" "+isolation, got, want)
							if last.end != "tier" || last.next != p.HighWatermark {
								t.Errorf("%s %s ends with %s at %d, want tier at %d", p.Name(), isolation, last.end, last.next, p.HighWatermark)
							}
							compared += len(want)
						}
					}
					if compared < 500 {
						t.Errorf("only %d records were compared", compared)
					}
				})
			}
			if _, err := os.Stat(cfg.Metadata.Archive.Snapshot); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a reader cannot open is said by name: the key that is missing or wrong, the chunk that is not what was sealed.
func TestSealedBucketsErrors(t *testing.T) {
	sets := clusterfixture.LoadAiven(t)
	set := sets[slices.IndexFunc(sets, func(s *clusterfixture.AivenSet) bool { return len(s.Keys) > 1 })]
	p := set.Partitions()[0]
	name, number, _ := cutLast(p.Name(), "-")
	ask := func(t *testing.T, cfg config.Config) string {
		t.Helper()
		base, admin := startServer(t, cfg)
		waitReady(t, admin)
		_, body := get(t, fmt.Sprintf("%s/topics/%s/partitions/%s/records?offset=%d&isolation_level=read_uncommitted", base, name, number, p.Start), "")
		return string(body)
	}
	t.Run("no key", func(t *testing.T) {
		cfg := archiveConfig(t, set)
		cfg.Layout.Aiven.EncryptionKeys = nil
		if body := ask(t, cfg); !strings.Contains(body, `"error_code":50201`) || !matches(`key id \\"[^"]+\\", which is not among the keys`, body) {
			t.Error(body)
		}
	})
	t.Run("another key", func(t *testing.T) {
		cfg := archiveConfig(t, set)
		k := cfg.Layout.Aiven.EncryptionKeys
		k[0].PrivateKeyFile, k[1].PrivateKeyFile = k[1].PrivateKeyFile, k[0].PrivateKeyFile
		if body := ask(t, cfg); !strings.Contains(body, `"error_code":50201`) || !matches(`the private key of key id \\"[^"]+\\" does not open it`, body) {
			t.Error(body)
		}
	})
	t.Run("a chunk that was changed", func(t *testing.T) {
		cfg := archiveConfig(t, set)
		logs, err := filepath.Glob(filepath.Join(cfg.Store.File.Dir, name+"-"+p.Topic.ID.String(), number, "*.log"))
		if err != nil || len(logs) == 0 {
			t.Fatal(logs, err)
		}
		for _, file := range logs {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			raw[100] ^= 1
			if err := os.WriteFile(file, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if body := ask(t, cfg); !matches(`^\{"error_code":50002,.*fails authentication.*"segment":"[^"]{22}","position":0`, body) {
			t.Error(body)
		}
	})
}

// Reading is all that a server does: neither the bucket nor the folder of a storage plugin is any different afterwards.
func TestServingWritesNothingToTheStore(t *testing.T) {
	set := clusterfixture.LoadAiven(t)[0]
	cfg := archiveConfig(t, set)
	before := inventory(t, cfg.Store.File.Dir)
	t.Run("serve", func(t *testing.T) {
		base, admin := startServer(t, cfg)
		waitReady(t, admin)
		for _, p := range set.Partitions() {
			readAll(t, base, p.Name(), "read_committed", "earliest", -1, 100_000)
		}
		get(t, base+"/topics/none/partitions/0/records?offset=0", "")
	})
	if after := inventory(t, cfg.Store.File.Dir); after != before || before == "" {
		t.Errorf("the bucket was\n%.2000s\nand is\n%.2000s", before, after)
	}
}

// inventory lists what a folder holds, with sizes and times.
func inventory(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		fmt.Fprintln(&list, path, info.Size(), info.ModTime().UnixNano())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}
