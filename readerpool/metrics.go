package readerpool

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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
	f := promauto.With(reg)
	m := &metrics{
		running: f.NewGauge(prometheus.GaugeOpts{
			Name: "coldtap_readerpool_running",
			Help: "Reads of the object store that run now.",
		}),
		wait: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "coldtap_readerpool_wait_seconds",
			Help:    "How long admitted reads waited for a place.",
			Buckets: []float64{.0001, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	pending := f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "coldtap_readerpool_pending",
		Help: "Reads that wait for a place, by lane.",
	}, []string{"lane"})
	admitted := f.NewCounterVec(prometheus.CounterOpts{
		Name: "coldtap_readerpool_admitted_total",
		Help: "Reads that got a place, by lane.",
	}, []string{"lane"})
	refused := f.NewCounterVec(prometheus.CounterOpts{
		Name: "coldtap_readerpool_refused_total",
		Help: "Reads that did not get a place, by lane and reason; canceled: the caller went away while it waited.",
	}, []string{"lane", "reason"})
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
