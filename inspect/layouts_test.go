package inspect

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/replaycluster"
	"coldtap/layout/aiven"
	"coldtap/layout/local"
	"coldtap/rangeio"
	"coldtap/tier"
)

// recorded is metadata that does not change.
type recorded struct{ *tier.Tier }

func (recorded) Refresh(context.Context, tier.PartitionID) error { return nil }

// unpack puts a fixture's objects into a folder and replays its metadata topic.
func unpack(t *testing.T, f *clusterfixture.Fixture) (metadata recorded, store *rangeio.Client, dir string) {
	t.Helper()
	dir = t.TempDir()
	f.Unpack(t, dir)
	backend, err := rangeio.OpenFile(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	metadata = recorded{tier.New()}
	replaycluster.Apply(t, f, metadata.Tier)
	return metadata, rangeio.NewClient(backend, rangeio.Config{}), dir
}

func verifyLayout(t *testing.T, m recorded, store *rangeio.Client, l Layout, topic string) (findings []string, s Summary) {
	t.Helper()
	values, err := lines(t, func(o *Output) (err error) {
		s, err = Verify(t.Context(), o, VerifyConfig{Metadata: m, Store: store, Layout: l, Topic: topic, Deep: true})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values[:len(values)-1] {
		findings = append(findings, v["problem"].(string)+" "+v["topic"].(string))
	}
	return findings, s
}

// damage changes an object's file, found by the beginning of its name and its ending.
func damage(t *testing.T, dir, folder, ending string, change func(file string)) {
	t.Helper()
	found := false
	filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err == nil && !found && !d.IsDir() && strings.Contains(file, folder) && strings.HasSuffix(file, ending) {
			found = true
			change(file)
		}
		return nil
	})
	if !found {
		t.Fatalf("no %s in %s", ending, folder)
	}
}

func remove(file string) { os.Remove(file) }

func flipAt(at int64) func(string) {
	return func(file string) {
		raw, _ := os.ReadFile(file)
		raw[at] ^= 1
		os.WriteFile(file, raw, 0o644)
	}
}

func TestVerifyBrokersOwnLayout(t *testing.T) {
	m, store, dir := unpack(t, clusterfixture.Load(t))
	findings, s := verifyLayout(t, m, store, local.New(store, ""), "")
	if len(findings) > 0 || s.Foreign > 0 || s.Unfinished == 0 || s.Segments != 150 || s.BytesRead != s.Bytes || s.Bytes == 0 {
		t.Fatalf("%+v %v", s, findings)
	}
	damage(t, dir, "/plain-0-", ".log", flipAt(100))
	damage(t, dir, "/plain-1-", ".snapshot", remove)
	damage(t, dir, "/plain-2-", ".log", remove)
	damage(t, dir, "/plain-2-", ".log", func(file string) { os.Truncate(file, 100) })
	damage(t, dir, "/txn-0-", ".log", func(file string) {
		os.WriteFile(filepath.Join(filepath.Dir(file), "00000000000000000007-AAAAAAAAAAAAAAAAAAAAAQ.log"), nil, 0o644)
	})
	findings, _ = verifyLayout(t, m, store, local.New(store, ""), "")
	slices.Sort(findings)
	want := []string{"missing_files plain", "missing_log plain", "orphan txn", "wrong_crc plain", "wrong_size plain"}
	if !slices.Equal(findings, want) {
		t.Errorf("got %v, want %v", findings, want)
	}
	if findings, s = verifyLayout(t, m, store, local.New(store, ""), "txn"); !slices.Equal(findings, []string{"orphan txn"}) || s.Segments == 0 {
		t.Errorf("one topic: %v %+v", findings, s)
	}
}

func TestVerifyAiven(t *testing.T) {
	for _, set := range clusterfixture.LoadAiven(t) {
		t.Run(set.Name, func(t *testing.T) {
			m, store, dir := unpack(t, set.Fixture)
			options := aiven.Options{Prefixes: []string{set.Prefix}}
			for id, pem := range set.Keys {
				options.Keys = append(options.Keys, aiven.PrivateKey{ID: id, PEM: pem})
			}
			open := func() *aiven.Layout {
				reader, err := aiven.New(store, options)
				if err != nil {
					t.Fatal(err)
				}
				return reader
			}
			l := open()
			present := make(map[string]bool) // the sets hold some of the topics that the metadata knows
			for key := range set.Objects {
				if _, n := l.Classify(key); n.Topic != "" {
					present[n.Topic] = true
				}
			}
			all := func() (findings []string) {
				l := open() // objects are read as they are now
				for name := range present {
					found, s := verifyLayout(t, m, store, l, name)
					if s.Segments == 0 || len(found) == 0 && s.BytesRead != s.Bytes {
						t.Errorf("%s: %+v", name, s)
					}
					findings = append(findings, found...)
				}
				return findings
			}
			if findings := all(); len(findings) > 0 {
				t.Errorf("findings in sound objects: %v", findings)
			}
			damage(t, dir, "", ".log", flipAt(200))
			if findings := all(); len(findings) != 1 {
				t.Errorf("a flipped bit: %v", findings)
			}
			damage(t, dir, "", ".indexes", remove)
			if findings := all(); len(findings) != 1 || !strings.HasPrefix(findings[0], string(MissingFiles)) {
				t.Errorf("a missing object: %v", findings)
			}
		})
	}
}
