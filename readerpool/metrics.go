package readerpool

import (
	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are indexed by lane, and by kind where there is one.
type metrics struct {
	running  prometheus.Gauge
	pending  [lanes]prometheus.Gauge
	admitted [lanes]prometheus.Counter
	canceled [lanes]prometheus.Counter
	refused  [lanes]map[Kind]prometheus.Counter
	wait     prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	s := metric.For(reg)
	m := &metrics{
		running: s.Gauge("coldtap_readerpool_running", "Reads of the object store that run now."),
		wait: s.Histogram("coldtap_readerpool_wait_seconds", "How long admitted reads waited for a place.",
			[]float64{.0001, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
	}
	pending := s.GaugeVec("coldtap_readerpool_pending", "Reads that wait for a place, by lane.", "lane")
	admitted := s.CounterVec("coldtap_readerpool_admitted_total", "Reads that got a place, by lane.", "lane")
	refused := s.CounterVec("coldtap_readerpool_refused_total",
		"Reads that did not get a place, by lane and reason; canceled: the caller went away while it waited.", "lane", "reason")
	s.Must()
	for lane := range Lane(lanes) {
		m.pending[lane] = pending.WithLabelValues(lane.String())
		m.admitted[lane] = admitted.WithLabelValues(lane.String())
		m.canceled[lane] = refused.WithLabelValues(lane.String(), "canceled")
		m.refused[lane] = make(map[Kind]prometheus.Counter)
		for _, kind := range []Kind{Full, TimedOut, Closed} {
			m.refused[lane][kind] = refused.WithLabelValues(lane.String(), kind.String())
		}
	}
	return m
}
