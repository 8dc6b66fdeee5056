package fetch

import (
	"errors"

	"coldtap/fetch/scan"
	"coldtap/internal/errkind"
	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// kindOfRead says what a request turned out to be.
type kindOfRead uint8

const (
	readOpened  kindOfRead = iota // nothing was asked of the stream, or there never was one
	readRaw                       // NextRun
	readRecords                   // NextRecord
	readOffset                    // OffsetForTime
	readKinds
)

// hidden says why a batch was passed over; metrics.skipped is in this order.
type hidden uint8

const (
	hiddenBefore  hidden = iota // it ends below the start
	hiddenAborted               // its transaction was aborted
	hiddenControl               // it holds a marker
	hiddenByTime                // nothing in it lies in the range of time
	hiddenKinds
)

// What came of reading a damaged batch once more: metrics.refetches is in this order.
const (
	healed = iota
	stillDamaged
)

// Results of a request: first those of streams that did not fail, then the kinds of Error.
const (
	resultStopped = 0 // the caller stopped first, or a look-up by time was answered
	resultKinds   = int(endSegment)
	results       = resultKinds + kinds
)

type metrics struct {
	requests  [readKinds][2][results]prometheus.Counter
	records   prometheus.Counter
	served    [readKinds]prometheus.Counter
	fileBytes prometheus.Counter
	skipped   []prometheus.Counter
	fallbacks prometheus.Counter
	crcBytes  prometheus.Counter
	refetches []prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	s := metric.For(reg)
	requests := s.CounterVec("coldtap_fetch_requests_total",
		"Reads by what was asked of them (open: nothing, or refused), isolation level and how they ended: an end reason, stopped by the caller, or a kind of error.",
		"kind", "isolation", "result")
	served := s.CounterVec("coldtap_fetch_served_bytes_total",
		"Bytes of stored batches handed out, and bytes of segment files.", "kind")
	m := &metrics{
		records: s.Counter("coldtap_fetch_records_total", "Records handed out one by one."),
		skipped: metric.Values(s.CounterVec("coldtap_fetch_skipped_batches_total",
			"Batches passed over: below the start, of an aborted transaction, holding a transaction marker, or outside the range of time.",
			"reason"), "before_start", "aborted", "control", "timestamp"),
		fallbacks: s.Counter("coldtap_fetch_index_fallbacks_total",
			"Positions of an offset index where no batch for the offset began, so that an earlier position was read from."),
		crcBytes: s.Counter("coldtap_fetch_crc_checked_bytes_total", "Bytes of batches whose checksum was computed."),
		refetches: metric.Values(s.CounterVec("coldtap_fetch_damage_refetches_total",
			"Batches read once more from the store because the bytes at hand were damaged, by what came of it: healed, damaged (as stored).",
			"result"), "healed", "damaged"),
	}
	s.Must()
	for kind, name := range [readKinds]string{"open", "raw", "records", "offset"} {
		for isolation, level := range [2]string{"read_committed", "read_uncommitted"} {
			for result := range results {
				label := "stopped"
				if result > resultKinds {
					label = errkind.Label(Kind(result - resultKinds))
				} else if result > 0 && result < resultKinds {
					label = EndReason(result).String()
				} else if result == resultKinds {
					continue
				}
				m.requests[kind][isolation][result] = requests.WithLabelValues(name, level, label)
			}
		}
	}
	m.served[readRaw] = served.WithLabelValues("raw")
	m.served[readRecords] = served.WithLabelValues("records")
	m.fileBytes = served.WithLabelValues("file")
	return m
}

// tally is what one stream adds to the metrics when it closes: a counter per batch would be an atomic write per batch.
type tally struct {
	records int64
	served  int64
	skipped [hiddenKinds]int64
}

// finish adds up what a stream, and its scanner, have counted.
func (m *metrics) finish(st *Stream) {
	result := resultStopped
	if failed, ok := errors.AsType[*Error](st.err); ok {
		result = resultKinds + int(failed.Kind)
	} else if st.end < endSegment {
		result = int(st.end)
	}
	kind, t := st.filter.kind, &st.tally
	m.requests[kind][st.req.Isolation&1][result].Inc()
	if c := m.served[kind]; c != nil {
		c.Add(float64(t.served))
	}
	m.records.Add(float64(t.records))
	t.skipped[hiddenBefore] += st.scan.Stats.SteppedOver
	for reason, n := range t.skipped {
		if n > 0 {
			m.skipped[reason].Add(float64(n))
		}
	}
	m.scanned(&st.scan.Stats)
}

// scanned adds what a scanner has counted.
func (m *metrics) scanned(s *scan.Stats) {
	m.fallbacks.Add(float64(s.Fallbacks))
	m.crcBytes.Add(float64(s.CRCBytes))
	m.refetches[healed].Add(float64(s.Healed))
	m.refetches[stillDamaged].Add(float64(s.StillDamaged))
}
