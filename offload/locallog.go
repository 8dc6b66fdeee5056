package offload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"coldtap/internal/readlimit"
	"coldtap/segment"
	"coldtap/tier"
)

// localSegment is a segment of the broker's log, as the directory shows it.
type localSegment struct {
	base   int64
	next   int64 // the next segment's base; -1 for the active segment
	size   int64 // of the log
	hasLog bool  // false when only index files are left
	// file is the size of the log's file: more than size where the active segment is cut to be sealed.
	file   int64
	sealed bool // it is the active segment, which is copied as if it were closed
}

func (s *localSegment) end() int64 { return s.next - 1 }

func (s *localSegment) logName() string { return segment.FileName(s.base, ".log") }

// localLog is one partition's log in the log directory while it is planned and copied.
type localLog struct {
	*partitionDir
	root   *os.Root
	report *PartitionReport

	id        tier.PartitionID
	segments  []localSegment // ascending; the last one is active
	snapshots []int64        // the offsets of the producer snapshots, ascending
	lineage   []segment.EpochStart
	// epochsFrom is where the broker's own lineage begins, -1 when it has none; below it, lineage is the tier's.
	epochsFrom int64
	// highWatermark and logStart are the checkpointed ones.
	highWatermark, logStart int64
	// compacted says that the cleaner has compacted this log, so that missing offsets are legal.
	compacted bool

	// What the catalog holds: whether there is anything of the partition, the partition, the tiered end (behind holes),
	// and the holes.
	known     bool
	recorded  *tier.Partition
	tieredEnd int64
	holes     []tier.Hole

	// The plan: the eligible segments, and the offset from which on the partition is not in the tier. inHoles are segments
	// below that offset that are not in the tier either: they are copied if they are sound by now.
	planned  bool
	eligible []*localSegment
	inHoles  []*localSegment
	active   *localSegment // to be sealed, as far as the last stable offset allows
	copyFrom int64
	stopped  bool // a reason was counted
}

// fault is what stops a partition, or leaves a part of it.
type fault struct {
	reason Reason
	err    error
}

