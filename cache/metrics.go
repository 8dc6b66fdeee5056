package cache

import (
	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// Why a chunk left the cache: metrics.evictions is in this order.
const (
	byWindow    = iota // read-ahead that no reader has read, when it fell out of the window
	byFrequency        // ristretto refused it or chose it as victim
	byForce            // a slab was needed and ristretto was not asked: its coldest chunk, or all chunks of a split slab
	byDrop             // its segment is gone, or its bytes are damaged
)

// What became of a Prefetch: metrics.prefetch is in this order.
const (
	prefetchStarted = iota
	prefetchPresent
	prefetchInFlight
	prefetchRefused
)

// metrics are the cache's counters. What can be read off the cache when asked is not counted twice.
type metrics struct {
	missed, joined    prometheus.Counter
	loads, loadErrors prometheus.Counter
	evictions         []prometheus.Counter
	prefetch          []prometheus.Counter
	waits, noSlab     prometheus.Counter
	pressure          prometheus.Counter
	waitSeconds       prometheus.Histogram
}

// newMetrics makes the metrics of c and registers them, unless reg is nil.
func newMetrics(reg prometheus.Registerer, c *Cache) (metrics, error) {
	locked := func(value func() int64) func() int64 {
		return func() int64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return value()
		}
	}
	const (
		lookups     = "coldtap_cache_lookups_total"
		lookupsHelp = "Chunks asked for, by where they came from: mem (in memory), miss (this request loaded it), " +
			"joined (another request was loading it)."
	)
	s := metric.For(reg)
	metric.Add(s, prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: lookups, Help: lookupsHelp, ConstLabels: prometheus.Labels{"level": "mem"}}, c.hits))
	m := metrics{
		missed: s.Counter(lookups, lookupsHelp, "level", "miss"),
		joined: s.Counter(lookups, lookupsHelp, "level", "joined"),
		loads:  s.Counter("coldtap_cache_loads_total", "Loads of chunks begun, second attempts included."),
		loadErrors: s.Counter("coldtap_cache_load_errors_total",
			"Loads of chunks that failed, those dropped because nobody wanted them any more left out."),
		evictions: metric.Values(s.CounterVec("coldtap_cache_evictions_total",
			"Chunks that left the cache: window (read-ahead that nobody read), frequency (refused or replaced "+
				"by the frequency policy), force (memory was needed at once), drop (segment deleted, or bytes damaged).", "policy"),
			"window", "frequency", "force", "drop"),
		prefetch: metric.Values(s.CounterVec("coldtap_cache_prefetch_total",
			"Chunks asked for ahead of a reader: started, present (in memory already), "+
				"in_flight (being loaded already), refused (no slab to spare).", "result"),
			"started", "present", "in_flight", "refused"),
		waits: s.Counter("coldtap_cache_slab_waits_total", "Loads that had to wait for a slab."),
		noSlab: s.Counter("coldtap_cache_no_slab_total",
			"Requests refused because every slab of the chunk memory was in use."),
		pressure: s.Counter("coldtap_cache_pressure_total",
			"Times that readers were asked to let go of chunks because loads waited for a slab."),
		waitSeconds: s.Histogram("coldtap_cache_slab_wait_seconds", "How long loads waited for a slab.",
			prometheus.ExponentialBuckets(0.001, 4, 9)), // 1 ms to 65 s: a flight gives up after 60
	}
	metric.GaugeFunc(s, "coldtap_cache_arena_bytes", "Chunk memory, the bound.",
		locked(func() int64 { return c.arena.total() }))
	metric.GaugeFunc(s, "coldtap_cache_arena_in_use_bytes",
		"Chunk memory in use: cached, held by readers, or being loaded into.", locked(func() int64 { return c.arena.used }))
	metric.GaugeFunc(s, "coldtap_cache_arena_loading_bytes", "Chunk memory that loads in flight hold.",
		locked(func() int64 { return c.reserved }))
	metric.GaugeFunc(s, "coldtap_cache_arena_pinned_bytes",
		"Chunk memory that readers hold, so that it cannot be evicted.", locked(c.pinnedLocked))
	metric.GaugeFunc(s, "coldtap_cache_slab_waiters", "Loads that wait for a slab now.", c.waiting.Load)
	metric.GaugeFunc(s, "coldtap_cache_flights", "Loads in flight or waiting.", c.flights.Load)
	return m, s.Err()
}

// hits sums the look-ups answered from memory.
func (c *Cache) hits() float64 {
	var n uint64
	for i := range c.shards {
		n += c.shards[i].hits.Load()
	}
	return float64(n)
}

// pinnedLocked is what is in use and neither loading nor evictable. It looks at each cached chunk: 16,384 for 64 GiB,
// once a scrape.
func (c *Cache) pinnedLocked() int64 {
	pinned := c.arena.used - c.reserved
	for _, l := range []*list{&c.window, &c.frequent} {
		for ch := l.coldest; ch != nil; ch = ch.warmer {
			if ch.refs.Load() == 1 {
				pinned -= c.arena.size(ch.slot)
			}
		}
	}
	return pinned
}
