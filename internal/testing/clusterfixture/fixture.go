// Package clusterfixture is a Kafka cluster with tiered storage, frozen: what three real Apache Kafka 4.3.1 brokers
// with LocalTieredStorage left behind, and what a real consumer and raw requests got from them. Its 26 partitions hold
// what goes wrong in such clusters: deposed leaders' segments, crashes in mid-copy, deletes that got stuck, re-created
// topics, transactions that stay open.
//
// cluster.tar.zst (3.8 MiB, 28 MiB unpacked) holds:
//
//	cluster.json                      topics, partitions, their bounds and lineage, as the brokers reported them
//	metadata.ndjson                   every record of __remote_log_metadata, by partition and offset
//	store/<key>                       the objects below LocalTieredStorage's kafka-tiered-storage folder
//	expected/<partition>.<isolation>.ndjson   what Kafka's Java consumer read, from the log's start to its end;
//	                                  read_committed only where it differs
//	fetch.ndjson                      raw Fetch answers of the leaders
//	list-offsets.ndjson               answers to ListOffsets
//
// aiven.tar.zst (2.6 MiB, 7 MiB unpacked) holds clusters of one such broker with Aiven's plugin (v1.0.0) on S3, one for
// each of its ways to write, in part: all topics of one that compresses and encrypts; of one whose broker was killed in
// mid-copy, the topic with the orphan; of one with a key prefix and custom metadata, the topic with two partitions.
// Their files, each below the set's name:
//
//	cluster.json                      the plugin's configuration, and the topics that are here
//	metadata.ndjson                   every record of __remote_log_metadata, of other topics too
//	store/<key>                       the bucket
//	keys/<id>.private.pem             throw-away keys
//	expected/<partition>.<isolation>.ndjson   as above; all of it came out of the tier
//
// Nothing here is checked beyond what makes a test wrong. Everything a Fixture gives is shared and must not be changed.
package clusterfixture

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"coldtap/internal/testing/testkit"

	"github.com/klauspost/compress/zstd"
)

//go:embed cluster.tar.zst
var archive []byte

// Fixture is the unpacked archive.
type Fixture struct {
	Cluster     Cluster
	Metadata    []MetadataRecord // by partition, then offset
	Objects     map[string][]byte
	Fetches     []Fetch
	ListOffsets []ListOffset

	expected map[string]func() ([]testkit.Record, error) // by "plain-0.read_committed"
}

// MetadataRecord is one record of __remote_log_metadata.
type MetadataRecord struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Key       []byte `json:"key"` // null in all of them
	Value     []byte `json:"value"`
	Decoded   string `json:"decoded"` // what the value means, in the words of Kafka's own decoder
}

var load = sync.OnceValues(unpack)

// Load unpacks the archive, once for the process.
func Load(tb testing.TB) *Fixture {
	tb.Helper()
	f, err := load()
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func unpack() (*Fixture, error) {
	f := newFixture()
	return f, eachFile(archive, f.add)
}

func newFixture() *Fixture {
	return &Fixture{Objects: map[string][]byte{}, expected: map[string]func() ([]testkit.Record, error){}}
}

// eachFile calls fn for each file of a .tar.zst.
func eachFile(archive []byte, fn func(name string, b []byte) error) error {
	z, err := zstd.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	defer z.Close()
	files := tar.NewReader(z)
	for {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if head.Typeflag == tar.TypeDir {
			continue
		}
		b, err := io.ReadAll(files)
		if err == nil {
			err = fn(head.Name, b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", head.Name, err)
		}
	}
}

func (f *Fixture) add(name string, b []byte) error {
	if key, ok := strings.CutPrefix(name, "store/"); ok {
		f.Objects[key] = b
		return nil
	}
	if of, ok := strings.CutPrefix(name, "expected/"); ok {
		f.expected[strings.TrimSuffix(of, ".ndjson")] = sync.OnceValues(func() ([]testkit.Record, error) { return testkit.Parse(bytes.NewReader(b)) })
		return nil
	}
	switch name {
	case "cluster.json":
		err := json.Unmarshal(b, &f.Cluster)
		f.Cluster.nameTopics()
		return err
	case "metadata.ndjson":
		return parseLines(b, &f.Metadata)
	case "fetch.ndjson":
		return parseLines(b, &f.Fetches)
	case "list-offsets.ndjson":
		return parseLines(b, &f.ListOffsets)
	}
	return errors.New("not known")
}

// parseLines appends the JSON values of b, one a line.
func parseLines[T any](b []byte, to *[]T) error {
	for lines := json.NewDecoder(bytes.NewReader(b)); lines.More(); {
		var v T
		if err := lines.Decode(&v); err != nil {
			return err
		}
		*to = append(*to, v)
	}
	return nil
}

// Unpack writes the objects below a folder, their keys as paths.
func (f *Fixture) Unpack(tb testing.TB, dir string) {
	tb.Helper()
	for key, raw := range f.Objects {
		file := filepath.Join(dir, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}
