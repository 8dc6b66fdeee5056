package config

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// minSlabs is how many chunks the arena must hold for readers to make progress: one being sent, two being read ahead
// and one spare.
const minSlabs = 4

// hostName is a DNS name, or one of a hosts file: labels of letters, digits, - and _, with dots between them.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// Problem is something wrong with the value of a key.
type Problem struct {
	Key string
	Err error
}

func (p *Problem) Error() string { return p.Key + ": " + p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// Validate lists everything that is wrong.
func (c *Config) Validate() (problems []*Problem) {
	bad := func(key, format string, args ...any) {
		problems = append(problems, &Problem{key, fmt.Errorf(format, args...)})
	}
	wrong := make(map[string]bool)
	for k := range keys(reflect.ValueOf(c).Elem(), "") {
		if err := k.check(); err != nil {
			wrong[k.path] = true
			bad(k.path, "%w", err)
		}
	}
	c.validateListeners(bad)
	c.Store.validate(bad)
	c.validateMetadata(bad)
	if !wrong["layout.kind"] {
		c.validateWriter(bad)
	}
	if !wrong["cache.memory"] && !wrong["cache.chunk"] && c.Cache.Memory < minSlabs*c.Cache.Chunk {
		bad("cache.memory", "%s holds fewer than %d chunks of %s; raise it or lower cache.chunk", c.Cache.Memory, minSlabs, c.Cache.Chunk)
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
	return problems
}

// validateListeners checks the addresses, and refuses one that other machines can reach unless auth.allow_anonymous is
// set.
func (c *Config) validateListeners(bad func(key, format string, args ...any)) {
	for _, l := range []struct{ key, address string }{{"listen", c.Listen}, {"admin", c.Admin}} {
		host, port, err := net.SplitHostPort(l.address)
		if err != nil {
			bad(l.key, "%q is not host:port", l.address)
			continue
		}
		if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			bad(l.key, "%q has no valid port", l.address)
		}
		if !c.Auth.AllowAnonymous && !loopback(host) {
			bad(l.key, "%q can be reached from other machines, and there is no authentication: set auth.allow_anonymous to true if everyone who reaches it may read everything, or take 127.0.0.1", l.address)
		}
	}
	if c.Listen == c.Admin && !strings.HasSuffix(c.Listen, ":0") {
		bad("admin", "must differ from listen (%s)", c.Listen)
	}
	for _, name := range c.Hosts {
		if !hostName.MatchString(name) {
			bad("hosts", "%q is not a host name (no scheme, no port)", name)
		}
	}
}

// loopback tells whether a listener on a host is out of reach for other machines. Names other than localhost are not
// looked up.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}
