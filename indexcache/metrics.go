package indexcache

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	hits, joins, loads prometheus.Counter
	failures           prometheus.Counter
	tooLarge           prometheus.Counter
	damaged            map[string]prometheus.Counter // by file
	seconds            prometheus.Histogram
}

// fileLabels are the names that segment.Files.IndexDamaged may have, and txnindex; others count as "other".
var fileLabels = []string{"index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "other"}

func newMetrics(reg prometheus.Registerer, c *Cache) *metrics {
	f := promauto.With(reg)
	requests := f.NewCounterVec(prometheus.CounterOpts{
		Name: "coldtap_indexcache_requests_total",
		Help: "Requests for a segment's indexes: hit = they were cached, joined = another request was loading them, loaded = this request began to load them.",
	}, []string{"result"})
	m := &metrics{
		hits:  requests.WithLabelValues("hit"),
		joins: requests.WithLabelValues("joined"),
		loads: requests.WithLabelValues("loaded"),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "coldtap_indexcache_load_failures_total",
			Help: "Loads of a segment's indexes that failed.",
		}),
		tooLarge: f.NewCounter(prometheus.CounterOpts{
			Name: "coldtap_indexcache_too_large_total",
			Help: "Loaded indexes that were served but not kept because they are larger than the cache has room for.",
		}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "coldtap_indexcache_load_seconds",
			Help:    "How long loads of a segment's indexes took, failed ones included.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 15),
		}),
		damaged: make(map[string]prometheus.Counter),
	}
	damaged := f.NewCounterVec(prometheus.CounterOpts{
		Name: "coldtap_indexcache_damaged_files_total",
		Help: "Damaged small files of segments, by file. A damaged index makes reads slower, a damaged txnindex makes read_committed fail.",
	}, []string{"file"})
	for _, file := range fileLabels {
		m.damaged[file] = damaged.WithLabelValues(file)
	}
	for part, bytes := range map[string]func() int64{
		"window":   c.windowBytes,
		"frequent": c.policy.frequentBytes,
		"loading":  c.loading.InUse,
	} {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "coldtap_indexcache_bytes",
			Help:        "Memory of the index cache, by part: window = the latest entries, frequent = those asked for often, loading = reserved by loads.",
			ConstLabels: prometheus.Labels{"part": part},
		}, func() float64 { return float64(bytes()) })
	}
	return m
}

func (m *metrics) countDamaged(damaged []string) {
	for _, file := range damaged {
		counter := m.damaged[file]
		if counter == nil {
			counter = m.damaged["other"]
		}
		counter.Inc()
	}
}

func (c *Cache) windowBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policy.windowBytes
}
