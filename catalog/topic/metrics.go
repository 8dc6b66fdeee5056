package topic

import (
	"errors"
	"time"

	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the follower's. Those without "topic" in their names are what every catalog tells.
type metrics struct {
	changes    prometheus.Counter
	loads      prometheus.Counter
	refused    *prometheus.CounterVec
	polls      *prometheus.CounterVec
	lastChange prometheus.Gauge
	lag        prometheus.Gauge
	lastPoll   prometheus.Gauge

	records    prometheus.Counter
	unreadable *prometheus.CounterVec
	misplaced  prometheus.Counter
	reads      *prometheus.CounterVec
	writes     *prometheus.CounterVec
	lastWrite  prometheus.Gauge
}

// newMetrics registers them, if there is where.
func newMetrics(reg prometheus.Registerer, f *Follower) (*metrics, error) {
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
		records: prometheus.NewCounter(prometheus.CounterOpts{Name: "coldtap_catalog_topic_records_total",
			Help: "Records read from the metadata topic."}),
		unreadable: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coldtap_catalog_topic_unreadable_records_total",
			Help: "Records of the metadata topic that were passed over, by what is wrong with them."}, []string{"kind"}),
		misplaced: prometheus.NewCounter(prometheus.CounterOpts{Name: "coldtap_catalog_topic_misplaced_records_total",
			Help: "Records that lie in another metadata partition than the brokers' mapping says; they are used all the same."}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coldtap_catalog_topic_snapshot_reads_total",
			Help: "What became of the metadata snapshot file: used, missing, damaged, refused (of another cluster, or the topic no longer continues it)."},
			[]string{"outcome"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coldtap_catalog_topic_snapshot_writes_total",
			Help: "Times the metadata snapshot file was written, by outcome."}, []string{"outcome"}),
		lastWrite: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_topic_snapshot_timestamp_seconds",
			Help: "When the metadata snapshot file was last written, in seconds since the epoch; 0 before the first time."}),
	}
	for _, reason := range tier.Reasons() {
		m.refused.WithLabelValues(reason)
	}
	for _, outcome := range []string{"ok", "not_ready", "damaged", "unavailable"} {
		m.polls.WithLabelValues(outcome)
	}
	for _, k := range Kinds() {
		m.unreadable.WithLabelValues(k.String())
	}
	for _, outcome := range []string{"used", "missing", "damaged", "refused"} {
		m.reads.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"ok", "error"} {
		m.writes.WithLabelValues(outcome)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range append(m.views(f), m.changes, m.loads, m.refused, m.polls, m.lastChange, m.lag, m.lastPoll,
		m.records, m.unreadable, m.misplaced, m.reads, m.writes, m.lastWrite) {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// views are read off the follower when they are asked for.
func (m *metrics) views(f *Follower) []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	return []prometheus.Collector{
		gauge("coldtap_catalog_segments",
			"Live segments in the view, in every state but DELETE_SEGMENT_FINISHED; each takes at most 300 bytes.",
			func() float64 { return float64(f.Snapshot().Segments()) }),
		gauge("coldtap_catalog_ready", "1 once the metadata was read completely.", func() float64 {
			if f.Ready() != nil {
				return 0
			}
			return 1
		}),
		gauge("coldtap_catalog_topic_lag_records", "Records that the metadata topic is known to hold beyond the view.",
			func() float64 { return float64(f.Status().Lag) }),
		gauge("coldtap_catalog_topic_view_age_seconds",
			"How long ago the view was known to hold all of the metadata topic; below 1 while following, -1 before that was ever so.",
			func() float64 { return age(f.Status().AsOf) }),
		gauge("coldtap_catalog_topic_bounds_age_seconds",
			"How long ago the cluster told the partitions' bounds that the view has; -1 before the first time.",
			func() float64 { return age(f.Status().ClusterAt) }),
	}
}

func age(at time.Time) float64 {
	if at.IsZero() {
		return -1
	}
	return time.Since(at).Seconds()
}

func (m *metrics) polled(err error) {
	switch {
	case err == nil:
		m.polls.WithLabelValues("ok").Inc()
		m.lastPoll.SetToCurrentTime()
	case errors.Is(err, errNoTopic):
		m.polls.WithLabelValues("not_ready").Inc()
	default:
		m.polls.WithLabelValues("unavailable").Inc()
	}
}

func (m *metrics) applied(changes int, rejected []tier.Rejected) {
	m.changes.Add(float64(changes))
	for _, r := range rejected {
		m.refused.WithLabelValues(r.Reason).Inc()
	}
}

func (m *metrics) read(d *digest, at time.Time) {
	m.records.Add(float64(d.records))
	m.misplaced.Add(float64(d.misplaced))
	if d.newest >= 0 {
		m.lastChange.Set(float64(d.newest) / 1000)
		m.lag.Set(max(0, at.Sub(time.UnixMilli(d.newest)).Seconds()))
	}
}

func (m *metrics) fullLoad(full bool) {
	if full {
		m.loads.Inc()
	}
}

func (m *metrics) loaded(outcome string) { m.reads.WithLabelValues(outcome).Inc() }

func (m *metrics) saved(err error) {
	if err != nil {
		m.writes.WithLabelValues("error").Inc()
		return
	}
	m.writes.WithLabelValues("ok").Inc()
	m.lastWrite.SetToCurrentTime()
}
