// Package sample holds a small log directory that a real Apache Kafka 4.3.1 broker wrote: topics plain, txn (two
// partitions, with aborted transactions), gaps (compacted) and codecs (every codec). The demo offloads it, and tests
// use it as the truth about Kafka's own files.
package sample

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io"
	"os"
	"path/filepath"
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
	return each(func(f *zip.File, open func() (io.ReadCloser, error)) error {
		name := filepath.FromSlash(f.Name)
		if parent := filepath.Dir(name); parent != "." {
			if err := root.MkdirAll(parent, 0o755); err != nil {
				return err
			}
		}
		in, err := open()
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := root.Create(name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			out.Close()
			return err
		}
		return out.Close()
	})
}

// Files gives every file of the sample by its path in the log directory, e.g. "txn-0/00000000000000000000.log".
func Files() (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := each(func(f *zip.File, open func() (io.ReadCloser, error)) error {
		in, err := open()
		if err != nil {
			return err
		}
		defer in.Close()
		b, err := io.ReadAll(in)
		files[f.Name] = b
		return err
	})
	return files, err
}

func each(fn func(*zip.File, func() (io.ReadCloser, error)) error) error {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		if err := fn(f, f.Open); err != nil {
			return err
		}
	}
	return nil
}
