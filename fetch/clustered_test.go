package fetch

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/replaycluster"
	"coldtap/segment"
	"coldtap/tier"
)

// newClusterHarness is a harness over the frozen cluster of clusterfixture: metadata as its brokers wrote them, logs as
// they lie in its store.
func newClusterHarness(tb testing.TB, sh shape) (*harness, *clusterfixture.Fixture) {
	tb.Helper()
	s, f := newHarness(tb, sh), clusterfixture.Load(tb)
	if rejected := replaycluster.Apply(tb, f, s.tier); len(rejected) > 0 {
		tb.Fatalf("rejected: %+v", rejected)
	}
	for _, p := range f.Partitions() {
		id := tier.PartitionID{Topic: p.Topic.ID, Partition: p.Number}
		epochs, err := segment.ParseEpochCheckpoint([]byte(p.LeaderEpochs))
		if err != nil {
			tb.Fatal(err)
		}
		s.apply(tier.TopicSeen{ID: id.Topic, Name: p.Topic.Name}, tier.BoundsChanged{Partition: id, Bounds: tier.Bounds{
			Start: p.Start, LocalStart: p.LocalStart, HighWatermark: p.HighWatermark, LastStable: p.LastStable,
		}}, tier.LineageChanged{Partition: id, Epochs: epochs})
		for _, seg := range s.readable(id) {
			file := func(suffix string) []byte {
				return f.Objects[fmt.Sprintf("%s-%s/%020d-%s%s", p.Name(), id.Topic, seg.BaseOffset, seg.ID, suffix)]
			}
			s.logs[seg.ID] = &storedLog{harness: s, id: seg.ID, log: file(".log"), files: segment.Files{
				OffsetIndex: file(".index"), TimeIndex: file(".timeindex"), TxnIndex: file(".txnindex"), Snapshot: file(".snapshot")}}
		}
	}
	return s, f
}

// readable lists a partition's readable segments, by offset; none for a partition without metadata.
func (s *harness) readable(id tier.PartitionID) []*tier.Segment {
	if p, ok := s.tier.Snapshot().Partition(id); ok {
		return p.Segments(false)
	}
	return nil
}

// stretch is what a raw answer or a range of a file gave: bytes, and how it ended.
type stretch struct {
	bytes []byte
	end   EndReason
	next  int64
	err   error
}

// stretch reads without looking into what comes.
func (s *harness) stretch(r *Request) (a stretch) {
	st, err := s.Open(s.tb.Context(), r)
	if err != nil {
		return stretch{err: err}
	}
	defer st.Close()
	var run Run
	defer run.Release()
	for {
		if err := st.NextRun(s.tb.Context(), &run); err != nil {
			a.end, _ = st.End()
			a.next = st.NextOffset()
			if !errors.Is(err, io.EOF) {
				a.err = err
			}
			return a
		}
		a.bytes = append(a.bytes, run.Bytes()...)
	}
}
