package inspect

import (
	"strconv"
	"strings"

	"coldtap/segment"
	"coldtap/tier"
)

// objectKind is which of the native layout's objects a key has the form of.
type objectKind uint8

const (
	foreign objectKind = iota
	logObject
	metaObject
	startObject
)

// objectKey is a key taken apart. Whether it is right in every character is for who builds it again from the segment.
type objectKey struct {
	kind      objectKind
	topic     string
	partition tier.PartitionID
	segment   segment.UUID
}

// parseKey takes <topic>-<topic id>/<partition>/<20 digits>-<segment id>.log, .meta, or start apart. Ids may hold dashes,
// so that they are found by their length.
func parseKey(key string) (k objectKey) {
	const id = 22
	parts := strings.Split(key, "/")
	if len(parts) != 3 || len(parts[0]) < 1+1+id || parts[0][len(parts[0])-id-1] != '-' {
		return k
	}
	topic, err := segment.ParseUUID(parts[0][len(parts[0])-id:])
	if err != nil {
		return k
	}
	n, err := strconv.ParseUint(parts[1], 10, 31)
	if err != nil {
		return k
	}
	k.topic, k.partition = parts[0][:len(parts[0])-id-1], tier.PartitionID{Topic: topic, Partition: int32(n)}
	if parts[2] == "start" {
		k.kind = startObject
		return k
	}
	stem, kind := parts[2], foreign
	if s, ok := strings.CutSuffix(stem, ".log"); ok {
		stem, kind = s, logObject
	} else if s, ok := strings.CutSuffix(stem, ".meta"); ok {
		stem, kind = s, metaObject
	}
	if kind == foreign || len(stem) != 20+1+id || stem[20] != '-' || baseOf(stem) < 0 {
		return objectKey{}
	}
	if k.segment, err = segment.ParseUUID(stem[21:]); err != nil {
		return objectKey{}
	}
	k.kind = kind
	return k
}