func (f *fault) Error() string { return string(f.reason) + ": " + f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// faultOf gives the reason that fits an error met while reading the log directory.
func faultOf(err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	var d *damage
	if errors.As(err, &d) {
		return &fault{Damaged, err}
	}
	return &fault{Unreadable, err}
}

// open opens the directory and reads the files that describe the partition. Directories are open only while they are
// needed: a log directory may have 10,000 of them.
func (p *localLog) open() error {
	root, err := p.dir.root.OpenRoot(p.name)
	if err != nil {
		return err
	}
	p.root = root
	if err := p.readTopicID(); err != nil {
		return &fault{NoTopicID, err}
	}
	if err := p.readCheckpoints(); err != nil {
		return err
	}
	if err := p.findSegments(); err != nil {
		return err
	}
	return p.readLineage()
}

// reopen opens the directory again, for the copy.
func (p *localLog) reopen() (err error) {
	p.root, err = p.dir.root.OpenRoot(p.name)
	return err
}

func (p *localLog) close() {
	if p.root != nil {
		p.root.Close()
		p.root = nil
	}
}

func (p *localLog) readTopicID() error {
	raw, err := readSmall(p.root, "partition.metadata", 1<<10)
	if err != nil {
		return err
	}
	topic, err := segment.ParsePartitionMetadata(raw)
	if err != nil {
		return fmt.Errorf("partition.metadata: %w", err)
	}
	p.id = tier.PartitionID{Topic: topic, Partition: p.partition}
	p.report.TopicID = topic
	return nil
}

func (p *localLog) readCheckpoints() error {
	key := segment.TopicPartition{Topic: p.topic, Partition: p.partition}
	for _, err := range []error{p.dir.highWatermarksErr, p.dir.logStartsErr} {
		if err != nil {
			return &fault{Damaged, err}
		}
	}
	highWatermark, ok := p.dir.highWatermarks[key]
	if !ok {
		return &fault{NoHighWatermark, errors.New("replication-offset-checkpoint does not name the partition")}
	}
	p.highWatermark = highWatermark
	p.logStart = p.dir.logStarts[key]
	_, p.compacted = p.dir.cleaned[key]
	return nil
}

// findSegments lists the segments. An index file whose log is missing stands for a segment whose log was lost; below
// the first log it is left from an interrupted deletion.
func (p *localLog) findSegments() error {
	entries, err := fs.ReadDir(p.root.FS(), ".")
	if err != nil {
		return err
	}
	logs := make(map[int64]int64)
	first := int64(-1)
	var bases, orphans []int64
	for _, e := range entries {
		offset, suffix, ok := segment.ParseFileName(e.Name())
		if !ok {
			if err := p.checkOtherFile(e.Name()); err != nil {
				return err
			}
			continue
		}
		switch suffix {
		case ".log":
			info, err := e.Info()
			if err != nil {
				return err
			}
			logs[offset] = info.Size()
			if first < 0 || offset < first {
				first = offset
			}
			bases = append(bases, offset)
		case ".index", ".timeindex", ".txnindex":
			orphans = append(orphans, offset)
		case ".snapshot":
			p.snapshots = append(p.snapshots, offset)
		default:
			if err := p.checkOtherFile(e.Name()); err != nil {
				return err
			}
		}
	}
	for _, offset := range orphans {
		if _, ok := logs[offset]; ok {
			continue
		}
		if first < 0 || offset < first {
			p.note(fmt.Sprintf("index files at offset %d without a log, below the first one", offset))
			continue
		}
		bases = append(bases, offset)
	}
	slices.Sort(bases)
	slices.Sort(p.snapshots)
	for i, base := range slices.Compact(bases) {
		if i > 0 {
			p.segments[i-1].next = base
		}
		size, ok := logs[base]
		p.segments = append(p.segments, localSegment{base: base, next: -1, size: size, file: size, hasLog: ok})
	}
	return nil
}

// checkOtherFile notes a file that belongs to no segment, or says why the partition cannot be copied with it.
func (p *localLog) checkOtherFile(name string) error {
	switch {
	case name == "partition.metadata" || name == "leader-epoch-checkpoint":
		return nil
	case strings.HasSuffix(name, ".swap"):
		// The cleaner's result is complete, but files that it replaces are still there: only a broker's start completes the
		// swap.
		return damaged(name, "the broker died while it swapped compacted segments in: start it once, and stop it")
	}
	p.note("ignored " + name)
	return nil
}

func (p *localLog) note(text string) { p.report.Notes = append(p.report.Notes, text) }

func (p *localLog) readLineage() error {
	const name = "leader-epoch-checkpoint"
	raw, err := readSmall(p.root, name, checkpointLimit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, readlimit.ErrTooLarge) {
		return damaged(name, "%v", err)
	}
	if err != nil {
		return err
	}
	if p.lineage, err = segment.ParseEpochCheckpoint(raw); err != nil {
		return damaged(name, "%v", err)
	}
	return nil
}

// openLog opens a segment's log and makes sure that it is the file that was listed.
func (p *localLog) openLog(s *localSegment) (*os.File, fs.FileInfo, error) {
	if !s.hasLog {
		return nil, nil, damaged(s.logName(), "missing, but its index files are there")
	}
	f, info, err := openRegular(p.root, s.logName())
	if err != nil {
		return nil, nil, err
	}
	if info.Size() != s.file {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %d bytes, but %d when the directory was listed: another process writes it",
			s.logName(), info.Size(), s.file)
	}
	return f, info, nil
}

// segmentAt gives the index of the segment that holds an offset, which is at least the first base.
func (p *localLog) segmentAt(offset int64) int {
	i, found := slices.BinarySearchFunc(p.segments, offset, func(s localSegment, o int64) int {
		switch {
		case s.base < o:
			return -1
		case s.base > o:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	return i
}

// segmentEpochs gives the leader epochs within [base, next), the first one from base on if it began before.
func segmentEpochs(lineage []segment.EpochStart, base, next int64) []segment.EpochStart {
	var epochs []segment.EpochStart
	for _, e := range lineage {
		if e.StartOffset >= next {
			break
		}
		if e.StartOffset <= base {
			e.StartOffset = base
			epochs = epochs[:0]
		}
		epochs = append(epochs, e)
	}
	return epochs
}

// epochsBelow gives the part of a lineage that begins below an offset.
func epochsBelow(lineage []segment.EpochStart, offset int64) []segment.EpochStart {
	n := 0
	for n < len(lineage) && lineage[n].StartOffset < offset {
		n++
	}
	return lineage[:n:n]
}

// mergeLineage joins the broker's own lineage below its high watermark with the tier's, which reaches further at both
// ends: the broker cuts its lineage at its log start, and may lag behind the replica that was copied before. Where the
// two disagree, the broker's counts.
func mergeLineage(recorded, local []segment.EpochStart, highWatermark int64) []segment.EpochStart {
	if len(local) == 0 {
		return recorded
	}
	first := local[0]
	var lineage []segment.EpochStart
	for _, e := range recorded {
		if e.StartOffset >= first.StartOffset || e.Epoch >= first.Epoch {
			if e.Epoch == first.Epoch && e.StartOffset < first.StartOffset {
				first.StartOffset = e.StartOffset
			}
			break
		}
		lineage = append(lineage, e)
	}
	lineage = append(append(lineage, first), local[1:]...)
	if below := epochsBelow(recorded, highWatermark); slices.Equal(below, lineage) {
		return recorded
	}
	return lineage
}
