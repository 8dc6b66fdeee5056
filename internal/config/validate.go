package config

import (
	"fmt"
	"net"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// minSlabs is how many chunks the arena must hold for readers to make progress: one being sent, two being read ahead
// and one spare.
const minSlabs = 4

// hostName is a DNS name, or one of a hosts file: labels of letters, digits, - and _, with dots between them.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// Validate lists everything that is wrong.
func (c *Config) Validate() (problems []error) {
	bad := func(key, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...)))
	}
	address := func(key, addr string) {
		if _, port, err := net.SplitHostPort(addr); err != nil {
			bad(key, "%q is not host:port", addr)
		} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			bad(key, "%q has no valid port", addr)
		}
	}
	address("listen", c.Listen)
	address("admin", c.Admin)
	if c.Listen == c.Admin && !strings.HasSuffix(c.Listen, ":0") {
		bad("admin", "must differ from listen (%s)", c.Listen)
	}
	for _, name := range c.Hosts {
		if !hostName.MatchString(name) {
			bad("hosts", "%q is not a host name (no scheme, no port)", name)
		}
	}
	c.Store.validate(bad)
	if c.Store.Price.Per1000Gets < 0 || c.Store.Price.PerGiB < 0 {
		bad("store.price", "must not be negative")
	}
	c.validateMetadata(bad)
	if c.Cache.Chunk < 4<<10 || c.Cache.Chunk > 256<<20 {
		bad("cache.chunk", "%s is not within 4KiB and 256MiB", c.Cache.Chunk)
	} else if c.Cache.Memory < minSlabs*c.Cache.Chunk {
		bad("cache.memory", "%s holds fewer than %d chunks of %s; raise it or lower cache.chunk", c.Cache.Memory, minSlabs, c.Cache.Chunk)
	}
	positive := func(key string, v int64) {
		if v <= 0 {
			bad(key, "must be above 0")
		}
	}
	positive("cache.index_memory", int64(c.Cache.IndexMemory))
	positive("reader.threads", int64(c.Reader.Threads))
	positive("reader.max_pending", int64(c.Reader.MaxPending))
	positive("reader.queue_timeout", int64(c.Reader.QueueTimeout))
	positive("limits.max_response_bytes", int64(c.Limits.MaxResponseBytes))
	positive("limits.stall_timeout", int64(c.Limits.StallTimeout))
	if c.Limits.DecodeMemory < 1<<20 {
		bad("limits.decode_memory", "%s is below 1MiB", c.Limits.DecodeMemory)
	}
	if c.Offload.Rate < 0 {
		bad("offload.rate", "must be 0 (unlimited) or above")
	}
	globs := func(key string, patterns []string) {
		for _, g := range patterns {
			if _, err := path.Match(g, ""); err != nil {
				bad(key, "%q is not a glob (* and ? and [abc])", g)
			}
		}
	}
	globs("offload.topics.include", c.Offload.Topics.Include)
	globs("offload.topics.exclude", c.Offload.Topics.Exclude)
	return append(problems, c.unbuilt()...)
}

// unbuilt lists settings that would turn on what this version does not have. Their keys are accepted at their "off"
// values; anything else is refused, since a limit or a cache that is configured and silently absent would surprise.
func (c *Config) unbuilt() (problems []error) {
	for _, s := range []struct {
		key string
		on  bool
	}{
		{"kafka.listen", c.Kafka.Listen != ""},
		{"cache.disk.path", c.Cache.Disk.Path != ""},
		{"limits.store_gets_per_second", c.Limits.StoreGetsPerSecond != 0},
		{"limits.bytes_per_second", c.Limits.BytesPerSecond != 0},
	} {
		if s.on {
			problems = append(problems, fmt.Errorf("%s: is not in this version; leave it out", s.key))
		}
	}
	for _, r := range c.Offload.Retention {
		if r.Time != 0 || r.Bytes != 0 {
			problems = append(problems, fmt.Errorf("offload.retention: is not in this version (nothing in the tier is ever deleted); leave %q at 0", r.Topics))
		}
	}
	return problems
}

// autoShare is the part of the container's memory that "auto" gives to the chunk arena.
const autoShare = 0.6

// resolve replaces values that depend on the machine.
func (c *Config) resolve() {
	if c.Cache.Memory == Auto {
		c.Cache.Memory = Bytes(autoShare*float64(memoryLimit())) &^ (1<<20 - 1)
	}
}

// memoryLimit is the container's memory limit (cgroup v2, then v1), or the machine's memory.
func memoryLimit() int64 {
	limit := machineMemory()
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil && n > 0 && n < limit {
			return n
		}
	}
	return limit
}

// fallbackMemory is assumed where the machine does not tell.
const fallbackMemory = 2 << 30

func machineMemory() int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fallbackMemory
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return fallbackMemory
}
