package rangeio

import (
	"time"

	"coldtap/internal/errkind"
	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	opGet    = "get"
	opStat   = "stat"
	opPut    = "put"
	opDelete = "delete"
	opList   = "list"
)

var ops = [...]string{opGet, opStat, opPut, opDelete, opList}

// latencyBuckets reach from a file in the page cache to a store that is about to be given up, in seconds.
var latencyBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// metrics are the room's counters. Attempts are counted, not operations: the bill and the load are made of attempts.
type metrics struct {
	requests  map[string]map[Kind]prometheus.Counter // by op and result; Kind 0 is ok
	retries   map[string]prometheus.Counter
	duration  map[string]prometheus.Observer
	firstByte prometheus.Histogram
	inFlight  prometheus.Gauge
	readable  prometheus.Gauge

	requested, fetched, refetched, written prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	s := metric.For(reg)
	requests := s.CounterVec("coldtap_rangeio_requests_total",
		"Attempts at store operations, by operation and result (ok or the kind of error).", "op", "result")
	retries := s.CounterVec("coldtap_rangeio_retries_total",
		"Attempts beyond the first of an operation, resumed bodies included.", "op")
	duration := s.HistogramVec("coldtap_rangeio_request_duration_seconds",
		"Time of one attempt until its answer was complete or had failed.", latencyBuckets, "op")
	m := &metrics{
		requests: map[string]map[Kind]prometheus.Counter{},
		retries:  map[string]prometheus.Counter{},
		duration: map[string]prometheus.Observer{},
		firstByte: s.Histogram("coldtap_rangeio_first_byte_seconds",
			"Time from sending a read to the first byte of its body.", latencyBuckets),
		inFlight: s.Gauge("coldtap_rangeio_requests_in_flight", "Attempts at store operations now running."),
		readable: s.Gauge("coldtap_rangeio_store_readable",
			"0 while the store cannot be read: of some objects that the metadata names none could be read when they were asked for last."),
		requested: s.Counter("coldtap_rangeio_requested_bytes_total",
			"Bytes that callers asked to read, each counted once however often it was fetched."),
		fetched: s.Counter("coldtap_rangeio_fetched_bytes_total", "Body bytes received from the store."),
		refetched: s.Counter("coldtap_rangeio_refetched_bytes_total",
			"Body bytes received in vain: thrown away with a failed read or fetched once more."),
		written: s.Counter("coldtap_rangeio_written_bytes_total", "Bytes of objects whose writing was confirmed."),
	}
	s.Must()
	for _, op := range ops {
		m.requests[op] = map[Kind]prometheus.Counter{0: requests.WithLabelValues(op, "ok")}
		for k := NotFound; k <= lastKind; k++ {
			m.requests[op][k] = requests.WithLabelValues(op, errkind.Label(k))
		}
		m.retries[op] = retries.WithLabelValues(op)
		m.duration[op] = duration.WithLabelValues(op)
	}
	return m
}

// startAttempt counts an attempt in flight; the function that it returns is called with the outcome.
func (m *metrics) startAttempt(op string) func(*Error) {
	start := time.Now()
	m.inFlight.Inc()
	return func(err *Error) {
		m.inFlight.Dec()
		m.duration[op].Observe(time.Since(start).Seconds())
		var kind Kind
		if err != nil {
			kind = err.Kind
		}
		m.requests[op][kind].Inc()
	}
}
