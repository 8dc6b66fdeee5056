package catalog

import (
	"errors"
	"time"

	"coldtap/internal/metric"
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

// NewMetrics makes them, and what reads off the source itself.
func NewMetrics(s *metric.Set, source Source) *Metrics {
	m := &Metrics{
		changes: s.Counter("coldtap_catalog_changes_total",
			"Changes of the metadata taken over: segments, partitions, topics, holes; a full load counts each entry."),
		loads: s.Counter("coldtap_catalog_full_loads_total",
			"How often all metadata was read: once at the start, and when the store was replaced by another or an older one."),
		refused: s.CounterVec("coldtap_catalog_rejected_changes_total",
			"Changes that were dropped because they are impossible, by reason.", "reason"),
		polls: s.CounterVec("coldtap_catalog_polls_total",
			"Looks at the metadata store, by outcome: ok, not_ready (it is not there yet), damaged, unavailable.", "outcome"),
		lastChange: s.Gauge("coldtap_catalog_last_change_timestamp_seconds",
			"When the newest change that is in the view was recorded, in seconds since the epoch; 0 before the first."),
		changeLag: s.Gauge("coldtap_catalog_change_lag_seconds",
			"How long after it was recorded the newest change came into the view."),
		lastPoll: s.Gauge("coldtap_catalog_last_poll_timestamp_seconds",
			"When the metadata store was last looked at with success, in seconds since the epoch; 0 before the first."),
	}
	metric.Values(m.refused, tier.Reasons()...)
	metric.Values(m.polls, pollOK, pollNotReady, pollDamaged, pollUnavailable)
	metric.GaugeFunc(s, "coldtap_catalog_segments",
		"Live segments in the view, in every state but DELETE_SEGMENT_FINISHED; each takes at most 300 bytes.",
		func() int { return source.Snapshot().Segments() })
	metric.GaugeFunc(s, "coldtap_catalog_ready", "1 once the metadata was read completely.", func() int {
		if source.Ready() != nil {
			return 0
		}
		return 1
	})
	return m
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
