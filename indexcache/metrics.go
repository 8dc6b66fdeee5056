package indexcache

import (
	"slices"

	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	hits, joins, loads prometheus.Counter
	failures           prometheus.Counter
	tooLarge           prometheus.Counter
	damaged            *prometheus.CounterVec
	seconds            prometheus.Histogram
}

// fileLabels are the names that segment.Files.IndexDamaged may have, and txnindex; others count as "other".
var fileLabels = []string{"index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "other"}

func newMetrics(reg prometheus.Registerer, c *Cache) *metrics {
	s := metric.For(reg)
	requests := s.CounterVec("coldtap_indexcache_requests_total",
		"Requests for a segment's indexes: hit = they were cached, joined = another request was loading them, loaded = this request began to load them.",
		"result")
	m := &metrics{
		hits:     requests.WithLabelValues("hit"),
		joins:    requests.WithLabelValues("joined"),
		loads:    requests.WithLabelValues("loaded"),
		failures: s.Counter("coldtap_indexcache_load_failures_total", "Loads of a segment's indexes that failed."),
		tooLarge: s.Counter("coldtap_indexcache_too_large_total",
			"Loaded indexes that were served but not kept because they are larger than the cache has room for."),
		seconds: s.Histogram("coldtap_indexcache_load_seconds",
			"How long loads of a segment's indexes took, failed ones included.", prometheus.ExponentialBuckets(0.002, 2, 15)),
		damaged: s.CounterVec("coldtap_indexcache_damaged_files_total",
			"Damaged small files of segments, by file. A damaged index makes reads slower, a damaged txnindex makes read_committed fail.",
			"file"),
	}
	metric.Values(m.damaged, fileLabels...)
	for part, bytes := range map[string]func() int64{
		"window":   c.windowBytes,
		"frequent": c.policy.frequentBytes,
		"loading":  c.loading.InUse,
	} {
		metric.GaugeFunc(s, "coldtap_indexcache_bytes",
			"Memory of the index cache, by part: window = the latest entries, frequent = those asked for often, loading = reserved by loads.",
			bytes, "part", part)
	}
	s.Must()
	return m
}

func (m *metrics) countDamaged(damaged []string) {
	for _, file := range damaged {
		if !slices.Contains(fileLabels, file) {
			file = "other"
		}
		m.damaged.WithLabelValues(file).Inc()
	}
}

func (c *Cache) windowBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policy.windowBytes
}
