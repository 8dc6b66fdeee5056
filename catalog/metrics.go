package catalog

import (
	"errors"
	"time"

	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what every kind of catalog reports of itself, under the same names. All methods may be called
// concurrently.
type Metrics struct {
	changes, loads                  prometheus.Counter
	refused, polls                  *prometheus.CounterVec
	lastChange, changeLag, lastPoll prometheus.Gauge
}

// outcomes of a look at the store.
const (
	pollOK          = "ok"
	pollNotReady    = "not_ready"
	pollDamaged     = "damaged"
	pollUnavailable = "unavailable"
)

// NewMetrics makes and registers them, and what reads off the source itself; reg may be nil.
func NewMetrics(reg prometheus.Registerer, s Source) (*Metrics, error) {
	m := &Metrics{
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
		changeLag: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_change_lag_seconds",
			Help: "How long after it was recorded the newest change came into the view."}),
		lastPoll: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_last_poll_timestamp_seconds",
			Help: "When the metadata store was last looked at with success, in seconds since the epoch; 0 before the first."}),
	}
	for _, reason := range tier.Reasons() {
		m.refused.WithLabelValues(reason)
	}
	for _, outcome := range []string{pollOK, pollNotReady, pollDamaged, pollUnavailable} {
		m.polls.WithLabelValues(outcome)
	}
	segments := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coldtap_catalog_segments",
		Help: "Live segments in the view, in every state but DELETE_SEGMENT_FINISHED; each takes at most 300 bytes."},
		func() float64 { return float64(s.Snapshot().Segments()) })
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coldtap_catalog_ready",
		Help: "1 once the metadata was read completely."},
		func() float64 {
			if s.Ready() != nil {
				return 0
			}
			return 1
		})
	return m, Register(reg, m.changes, m.loads, m.refused, m.polls, m.lastChange, m.changeLag, m.lastPoll, segments, ready)
}

// Register registers collectors, if there is where.
func Register(reg prometheus.Registerer, all ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// Polled counts a look at the store, by the Kind of its error.
func (m *Metrics) Polled(err error) {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		m.polls.WithLabelValues(pollOK).Inc()
		m.lastPoll.SetToCurrentTime()
	case ok && e.Kind == NotReady:
		m.polls.WithLabelValues(pollNotReady).Inc()
	case ok && e.Kind == Damaged:
		m.polls.WithLabelValues(pollDamaged).Inc()
	default:
		m.polls.WithLabelValues(pollUnavailable).Inc()
	}
}

// Loaded counts a reading of everything.
func (m *Metrics) Loaded() { m.loads.Inc() }

// Applied counts changes that were given to the tier, and those of them that it dropped.
func (m *Metrics) Applied(changes int, rejected []tier.Rejected) {
	m.changes.Add(float64(changes))
	for _, r := range rejected {
		m.refused.WithLabelValues(r.Reason).Inc()
	}
}

// Changed notes when the newest change in the view was recorded, and when it came into the view.
func (m *Metrics) Changed(recorded, seen time.Time) {
	m.lastChange.Set(float64(recorded.UnixMilli()) / 1000)
	m.changeLag.Set(max(0, seen.Sub(recorded).Seconds()))
}
