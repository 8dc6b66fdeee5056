package archive

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	changes  prometheus.Counter
	polls    *prometheus.CounterVec
	lastPoll prometheus.Gauge
	read     prometheus.Counter
	objects  prometheus.Gauge
	took     prometheus.Gauge
	problems *prometheus.GaugeVec
}

// newMetrics registers them, if there is where.
func newMetrics(reg prometheus.Registerer, a *Archive) (*metrics, error) {
	m := &metrics{
		changes: prometheus.NewCounter(prometheus.CounterOpts{Name: "coldtap_catalog_changes_total",
			Help: "Changes of the metadata taken over: segments, partitions, topics, holes; a full load counts each entry."}),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coldtap_catalog_polls_total",
			Help: "Looks at the metadata store, by outcome: ok, not_ready (it is not there yet), damaged, unavailable."}, []string{"outcome"}),
		lastPoll: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_last_poll_timestamp_seconds",
			Help: "When the metadata store was last looked at with success, in seconds since the epoch; 0 before the first."}),
		read: prometheus.NewCounter(prometheus.CounterOpts{Name: "coldtap_catalog_archive_manifests_read_total",
			Help: "Manifests that were read from the store, neither known from an earlier listing nor from the snapshot file."}),
		objects: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_archive_objects",
			Help: "Objects that the newest complete listing had, of the layout or not."}),
		took: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_archive_listing_seconds",
			Help: "How long the newest complete listing took, its manifests included."}),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "coldtap_catalog_archive_problems",
			Help: "What the newest complete listing found that is left out or stands in readers' way, by problem."}, []string{"problem"}),
	}
	for _, outcome := range []string{"ok", "not_ready", "damaged", "unavailable"} {
		m.polls.WithLabelValues(outcome)
	}
	for _, p := range Problems() {
		m.problems.WithLabelValues(string(p))
	}
	if reg == nil {
		return m, nil
	}
	segments := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coldtap_catalog_segments",
		Help: "Live segments in the view, in every state but DELETE_SEGMENT_FINISHED; each takes at most 300 bytes."},
		func() float64 { return float64(a.Snapshot().Segments()) })
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coldtap_catalog_ready",
		Help: "1 once the metadata was read completely."},
		func() float64 {
			if a.Ready() != nil {
				return 0
			}
			return 1
		})
	for _, c := range []prometheus.Collector{m.changes, m.polls, m.lastPoll, m.read, m.objects, m.took, m.problems, segments, ready} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) looked(err error) {
	if err != nil {
		m.polls.WithLabelValues("unavailable").Inc()
		return
	}
	m.polls.WithLabelValues("ok").Inc()
	m.lastPoll.SetToCurrentTime()
}

func (m *metrics) applied(changes int) { m.changes.Add(float64(changes)) }

func (m *metrics) manifestsRead(n int64) { m.read.Add(float64(n)) }

func (m *metrics) reported(r *Report) {
	m.objects.Set(float64(r.Objects))
	m.took.Set(r.Took.Seconds())
	for _, p := range Problems() {
		m.problems.WithLabelValues(string(p)).Set(float64(r.Problems[p]))
	}
}
