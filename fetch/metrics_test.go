package fetch

import (
	"strings"
	"testing"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := newHarness(t, shape{})
	cfg := s.cfg
	cfg.Registerer = reg
	s.Service = New(cfg)
	s.topic("t", 0)
	abort := segment.AbortedTxn{ProducerID: 7, FirstOffset: 10, LastOffset: 20, LastStableOffset: 21}
	s.add(stored{base: 0, end: 29, log: joined(dense(0, 9, false), txn(7, 10, 19), marker(20, 7, 0, 1), dense(21, 29, false)),
		files: segment.Files{Decided: true, Aborted: []segment.AbortedTxn{abort}, OffsetIndex: offsetIndex(0, 25, 77)}})
	want(t, "records", s.records(committed(5)), append(offsetsOf(5, 9), offsetsOf(21, 29)...), EndTier, 30)
	if a := s.raw(committed(28)); len(a.batches) != 1 {
		t.Error(a)
	}
	s.records(from(99))
	s.at(1, ReadUncommitted)
	if st, err := s.Open(t.Context(), from(0)); err != nil {
		t.Fatal(err)
	} else {
		st.Close()
	}
	families := `
# HELP coldtap_fetch_index_fallbacks_total Positions of an offset index where no batch for the offset began, so that an earlier position was read from.
# TYPE coldtap_fetch_index_fallbacks_total counter
coldtap_fetch_index_fallbacks_total 1
# HELP coldtap_fetch_records_total Records handed out one by one.
# TYPE coldtap_fetch_records_total counter
coldtap_fetch_records_total 14
# HELP coldtap_fetch_skipped_batches_total Batches passed over: below the start, of an aborted transaction, holding a transaction marker, or outside the range of time.
# TYPE coldtap_fetch_skipped_batches_total counter
coldtap_fetch_skipped_batches_total{reason="aborted"} 1
coldtap_fetch_skipped_batches_total{reason="before_start"} 3
coldtap_fetch_skipped_batches_total{reason="control"} 1
coldtap_fetch_skipped_batches_total{reason="timestamp"} 0
`
	err := testutil.GatherAndCompare(reg, strings.NewReader(families), "coldtap_fetch_index_fallbacks_total",
		"coldtap_fetch_records_total", "coldtap_fetch_skipped_batches_total")
	if err != nil {
		t.Error(err)
	}
	for labels, n := range map[[3]string]float64{
		{"records", "read_committed", "tier"}: 1, {"raw", "read_committed", "tier"}: 1, {"open", "read_uncommitted", "out_of_range"}: 1,
		{"open", "read_uncommitted", "stopped"}: 1, {"offset", "read_uncommitted", "stopped"}: 1, {"raw", "read_uncommitted", "damaged"}: 0,
	} {
		if got := counter(t, reg, labels); got != n {
			t.Errorf("%v: %v, want %v", labels, got, n)
		}
	}
}

// counter gives a series of coldtap_fetch_requests_total, which must exist.
func counter(t *testing.T, reg *prometheus.Registry, labels [3]string) float64 {
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "coldtap_fetch_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			got := map[string]string{}
			for _, l := range m.GetLabel() {
				got[l.GetName()] = l.GetValue()
			}
			if got["kind"] == labels[0] && got["isolation"] == labels[1] && got["result"] == labels[2] {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no series %v", labels)
	return 0
}
