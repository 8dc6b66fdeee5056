package metric

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// all makes one metric of each kind, a_total first and z last.
func all(s *Set) {
	Values(s.CounterVec("a_total", "a", "x"), "1", "2")
	s.Counter("b_total", "b", "plane", "data").Add(3)
	Values(s.GaugeVec("c", "c", "x"), "1")
	s.Gauge("d", "d").Set(4)
	GaugeFunc(s, "e", "e", func() int { return 5 }, "part", "window")
	GaugeFunc(s, "e", "e", func() float64 { return .5 }, "part", "loading")
	s.Histogram("f", "f", []float64{1})
	Values(s.HistogramVec("g", "g", []float64{1}, "x"), "1")
	s.Counter("z", "z")
}

func count(t *testing.T, reg prometheus.Gatherer) int {
	t.Helper()
	n, err := testutil.GatherAndCount(reg)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSetRegistersWhatItMakes(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := For(reg)
	all(s)
	s.Must()
	if n := count(t, reg); n != 10 {
		t.Errorf("%d metrics are there", n)
	}
	none := For(nil)
	all(none)
	if err := none.Err(); err != nil {
		t.Error(err)
	}
}

// The last of a Set is registered already, by someone else: all before it are taken back, and what the other one
// registered stays.
func TestSetTakesBackWhatItRegistered(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "z", Help: "z"}))
	s := For(reg)
	all(s)
	s.Counter("later_total", "not registered behind an error")
	if n := count(t, reg); n != 10 {
		t.Errorf("%d metrics are there before the error is asked for", n)
	}
	for range 2 {
		if err := s.Err(); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			t.Errorf("got %v", err)
		}
		if n := count(t, reg); n != 1 {
			t.Errorf("%d metrics are there afterwards", n)
		}
	}
	// None of it is in the way of the next.
	next := For(reg)
	next.CounterVec("a_total", "a", "x").WithLabelValues("1")
	next.Must()

	defer func() {
		if err, ok := recover().(error); !ok || !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			t.Errorf("panicked with %v", err)
		}
		if n := count(t, reg); n != 2 {
			t.Errorf("%d metrics are there after the panic", n)
		}
	}()
	s = For(reg)
	s.Gauge("d", "d")
	s.Counter("z", "z")
	s.Must()
}
