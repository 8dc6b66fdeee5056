// Package metric makes the metrics of a room and registers them, so that what a room writes down is names and helps.
package metric

import "github.com/prometheus/client_golang/prometheus"

// Set registers each metric as it makes it, up to the first that cannot be registered; without a registerer it only
// makes them. A label given to Counter or GaugeFunc is a name and its value.
type Set struct {
	reg  prometheus.Registerer
	done []prometheus.Collector
	err  error
}

// For makes a Set; reg may be nil.
func For(reg prometheus.Registerer) *Set { return &Set{reg: reg} }

// Err says why a metric could not be registered; those that were registered before it are then taken back.
func (s *Set) Err() error {
	if s.err != nil {
		for _, c := range s.done {
			s.reg.Unregister(c)
		}
		s.done = nil
	}
	return s.err
}

// Must panics where Err is an error.
func (s *Set) Must() {
	if err := s.Err(); err != nil {
		panic(err)
	}
}

// Add registers a metric that was made elsewhere.
func Add[C prometheus.Collector](s *Set, c C) C {
	if s.reg == nil || s.err != nil {
		return c
	}
	if s.err = s.reg.Register(c); s.err == nil {
		s.done = append(s.done, c)
	}
	return c
}

func (s *Set) Counter(name, help string, label ...string) prometheus.Counter {
	return Add(s, prometheus.NewCounter(prometheus.CounterOpts(opts(name, help, label))))
}

func (s *Set) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return Add(s, prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help, nil)), labels))
}

func (s *Set) Gauge(name, help string) prometheus.Gauge {
	return Add(s, prometheus.NewGauge(prometheus.GaugeOpts(opts(name, help, nil))))
}

func (s *Set) GaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return Add(s, prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(name, help, nil)), labels))
}

// GaugeFunc makes a gauge that is read off when it is asked for.
func GaugeFunc[N int | int32 | int64 | float64](s *Set, name, help string, value func() N, label ...string) {
	read := func() float64 { return float64(value()) }
	Add(s, prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help, label)), read))
}

func (s *Set) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return Add(s, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

func (s *Set) HistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return Add(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

func opts(name, help string, label []string) prometheus.Opts {
	o := prometheus.Opts{Name: name, Help: help}
	if len(label) > 0 {
		o.ConstLabels = prometheus.Labels{label[0]: label[1]}
	}
	return o
}

// Values gives the metrics of some values of a vector's one label, which are there, as 0, from then on.
func Values[M any](vec interface{ WithLabelValues(...string) M }, values ...string) (all []M) {
	for _, value := range values {
		all = append(all, vec.WithLabelValues(value))
	}
	return all
}
