package offload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"coldtap/internal/readlimit"
	"coldtap/segment"
)

// checkpointLimit bounds a checkpoint file: 64 MiB is a million partitions.
const checkpointLimit = 64 << 20

// logDir is one of the broker's log directories, with what its own files say.
type logDir struct {
	path      string
	root      *os.Root
	clusterID string
	brokerID  int32

	// Offset checkpoints. The error of one that cannot be read stops every partition of the directory.
	highWatermarks    map[segment.TopicPartition]int64
	highWatermarksErr error
	logStarts         map[segment.TopicPartition]int64
	logStartsErr      error
	cleaned           map[segment.TopicPartition]int64 // only a hint that the cleaner was there, hence never an error
}

// openLogDirs opens all directories of one broker. On success the caller closes them.
func openLogDirs(paths []string) (dirs []*logDir, err error) {
	defer func() {
		if err != nil {
			closeLogDirs(dirs)
			dirs = nil
		}
	}()
	var seen []fs.FileInfo
	for _, path := range paths {
		d, err := openLogDir(path)
		if err != nil {
			return dirs, err
		}
		dirs = append(dirs, d)
		info, err := d.root.Stat(".")
		if err != nil {
			return dirs, &Error{Kind: NotLogDir, Op: "open", Dir: path, Err: err}
		}
		for i, other := range seen {
			if os.SameFile(info, other) {
				return dirs, &Error{Kind: BadConfig, Op: "open", Dir: path,
					Err: fmt.Errorf("the same directory as %s", dirs[i].path)}
			}
		}
		seen = append(seen, info)
		if first := dirs[0]; d.clusterID != first.clusterID || d.brokerID != first.brokerID {
			return dirs, &Error{Kind: NotLogDir, Op: "open", Dir: path, Err: fmt.Errorf(
				"belongs to broker %d of cluster %s, but %s to broker %d of cluster %s",
				d.brokerID, d.clusterID, first.path, first.brokerID, first.clusterID)}
		}
	}
	return dirs, nil
}

func closeLogDirs(dirs []*logDir) {
	for _, d := range dirs {
		d.root.Close()
	}
}

func openLogDir(path string) (*logDir, error) {
	fail := func(kind Kind, op string, err error) (*logDir, error) {
		return nil, &Error{Kind: kind, Op: op, Dir: path, Err: err}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return fail(NotLogDir, "open", err)
	}
	d := &logDir{path: path, root: root}
	if err := d.checkLock(); err != nil {
		root.Close()
		return nil, err
	}
	if d.clusterID, d.brokerID, err = readIdentity(root); err != nil {
		root.Close()
		return fail(NotLogDir, "open", fmt.Errorf("meta.properties: %w", err))
	}
	// Kafka writes this one every 5 seconds from its first start on, so that a missing one is damage.
	d.highWatermarks, d.highWatermarksErr = readOffsets(root, "replication-offset-checkpoint")
	d.logStarts, d.logStartsErr = readOffsets(root, "log-start-offset-checkpoint")
	if errors.Is(d.logStartsErr, fs.ErrNotExist) {
		d.logStartsErr = nil
	}
	d.cleaned, _ = readOffsets(root, "cleaner-offset-checkpoint")
	return d, nil
}

// checkLock fails with InUse while a broker has the directory.
func (d *logDir) checkLock() error {
	held, owner, err := brokerHolds(d.root)
	if err != nil {
		return &Error{Kind: NotLogDir, Op: "probe the lock of", Dir: d.path, Err: err}
	}
	if held {
		return &Error{Kind: InUse, Op: "open", Dir: d.path,
			Err: fmt.Errorf("a running broker holds its lock (%s): stop it first", owner)}
	}
	return nil
}

func readIdentity(root *os.Root) (clusterID string, brokerID int32, err error) {
	raw, err := readSmall(root, "meta.properties", 1<<20)
	if err != nil {
		return "", 0, err
	}
	props, err := segment.ParseProperties(raw)
	if err != nil {
		return "", 0, err
	}
	clusterID = props["cluster.id"]
	if clusterID == "" {
		return "", 0, errors.New("no cluster.id")
	}
	// Version 1 (KRaft) has node.id, version 0 broker.id.
	id, ok := props["node.id"]
	if !ok {
		id, ok = props["broker.id"]
	}
	n, err := strconv.ParseInt(id, 10, 32)
	if !ok || err != nil || n < 0 {
		return "", 0, fmt.Errorf("no usable node.id or broker.id (%q)", id)
	}
	return clusterID, int32(n), nil
}

func readOffsets(root *os.Root, name string) (map[segment.TopicPartition]int64, error) {
	raw, err := readSmall(root, name, checkpointLimit)
	if err != nil {
		return nil, err
	}
	offsets, err := segment.ParseOffsetCheckpoint(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return offsets, nil
}

// readSmall reads a regular file of at most limit bytes (readlimit.ErrTooLarge). The result is never nil without an
// error.
func readSmall(root *os.Root, name string, limit int64) ([]byte, error) {
	f, _, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := readlimit.All(f, limit)
	if errors.Is(err, readlimit.ErrTooLarge) {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return raw, err
}

// openRegular opens a regular file for reading; a pipe in its place must not block the run.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, damaged(name, "not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// partitionDir is where a partition lies.
type partitionDir struct {
	dir       *logDir
	name      string // of the directory within dir
	topic     string
	partition int32
}

func (p *partitionDir) path() string { return filepath.Join(p.dir.path, p.name) }

// findPartitions lists the live partitions of all directories, ordered by topic and partition, and the directories
// that are something else.
func findPartitions(dirs []*logDir) ([]*partitionDir, []Skipped, error) {
	var found []*partitionDir
	var skipped []Skipped
	for _, d := range dirs {
		entries, err := fs.ReadDir(d.root.FS(), ".")
		if err != nil {
			return nil, nil, &Error{Kind: NotLogDir, Op: "list", Dir: d.path, Err: err}
		}
		for _, e := range entries {
			if e.Type().IsRegular() {
				continue
			}
			topic, partition, ok := segment.ParsePartitionDir(e.Name())
			if !ok || !e.IsDir() {
				skipped = append(skipped, Skipped{Path: filepath.Join(d.path, e.Name()), Reason: NotPartition})
				continue
			}
			found = append(found, &partitionDir{dir: d, name: e.Name(), topic: topic, partition: partition})
		}
	}
	slices.SortStableFunc(found, func(a, b *partitionDir) int {
		if a.topic != b.topic {
			if a.topic < b.topic {
				return -1
			}
			return 1
		}
		return int(a.partition) - int(b.partition)
	})
	for i := 1; i < len(found); i++ {
		if a, b := found[i-1], found[i]; a.topic == b.topic && a.partition == b.partition {
			return nil, nil, &Error{Kind: Conflict, Op: "list", Dir: b.dir.path, Err: fmt.Errorf(
				"partition %s-%d is in %s too: it is not clear which one to keep", a.topic, a.partition, a.dir.path)}
		}
	}
	return found, skipped, nil
}
