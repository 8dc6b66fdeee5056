package sample

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExtractGivesEveryFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logdir")
	if err := Extract(dir); err != nil {
		t.Fatal(err)
	}
	// A second time it writes over what is there.
	if err := os.WriteFile(filepath.Join(dir, "meta.properties"), make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Extract(dir); err != nil {
		t.Fatal(err)
	}
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 150 {
		t.Fatalf("%d files, want the whole log directory", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s differs", name)
		}
	}
	for _, p := range Partitions {
		if _, ok := files[p+"/partition.metadata"]; !ok {
			t.Errorf("%s has no partition.metadata", p)
		}
	}
}
