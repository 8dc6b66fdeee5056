package sqlite

import (
	"time"

	"coldtap/catalog"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the reader's.
type metrics struct {
	changes    prometheus.Counter
	loads      prometheus.Counter
	refused    *prometheus.CounterVec
	polls      *prometheus.CounterVec
	lastChange prometheus.Gauge
	lag        prometheus.Gauge
	lastPoll   prometheus.Gauge
}

// newMetrics registers them, if there is where.
func newMetrics(reg prometheus.Registerer, r *Reader) (*metrics, error) {
	m := &metrics{
		changes: prometheus.NewCounter(prometheus.CounterOpts{Name: "coldtap_catalog_changes_total",
			Help: "Changes of the metadata taken over: segments, partitions, topics, holes; a full load counts each entry."}),
		loads: prometheus.NewCounter(prometheus.CounterOpts{Name: "coldtap_catalog_full_loads_total",
			Help: "How often all metadata was read: once at the start, and when the store was replaced by another or an older one."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coldtap_catalog_rejected_changes_total",
			Help: "Changes that were dropped because they are impossible, by reason."}, []string{"reason"}),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coldtap_catalog_polls_total",
			Help: "Looks at the metadata store, by outcome: ok, not_ready (it is not there yet), damaged, unavailable."}, []string{"outcome"}),
		lastChange: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_last_change_timestamp_seconds",
			Help: "When the newest change that is in the view was recorded, in seconds since the epoch; 0 before the first."}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_change_lag_seconds",
			Help: "How long after it was recorded the newest change came into the view."}),
		lastPoll: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_last_poll_timestamp_seconds",
			Help: "When the metadata store was last looked at with success, in seconds since the epoch; 0 before the first."}),
	}
	for _, reason := range tier.Reasons() {
		m.refused.WithLabelValues(reason)
	}
	for _, outcome := range []string{"ok", "not_ready", "damaged", "unavailable"} {
		m.polls.WithLabelValues(outcome)
	}
	if reg == nil {
		return m, nil
	}
	segments := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coldtap_catalog_segments",
		Help: "Live segments in the view, in every state but DELETE_SEGMENT_FINISHED; each takes at most 300 bytes."},
		func() float64 { return float64(r.Snapshot().Segments()) })
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coldtap_catalog_ready",
		Help: "1 once the metadata was read completely."},
		func() float64 {
			if r.Ready() != nil {
				return 0
			}
			return 1
		})
	for _, c := range []prometheus.Collector{m.changes, m.loads, m.refused, m.polls, m.lastChange, m.lag, m.lastPoll, segments, ready} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) polled(e *catalog.Error) {
	switch {
	case e == nil:
		m.polls.WithLabelValues("ok").Inc()
		m.lastPoll.SetToCurrentTime()
	case e.Kind == catalog.NotReady:
		m.polls.WithLabelValues("not_ready").Inc()
	case e.Kind == catalog.Damaged:
		m.polls.WithLabelValues("damaged").Inc()
	default:
		m.polls.WithLabelValues("unavailable").Inc()
	}
}

func (m *metrics) applied(changes int, at time.Time) {
	m.changes.Add(float64(changes))
	m.lastChange.Set(float64(at.UnixMilli()) / 1000)
	m.lag.Set(max(0, time.Since(at).Seconds()))
}

func (m *metrics) rejected(list []tier.Rejected) {
	for _, r := range list {
		m.refused.WithLabelValues(r.Reason).Inc()
	}
}
