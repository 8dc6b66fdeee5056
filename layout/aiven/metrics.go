package aiven

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	manifests prometheus.Counter
	opened    prometheus.Counter
	reused    prometheus.Counter
	damaged   prometheus.Counter
}

func newMetrics(r prometheus.Registerer, space *workspace) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "coldtap_layout_" + name, Help: help})
	}
	m := &metrics{
		manifests: counter("manifest_loads_total", "Manifests of segments that were read from the store."),
		opened:    counter("chunks_opened_total", "Stored chunks that were decrypted and decompressed."),
		reused:    counter("chunks_reused_total", "Parts of stored chunks that were served from a chunk still open."),
		damaged:   counter("chunks_damaged_total", "Reads that failed because a stored chunk could not be decrypted or decompressed."),
	}
	if r != nil {
		r.MustRegister(m.manifests, m.opened, m.reused, m.damaged,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "coldtap_layout_memory_bytes",
				Help: "Memory in buffers for stored and open chunks, blank ones included.",
			}, func() float64 { return float64(space.inUse()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "coldtap_layout_memory_limit_bytes",
				Help: "The most that coldtap_layout_memory_bytes can be.",
			}, func() float64 { return float64(space.limit) }))
	}
	return m
}
