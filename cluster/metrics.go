package cluster

import (
	"time"

	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// Why a value of an answer was dropped.
const (
	rejectRange         = "range"         // negative where no offset is, or beyond 1<<62
	rejectContradiction = "contradiction" // two bounds that exclude each other
	rejectBackwards     = "backwards"     // a bound that moved back within one leader epoch
	rejectRepeated      = "repeated"      // a partition, topic or id that was answered twice or not asked for
	rejectStale         = "stale"         // an older leader epoch than one seen
	rejectLineage       = "lineage"       // epochs or end offsets that do not descend
	rejectName          = "name"          // a topic name that Kafka would not create, or a partition number below 0
)

var rejectReasons = []string{rejectRange, rejectContradiction, rejectBackwards, rejectRepeated, rejectStale, rejectLineage, rejectName}

// What a round came to, beside the kinds of Error.
const (
	resultOK      = "ok"
	resultPartial = "partial" // a new View, but watched partitions did not answer
)

type metrics struct {
	rounds          *prometheus.CounterVec
	partitionRounds prometheus.Counter
	seconds         prometheus.Histogram
	unanswered      prometheus.Gauge
	denied          prometheus.Gauge
	rejected        *prometheus.CounterVec
}

func resultOf(k Kind) string {
	if k == Answer {
		return "answer"
	}
	return k.String()
}

func newMetrics(reg prometheus.Registerer, c *Client) (*metrics, error) {
	s := metric.For(reg)
	m := &metrics{
		rounds: s.CounterVec("coldtap_cluster_refreshes_total",
			"Rounds of asking the cluster, by result: ok, partial (some watched partitions did not answer), unreachable, unauthorized, denied, answer (nonsense).",
			"result"),
		partitionRounds: s.Counter("coldtap_cluster_partition_refreshes_total",
			"Rounds of asking the cluster about a few partitions only, for reads that depend on being current."),
		seconds: s.Histogram("coldtap_cluster_refresh_seconds", "How long a round took, failed ones included.",
			[]float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		unanswered: s.Gauge("coldtap_cluster_unanswered_partitions",
			"Watched partitions for whose bounds or lineage no leader answered in the last round, all of them when no broker answered; a topic that was never seen counts as one."),
		denied: s.Gauge("coldtap_cluster_denied_topics",
			"Watched topics that the cluster does not let us describe, as of the last round."),
		rejected: s.CounterVec("coldtap_cluster_rejected_answers_total",
			"Values in brokers' answers that were dropped, by reason: range, contradiction, backwards, repeated, stale, lineage, name.",
			"reason"),
	}
	metric.Values(m.rounds, resultOK, resultPartial)
	for k := Unreachable; k <= Answer; k++ {
		m.rounds.WithLabelValues(resultOf(k))
	}
	metric.Values(m.rejected, rejectReasons...)
	metric.GaugeFunc(s, "coldtap_cluster_view_age_seconds",
		"How long ago the requests behind the present view were sent; since the start while there is none.",
		func() float64 { return c.Age().Seconds() })
	if err := s.Err(); err != nil {
		return nil, &Error{Kind: Option, Op: "registerer", Err: err}
	}
	return m, nil
}

func (m *metrics) reject(reason string) { m.rejected.WithLabelValues(reason).Inc() }

func (m *metrics) round(took time.Duration, result string) {
	m.seconds.Observe(took.Seconds())
	m.rounds.WithLabelValues(result).Inc()
}
