package kafka

import (
	"errors"
	"time"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/internal/errkind"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the follower's own, beside those of every catalog.
type metrics struct {
	*catalog.Metrics
	records    prometheus.Counter
	unreadable *prometheus.CounterVec
	misplaced  prometheus.Counter
	reads      *prometheus.CounterVec
	writes     *prometheus.CounterVec
	lastWrite  prometheus.Gauge
}

// newMetrics registers them, if there is where.
func newMetrics(reg prometheus.Registerer, f *Follower) (*metrics, error) {
	common, err := catalog.NewMetrics(reg, f)
	if err != nil {
		return nil, err
	}
	m := &metrics{
		Metrics: common,
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
	for _, k := range Kinds() {
		m.unreadable.WithLabelValues(errkind.Label(k))
	}
	for _, outcome := range []string{"used", "missing", "damaged", "refused"} {
		m.reads.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"ok", "error"} {
		m.writes.WithLabelValues(outcome)
	}
	own := append(m.views(f), m.records, m.unreadable, m.misplaced, m.reads, m.writes, m.lastWrite)
	return m, catalog.Register(reg, own...)
}

// views are read off the follower when they are asked for.
func (m *metrics) views(f *Follower) []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	return []prometheus.Collector{
		gauge("coldtap_catalog_topic_lag_records", "Records that the metadata topic is known to hold beyond the view.",
			func() float64 { return float64(f.Status().Lag) }),
		gauge("coldtap_catalog_topic_view_age_seconds",
			"How long ago the view was known to hold all of the metadata topic; below metadata.kafka.refresh while following, -1 before that was ever so.",
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
	if errors.Is(err, cluster.ErrNoTopic) {
		err = notReady(err)
	}
	m.Polled(err)
}

func (m *metrics) read(d *digest, at time.Time) {
	m.records.Add(float64(d.records))
	m.misplaced.Add(float64(d.misplaced))
	if d.newest >= 0 {
		m.Changed(time.UnixMilli(d.newest), at)
	}
}

func (m *metrics) fullLoad(full bool) {
	if full {
		m.Loaded()
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
