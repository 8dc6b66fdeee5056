package gateway

import (
	"strconv"
	"time"

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
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coldtap_gateway_requests_total",
		Help: "HTTP requests answered, by route and status. An answer that broke after its status line counts with that status.",
	}, []string{"route", "status"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "coldtap_gateway_request_duration_seconds",
		Help:    "Time from a request's header to the last byte of its answer, slow clients included.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
	}, []string{"route"})
	m := &metrics{
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coldtap_gateway_response_bytes_total",
			Help: "Bytes of answers' bodies written.",
		}),
		broken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coldtap_gateway_broken_answers_total",
			Help: "Answers that broke after their status line because of the data, not of the client.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coldtap_gateway_panics_total",
			Help: "Panics while serving a request. Each has a log line with its stack; each is a bug.",
		}),
	}
	for r := range m.requests {
		for i, status := range statuses {
			m.requests[r][i] = requests.WithLabelValues(route(r).String(), strconv.Itoa(status))
		}
		m.duration[r] = duration.WithLabelValues(route(r).String())
	}
	if reg != nil {
		reg.MustRegister(requests, duration, m.bytes, m.broken, m.panics)
	}
	return m
}

func (m *metrics) observe(r route, status int, took time.Duration, bytes int64) {
	for i, s := range statuses {
		if s == status {
			m.requests[r][i].Inc()
			break
		}
	}
	m.duration[r].Observe(took.Seconds())
	m.bytes.Add(float64(bytes))
}
