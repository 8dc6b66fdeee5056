package aiven

import (
	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	manifests prometheus.Counter
	opened    prometheus.Counter
	reused    prometheus.Counter
	damaged   prometheus.Counter
}

func newMetrics(r prometheus.Registerer, space *workspace) *metrics {
	s := metric.For(r)
	m := &metrics{
		manifests: s.Counter("coldtap_layout_manifest_loads_total", "Manifests of segments that were read from the store."),
		opened:    s.Counter("coldtap_layout_chunks_opened_total", "Stored chunks that were decrypted and decompressed."),
		reused: s.Counter("coldtap_layout_chunks_reused_total",
			"Parts of stored chunks that were served from a chunk still open."),
		damaged: s.Counter("coldtap_layout_chunks_damaged_total",
			"Reads that failed because a stored chunk could not be decrypted or decompressed."),
	}
	metric.GaugeFunc(s, "coldtap_layout_memory_bytes",
		"Memory in buffers for stored and open chunks, blank ones included.", space.inUse)
	metric.GaugeFunc(s, "coldtap_layout_memory_limit_bytes",
		"The most that coldtap_layout_memory_bytes can be.", func() int64 { return space.limit })
	s.Must()
	return m
}
