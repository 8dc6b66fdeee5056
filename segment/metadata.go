package segment

import (
	"math"
	"strings"
)

// ParsePartitionMetadata reads a partition.metadata file, two lines that say the file's version and the topic's id.
// Versions above 0 and lines after the two are accepted, as Kafka does so that a downgrade works. The zero id is
// Corrupt.
func ParsePartitionMetadata(raw []byte) (UUID, error) {
	lines := lineReader{rest: raw}
	version, ok := metadataField(&lines, "version")
	if !ok {
		return UUID{}, corrupt("partition metadata", 0, "no version")
	}
	if _, ok := checkpointNumber(version, math.MaxInt32); !ok {
		return UUID{}, corrupt("partition metadata", 0, "version %.40q", version)
	}
	at := lines.at
	text, ok := metadataField(&lines, "topic_id")
	if !ok {
		return UUID{}, corrupt("partition metadata", at, "no topic id")
	}
	id, err := ParseUUID(text)
	if err != nil {
		return UUID{}, &Error{Kind: Corrupt, Op: "partition metadata", Position: at, Err: err}
	}
	if id.IsZero() {
		return UUID{}, corrupt("partition metadata", at, "zero topic id")
	}
	return id, nil
}

// metadataField reads "<name>: <value>".
func metadataField(lines *lineReader, name string) (string, bool) {
	line, _ := lines.next()
	value, ok := strings.CutPrefix(line, name+":")
	trimmed := strings.TrimLeft(value, " \t")
	return trimmed, ok && trimmed != value
}
