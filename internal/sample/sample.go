// Package sample holds a small log directory that a real Apache Kafka 4.3.1 broker wrote: topics plain, txn (two
// partitions, with aborted transactions), gaps (compacted) and codecs (every codec). The demo offloads it, and tests
// use it as the truth about Kafka's own files.
package sample

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

//go:embed logdir.zip
var archive []byte

// ClusterID is the id of the cluster whose broker wrote the sample.
const ClusterID = "MkU3OEVBNTcwNTJENDM2Qg"

// Partitions names the partition directories of the sample.
var Partitions = []string{"plain-0", "txn-0", "txn-1", "gaps-0", "codecs-0"}

// Extract writes the log directory into dir, which is created if need be.
func Extract(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	files, err := Files()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.FromSlash(name)
		if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(path, files[name], 0o666); err != nil {
			return err
		}
	}
	return nil
}

// Files gives every file of the sample by its path in the log directory, e.g. "txn-0/00000000000000000000.log".
func Files() (map[string][]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	err = fs.WalkDir(z, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(z, name)
		return err
	})
	return files, err
}
