package kafka

import (
	"errors"
	"time"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/internal/errkind"
	"coldtap/internal/metric"

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
	s := metric.For(reg)
	m := &metrics{
		Metrics: catalog.NewMetrics(s, f),
		records: s.Counter("coldtap_catalog_topic_records_total", "Records read from the metadata topic."),
		unreadable: s.CounterVec("coldtap_catalog_topic_unreadable_records_total",
			"Records of the metadata topic that were passed over, by what is wrong with them.", "kind"),
		misplaced: s.Counter("coldtap_catalog_topic_misplaced_records_total",
			"Records that lie in another metadata partition than the brokers' mapping says; they are used all the same."),
		reads: s.CounterVec("coldtap_catalog_topic_snapshot_reads_total",
			"What became of the metadata snapshot file: used, missing, damaged, refused (of another cluster, or the topic no longer continues it).",
			"outcome"),
		writes: s.CounterVec("coldtap_catalog_topic_snapshot_writes_total",
			"Times the metadata snapshot file was written, by outcome.", "outcome"),
		lastWrite: s.Gauge("coldtap_catalog_topic_snapshot_timestamp_seconds",
			"When the metadata snapshot file was last written, in seconds since the epoch; 0 before the first time."),
	}
	for _, k := range Kinds() {
		m.unreadable.WithLabelValues(errkind.Label(k))
	}
	metric.Values(m.reads, "used", "missing", "damaged", "refused")
	metric.Values(m.writes, "ok", "error")
	metric.GaugeFunc(s, "coldtap_catalog_topic_lag_records",
		"Records that the metadata topic is known to hold beyond the view.", func() int64 { return f.Status().Lag })
	metric.GaugeFunc(s, "coldtap_catalog_topic_view_age_seconds",
		"How long ago the view was known to hold all of the metadata topic; below metadata.kafka.refresh while following, -1 before that was ever so.",
		func() float64 { return age(f.Status().AsOf) })
	metric.GaugeFunc(s, "coldtap_catalog_topic_bounds_age_seconds",
		"How long ago the cluster told the partitions' bounds that the view has; -1 before the first time.",
		func() float64 { return age(f.Status().ClusterAt) })
	return m, s.Err()
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
