package gateway

import (
	"slices"
	"strconv"
	"time"

	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// statuses are all that the data plane answers with.
var statuses = [...]int{200, 204, 206, 304, 400, 403, 404, 405, 406, 408, 412, 413, 416, 417, 421, 422, 431, 500, 502, 503, 504, 505}

// metrics of the answers (those of the connections are the engine's), every label value pre-created and resolved, so
// that counting is an atomic addition.
type metrics struct {
	requests [routeCount][len(statuses)]prometheus.Counter
	duration [routeCount]prometheus.Observer
	bytes    prometheus.Counter
	broken   prometheus.Counter
	panics   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	s := metric.For(reg)
	requests := s.CounterVec("coldtap_gateway_requests_total",
		"HTTP requests answered, by route and status. An answer that broke after its status line counts with that status.",
		"route", "status")
	duration := s.HistogramVec("coldtap_gateway_request_duration_seconds",
		"Time from a request's header to the last byte of its answer, slow clients included.",
		prometheus.ExponentialBuckets(0.0005, 4, 10), "route")
	m := &metrics{
		bytes: s.Counter("coldtap_gateway_response_bytes_total", "Bytes of answers' bodies written."),
		broken: s.Counter("coldtap_gateway_broken_answers_total",
			"Answers that broke after their status line because of the data, not of the client."),
		panics: s.Counter("coldtap_gateway_panics_total",
			"Panics while serving a request. Each has a log line with its stack; each is a bug."),
	}
	s.Must()
	for r := range m.requests {
		for i, status := range statuses {
			m.requests[r][i] = requests.WithLabelValues(route(r).String(), strconv.Itoa(status))
		}
		m.duration[r] = duration.WithLabelValues(route(r).String())
	}
	return m
}

func (m *metrics) observe(r route, status int, took time.Duration, bytes int64) {
	if i := slices.Index(statuses[:], status); i >= 0 {
		m.requests[r][i].Inc()
	}
	m.duration[r].Observe(took.Seconds())
	m.bytes.Add(float64(bytes))
}
