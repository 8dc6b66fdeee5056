package segment

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// maxCheckpointEntries bounds a checkpoint file. A broker holds a few thousand partitions, at most some hundred
// thousand; a lineage has one entry per leader change.
const maxCheckpointEntries = 1 << 20

// EpochStart is one line of a leader-epoch-checkpoint: the leader epoch and the first offset written in it.
type EpochStart struct {
	Epoch       int32
	StartOffset int64
}

// TopicPartition names a partition in an offset checkpoint file.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// ParseEpochCheckpoint reads a leader-epoch-checkpoint. Epochs and offsets both ascend, else it is Corrupt. A file
// without bytes, or with the version alone, has no entries, as Kafka reads it: a segment with records cannot have such
// a lineage, which is for the caller to notice.
func ParseEpochCheckpoint(raw []byte) ([]EpochStart, error) {
	var epochs []EpochStart
	last := EpochStart{Epoch: -1, StartOffset: -1}
	err := parseCheckpoint(raw, 2, func(fields []string) bool {
		epoch, ok := checkpointNumber(fields[0], math.MaxInt32)
		start, ok2 := checkpointNumber(fields[1], math.MaxInt64)
		e := EpochStart{Epoch: int32(epoch), StartOffset: start}
		if !ok || !ok2 || e.Epoch <= last.Epoch || e.StartOffset <= last.StartOffset {
			return false
		}
		epochs, last = append(epochs, e), e
		return true
	})
	if err != nil {
		return nil, err
	}
	return epochs, nil
}

// AppendEpochCheckpoint appends a whole leader-epoch-checkpoint file of epochs.
func AppendEpochCheckpoint(dst []byte, epochs []EpochStart) []byte {
	dst = append(dst, "0\n"...)
	dst = strconv.AppendInt(dst, int64(len(epochs)), 10)
	dst = append(dst, '\n')
	for _, e := range epochs {
		dst = strconv.AppendInt(dst, int64(e.Epoch), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, e.StartOffset, 10)
		dst = append(dst, '\n')
	}
	return dst
}

// ParseOffsetCheckpoint reads a checkpoint of a log directory with one offset per partition: the high watermarks
// (replication-offset-checkpoint), log starts, recovery points or cleaner offsets. Corrupt: an illegal topic name, a
// negative number, a partition named twice.
func ParseOffsetCheckpoint(raw []byte) (map[TopicPartition]int64, error) {
	offsets := make(map[TopicPartition]int64)
	err := parseCheckpoint(raw, 3, func(fields []string) bool {
		partition, ok := checkpointNumber(fields[1], math.MaxInt32)
		offset, ok2 := checkpointNumber(fields[2], math.MaxInt64)
		if !ok || !ok2 || !LegalTopic(fields[0]) {
			return false
		}
		p := TopicPartition{Topic: strings.Clone(fields[0]), Partition: int32(partition)}
		if _, twice := offsets[p]; twice {
			return false
		}
		offsets[p] = offset
		return true
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// parseCheckpoint reads the shape that Kafka's CheckpointFile writes: a line with the version, 0, a line with the
// number of entries, then a line per entry. Fields are parted by runs of blanks; a blank line is an error. entry
// reports whether it accepts its fields, which it must not keep.
func parseCheckpoint(raw []byte, fields int, entry func([]string) bool) error {
	lines := lineReader{rest: raw}
	version, ok := lines.next()
	if !ok {
		return nil
	}
	if v, ok := checkpointNumber(version, math.MaxInt32); !ok {
		return corrupt("checkpoint", 0, "version %.40q", version)
	} else if v != 0 {
		return fail(Unsupported, "checkpoint", 0, "version %d", v)
	}
	at := lines.at
	line, ok := lines.next()
	if !ok {
		return nil
	}
	count, ok := checkpointNumber(line, math.MaxInt32)
	if !ok {
		return corrupt("checkpoint", at, "number of entries %.40q", line)
	}
	if count > maxCheckpointEntries {
		return fail(TooLarge, "checkpoint", at, "%d entries, limit %d", count, maxCheckpointEntries)
	}
	var parts []string
	for range count {
		at = lines.at
		if line, ok = lines.next(); !ok {
			return fail(Truncated, "checkpoint", at, "%d entries announced", count)
		}
		// Kafka splits at blanks and finds an empty first field before leading ones.
		parts = append(parts[:0], strings.Fields(line)...)
		if len(parts) != fields || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") || !entry(parts) {
			return corrupt("checkpoint", at, "entry %.80q", line)
		}
	}
	if at = lines.at; len(lines.rest) > 0 {
		return corrupt("checkpoint", at, "lines after %d entries", count)
	}
	return nil
}

// checkpointNumber reads a decimal number from 0 to most.
func checkpointNumber(s string, most int64) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil && int64(n) <= most
}

// lineReader splits text at \n, \r\n and \r, like Java's BufferedReader; the last line may lack its end.
type lineReader struct {
	rest []byte
	at   int64 // position of rest
}

func (r *lineReader) next() (line string, ok bool) {
	if len(r.rest) == 0 {
		return "", false
	}
	end, skip := bytes.IndexAny(r.rest, "\r\n"), 1
	if end < 0 {
		end, skip = len(r.rest), 0
	} else if bytes.HasPrefix(r.rest[end:], []byte("\r\n")) {
		skip = 2
	}
	line = string(r.rest[:end])
	r.rest = r.rest[end+skip:]
	r.at += int64(end + skip)
	return line, true
}
