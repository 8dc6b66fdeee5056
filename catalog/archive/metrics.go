package archive

import (
	"coldtap/catalog"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are an archive's own, beside those of every catalog.
type metrics struct {
	*catalog.Metrics
	read     prometheus.Counter
	objects  prometheus.Gauge
	took     prometheus.Gauge
	problems *prometheus.GaugeVec
}

// newMetrics registers them, if there is where.
func newMetrics(reg prometheus.Registerer, a *Archive) (*metrics, error) {
	common, err := catalog.NewMetrics(reg, a)
	if err != nil {
		return nil, err
	}
	m := &metrics{
		Metrics: common,
		read: prometheus.NewCounter(prometheus.CounterOpts{Name: "coldtap_catalog_archive_manifests_read_total",
			Help: "Manifests that were read from the store, neither known from an earlier listing nor from the snapshot file."}),
		objects: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_archive_objects",
			Help: "Objects that the newest complete listing had, of the layout or not."}),
		took: prometheus.NewGauge(prometheus.GaugeOpts{Name: "coldtap_catalog_archive_listing_seconds",
			Help: "How long the newest complete listing took, its manifests included."}),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "coldtap_catalog_archive_problems",
			Help: "What the newest complete listing found that is left out or stands in readers' way, by problem."}, []string{"problem"}),
	}
	for _, p := range Problems() {
		m.problems.WithLabelValues(string(p))
	}
	return m, catalog.Register(reg, m.read, m.objects, m.took, m.problems)
}

func (m *metrics) manifestsRead(n int64) { m.read.Add(float64(n)) }

func (m *metrics) reported(r *Report) {
	m.objects.Set(float64(r.Objects))
	m.took.Set(r.Took.Seconds())
	for _, p := range Problems() {
		m.problems.WithLabelValues(string(p)).Set(float64(r.Problems[p]))
	}
}
