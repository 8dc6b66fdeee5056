package config

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// headroom is what the process may use above its configured bound: goroutine stacks, connection buffers, the garbage
// that the collector has not reached yet.
const headroom = 192 << 20

// segmentMemory is what a live segment takes of the heap, in bytes.
const segmentMemory = 300

// operatorsLimit is GOMEMLIMIT's, math.MaxInt64 when it is not set.
var operatorsLimit = debug.SetMemoryLimit(-1)

// SetMemoryLimit gives the Go runtime a soft limit for the heap, so that garbage does not double what decoding, indexes
// and the metadata of so many live segments hold. The chunk arena is mapped outside the Go heap and does not count.
// GOMEMLIMIT, when set by the operator, wins.
func (c *Config) SetMemoryLimit(segments int) {
	if operatorsLimit == math.MaxInt64 {
		debug.SetMemoryLimit(int64(c.Cache.IndexMemory+c.Limits.DecodeMemory) + segmentMemory*int64(segments) + headroom)
	}
}

// autoShare is the part of the container's memory that "auto" gives to the chunk arena.
const autoShare = 0.6

// resolve replaces values that depend on the machine.
func (c *Config) resolve() {
	if c.Cache.Memory == Auto {
		limit := memoryLimit()
		if limit == 0 {
			limit = assumedMemory
		}
		c.Cache.Memory = Bytes(autoShare*float64(limit)) &^ (1<<20 - 1)
	}
}

// memoryLimit is the container's memory limit (cgroup v2, then v1), or the machine's memory; 0 if neither can be read.
func memoryLimit() int64 {
	limit := machineMemory()
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil && n > 0 && (n < limit || limit == 0) {
			return n
		}
	}
	return limit
}

// assumedMemory is the memory of a machine whose memory cannot be read.
const assumedMemory = 2 << 30

func machineMemory() int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
