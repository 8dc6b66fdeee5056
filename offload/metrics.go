package offload

import (
	"errors"

	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// What became of a segment that was worked on.
const (
	resultCopied  = "copied"
	resultDamaged = "damaged"
	resultHole    = "hole"
	resultFailed  = "failed"
)

type metrics struct {
	segments *prometheus.CounterVec
	bytes    prometheus.Counter
	stopped  *prometheus.CounterVec
	rebuilt  *prometheus.CounterVec
}

// newMetrics registers the metrics, or finds those that an earlier run registered: each run of one process counts on.
func newMetrics(reg prometheus.Registerer) *metrics {
	made := metric.For(nil)
	m := &metrics{
		segments: register(reg, made.CounterVec("coldtap_offload_segments_total",
			"Segments worked on, by result: copied (FINISHED), damaged (the partition stopped there), "+
				"hole (damaged and given up), failed (store or catalog).", "result")),
		bytes: register(reg, made.Counter("coldtap_offload_copied_bytes_total",
			"Bytes of the logs of segments that were copied.")),
		stopped: register(reg, made.CounterVec("coldtap_offload_partitions_stopped_total",
			"Partitions that were not copied as far as they could have been, by reason.", "reason")),
		rebuilt: register(reg, made.CounterVec("coldtap_offload_indexes_rebuilt_total",
			"Index files that were missing or wrong and were made anew from the log, by kind of file.", "file")),
	}
	metric.Values(m.segments, resultCopied, resultDamaged, resultHole, resultFailed)
	for _, reason := range failures {
		m.stopped.WithLabelValues(reason.label())
	}
	metric.Values(m.rebuilt, "index", "timeindex", "txnindex")
	return m
}

func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if old, ok := already.ExistingCollector.(C); ok {
			return old
		}
	}
	return c
}
