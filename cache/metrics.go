package cache

import "github.com/prometheus/client_golang/prometheus"

// Why a chunk left the cache.
const (
	byWindow    = iota // read-ahead that no reader has read, when it fell out of the window
	byFrequency        // ristretto refused it or chose it as victim
	byForce            // a slab was needed and ristretto was not asked: its coldest chunk, or all chunks of a split slab
	byDrop             // its segment is gone, or its bytes are damaged
	evictionReasons
)

// What became of a Prefetch.
const (
	prefetchStarted = iota
	prefetchPresent
	prefetchInFlight
	prefetchRefused
	prefetchResults
)

// metrics are the cache's counters. What can be read off the cache when asked is not counted twice.
type metrics struct {
	missed, joined    prometheus.Counter
	loads, loadErrors prometheus.Counter
	evictions         [evictionReasons]prometheus.Counter
	prefetch          [prefetchResults]prometheus.Counter
	waits, noSlab     prometheus.Counter
	pressure          prometheus.Counter
	waitSeconds       prometheus.Histogram
}

// newMetrics makes the metrics of c and registers them, unless reg is nil.
func newMetrics(reg prometheus.Registerer, c *Cache) (metrics, error) {
	var all []prometheus.Collector
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		m := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
		all = append(all, m)
		return m
	}
	gauge := func(name, help string, value func() float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	locked := func(value func() int64) func() float64 {
		return func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(value())
		}
	}

	const (
		lookups     = "coldtap_cache_lookups_total"
		lookupsHelp = "Chunks asked for, by where they came from: mem (in memory), miss (this request loaded it), " +
			"joined (another request was loading it)."
		evictionsHelp = "Chunks that left the cache: window (read-ahead that nobody read), frequency (refused or replaced " +
			"by the frequency policy), force (memory was needed at once), drop (segment deleted, or bytes damaged)."
		prefetchHelp = "Chunks asked for ahead of a reader: started, present (in memory already), " +
			"in_flight (being loaded already), refused (no slab to spare)."
	)
	level := func(l string) prometheus.Labels { return prometheus.Labels{"level": l} }
	all = append(all, prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: lookups, Help: lookupsHelp, ConstLabels: level("mem")}, c.hits))
	m := metrics{
		missed: counter(lookups, lookupsHelp, level("miss")),
		joined: counter(lookups, lookupsHelp, level("joined")),
		loads:  counter("coldtap_cache_loads_total", "Loads of chunks begun, second attempts included.", nil),
		loadErrors: counter("coldtap_cache_load_errors_total",
			"Loads of chunks that failed, those dropped because nobody wanted them any more left out.", nil),
		waits: counter("coldtap_cache_slab_waits_total", "Loads that had to wait for a slab.", nil),
		noSlab: counter("coldtap_cache_no_slab_total",
			"Requests refused because every slab of the chunk memory was in use.", nil),
		pressure: counter("coldtap_cache_pressure_total",
			"Times that readers were asked to let go of chunks because loads waited for a slab.", nil),
	}
	policies := [evictionReasons]string{byWindow: "window", byFrequency: "frequency", byForce: "force", byDrop: "drop"}
	for i, policy := range policies {
		m.evictions[i] = counter("coldtap_cache_evictions_total", evictionsHelp, prometheus.Labels{"policy": policy})
	}
	results := [prefetchResults]string{
		prefetchStarted: "started", prefetchPresent: "present", prefetchInFlight: "in_flight", prefetchRefused: "refused",
	}
	for i, result := range results {
		m.prefetch[i] = counter("coldtap_cache_prefetch_total", prefetchHelp, prometheus.Labels{"result": result})
	}
	m.waitSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "coldtap_cache_slab_wait_seconds",
		Help:    "How long loads waited for a slab.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s: a flight gives up after 60
	})
	all = append(all, m.waitSeconds)

	gauge("coldtap_cache_arena_bytes", "Chunk memory, the bound.",
		locked(func() int64 { return c.arena.total() }))
	gauge("coldtap_cache_arena_in_use_bytes", "Chunk memory in use: cached, held by readers, or being loaded into.",
		locked(func() int64 { return c.arena.used }))
	gauge("coldtap_cache_arena_loading_bytes", "Chunk memory that loads in flight hold.",
		locked(func() int64 { return c.reserved }))
	gauge("coldtap_cache_arena_pinned_bytes", "Chunk memory that readers hold, so that it cannot be evicted.",
		locked(c.pinnedLocked))
	gauge("coldtap_cache_slab_waiters", "Loads that wait for a slab now.",
		func() float64 { return float64(c.waiting.Load()) })
	gauge("coldtap_cache_flights", "Loads in flight or waiting.",
		func() float64 { return float64(c.flights.Load()) })

	if reg == nil {
		return m, nil
	}
	for i, collector := range all {
		if err := reg.Register(collector); err != nil {
			for _, done := range all[:i] {
				reg.Unregister(done)
			}
			return metrics{}, err
		}
	}
	return m, nil
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
