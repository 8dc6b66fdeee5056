package gateway

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// statuses are all that the data plane answers with.
var statuses = [...]int{200, 204, 206, 304, 400, 403, 404, 405, 406, 408, 412, 413, 416, 417, 421, 422, 431, 500, 502, 503, 504, 505}

// metrics of the data plane, every label value pre-created and resolved, so that counting is an atomic addition.
type metrics struct {
	requests [routeCount][len(statuses)]prometheus.Counter
	duration [routeCount]prometheus.Observer
	bytes    prometheus.Counter
	inFlight prometheus.Gauge
	stalled  prometheus.Gauge
	cut      [cutReasons]prometheus.Counter
	broken   prometheus.Counter
	panics   prometheus.Counter

	acceptErrors prometheus.Counter
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
	cut := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coldtap_gateway_cut_clients_total",
		Help: "Clients whose answer was ended: gone before it began, stalled for the stall timeout, stalled the longest under memory pressure, or still running at the drain limit.",
	}, []string{"reason"})
	m := &metrics{
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coldtap_gateway_response_bytes_total",
			Help: "Bytes of answers' bodies written.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coldtap_gateway_in_flight_requests",
			Help: "Requests being answered now.",
		}),
		stalled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coldtap_gateway_stalled_clients",
			Help: "Clients that have not taken the current slice of at most 1 MiB for a quarter of a second, as of the last look.",
		}),
		broken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coldtap_gateway_broken_answers_total",
			Help: "Answers that broke after their status line because of the data, not of the client.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coldtap_gateway_panics_total",
			Help: "Panics while serving a request. Each has a log line with its stack; each is a bug.",
		}),
		acceptErrors: acceptErrors(reg, "data"),
	}
	for r := range m.requests {
		for i, status := range statuses {
			m.requests[r][i] = requests.WithLabelValues(route(r).String(), strconv.Itoa(status))
		}
		m.duration[r] = duration.WithLabelValues(route(r).String())
	}
	for r := cutGone; r < cutReasons; r++ {
		m.cut[r] = cut.WithLabelValues(r.String())
	}
	if reg != nil {
		reg.MustRegister(requests, duration, cut, m.bytes, m.inFlight, m.stalled, m.broken, m.panics)
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
