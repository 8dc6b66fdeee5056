package segment

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	maxTopicName   = 249 // Kafka's limit: with "-<partition>" and a suffix it stays below 255, a file name's
	fileNameDigits = 20
)

// ParsePartitionDir splits a partition directory's name at the last dash: "a-b-3" is partition 3 of topic "a-b". ok is
// false for -delete, -future and -stray directories and for anything else that Kafka would not create: the topic must
// be a legal name and the partition a number without leading zeros.
func ParsePartitionDir(name string) (topic string, partition int32, ok bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 || !LegalTopic(name[:dash]) {
		return "", 0, false
	}
	digits := name[dash+1:]
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != digits {
		return "", 0, false
	}
	return name[:dash], int32(n), true
}

// LegalTopic says whether Kafka could have created a topic of that name. It follows Kafka's Topic.validate. Such a name
// is safe as a path element and as part of an object key.
func LegalTopic(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > maxTopicName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// FileName gives a segment file's name, 20 digits and the suffix, e.g. FileName(100, ".log"). The offset is not
// negative; it is the segment's base offset, but for ".snapshot" that of the next segment.
func FileName(offset int64, suffix string) string {
	return fmt.Sprintf("%0*d%s", fileNameDigits, offset, suffix)
}

// ParseFileName splits "00000000000000000100.log" into 100 and ".log". The suffix starts with a dot and is whatever
// follows, e.g. ".log.deleted"; ok is false without one, and for anything but exactly 20 digits before it.
func ParseFileName(name string) (offset int64, suffix string, ok bool) {
	if len(name) < fileNameDigits+2 || name[fileNameDigits] != '.' {
		return 0, "", false
	}
	offset, err := strconv.ParseInt(name[:fileNameDigits], 10, 64)
	// ParseInt takes a sign, which would be a 21st character's place in disguise.
	if err != nil || name[0] == '+' || name[0] == '-' {
		return 0, "", false
	}
	return offset, name[fileNameDigits:], true
}
