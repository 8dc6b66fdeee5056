package segment

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestParsePartitionDir(t *testing.T) {
	long := strings.Repeat("a", 249)
	for _, c := range []struct {
		name, topic string
		partition   int32
	}{
		{"plain-0", "plain", 0}, {"a-b-3", "a-b", 3}, {"__consumer_offsets-49", "__consumer_offsets", 49},
		{"a.b_C-9-2147483647", "a.b_C-9", math.MaxInt32}, {long + "-1", long, 1}, {"--0", "-", 0}, {"...-7", "...", 7},
	} {
		if topic, partition, ok := ParsePartitionDir(c.name); !ok || topic != c.topic || partition != c.partition {
			t.Errorf("%q: %q, %d, %t", c.name, topic, partition, ok)
		}
	}
	const hex = ".0123456789abcdef0123456789abcdef"
	for _, name := range []string{
		"", "-", "plain", "plain-", "-0", ".-0", "..-0", "plain-x", "plain-1x", "plain-00", "plain-01", "plain-+1",
		"plain-2147483648", "plain-0" + hex + "-delete", "plain-0" + hex + "-future", "plain-0" + hex + "-stray",
		"plain-0-", long + "a-1", "a/b-0", "../x-0", "a b-0", "ä-0", "a\x00-0", "plain-１", "remote-log-index-cache",
	} {
		if topic, partition, ok := ParsePartitionDir(name); ok || topic != "" || partition != 0 {
			t.Errorf("%q: %q, %d, %t", name, topic, partition, ok)
		}
	}
}

func TestFileNames(t *testing.T) {
	for _, c := range []struct {
		offset       int64
		suffix, name string
	}{
		{0, ".log", "00000000000000000000.log"}, {100, ".snapshot", "00000000000000000100.snapshot"},
		{math.MaxInt64, ".index", "09223372036854775807.index"}, {7, ".log.deleted", "00000000000000000007.log.deleted"},
	} {
		if got := FileName(c.offset, c.suffix); got != c.name {
			t.Errorf("FileName(%d, %q) = %q", c.offset, c.suffix, got)
		}
		if offset, suffix, ok := ParseFileName(c.name); !ok || offset != c.offset || suffix != c.suffix {
			t.Errorf("%q: %d, %q, %t", c.name, offset, suffix, ok)
		}
	}
	for _, name := range []string{
		"", ".log", "100.log", "0000000000000000100.log", "000000000000000000100.log", "00000000000000000100",
		"00000000000000000100.", "0000000000000000010x.log", "-0000000000000000100.log", "+0000000000000000100.log",
		"09223372036854775808.log", "99999999999999999999.log", "00000000000000000100-log", "0000000000_000000100.log",
		"leader-epoch-checkpoint", "partition.metadata", "٠٠٠٠٠٠٠٠٠٠.log",
	} {
		if offset, suffix, ok := ParseFileName(name); ok || offset != 0 || suffix != "" {
			t.Errorf("%q: %d, %q, %t", name, offset, suffix, ok)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"plain-0", "00000000000000000100.log", "a-0.0123456789abcdef0123456789abcdef-delete"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if topic, partition, ok := ParsePartitionDir(s); ok && fmt.Sprintf("%s-%d", topic, partition) != s {
			t.Fatalf("%q, %d", topic, partition)
		}
		if offset, suffix, ok := ParseFileName(s); ok && FileName(offset, suffix) != s {
			t.Fatalf("%d, %q", offset, suffix)
		}
	})
}
