package archive

import (
	"coldtap/catalog"
	"coldtap/internal/metric"

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
	s := metric.For(reg)
	m := &metrics{
		Metrics: catalog.NewMetrics(s, a),
		read: s.Counter("coldtap_catalog_archive_manifests_read_total",
			"Manifests that were read from the store, neither known from an earlier listing nor from the snapshot file."),
		objects: s.Gauge("coldtap_catalog_archive_objects",
			"Objects that the newest complete listing had, of the layout or not."),
		took: s.Gauge("coldtap_catalog_archive_listing_seconds",
			"How long the newest complete listing took, its manifests included."),
		problems: s.GaugeVec("coldtap_catalog_archive_problems",
			"What the newest complete listing found that is left out or stands in readers' way, by problem.", "problem"),
	}
	for _, p := range Problems() {
		m.problems.WithLabelValues(string(p))
	}
	return m, s.Err()
}

func (m *metrics) manifestsRead(n int64) { m.read.Add(float64(n)) }

func (m *metrics) reported(r *Report) {
	m.objects.Set(float64(r.Objects))
	m.took.Set(r.Took.Seconds())
	for _, p := range Problems() {
		m.problems.WithLabelValues(string(p)).Set(float64(r.Problems[p]))
	}
}
