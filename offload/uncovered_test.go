package offload

import (
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// The tier's end lies behind a segment that it lacks, as after a rebuild from objects of which one was lost: the
// segment is copied, not taken for copied.
func TestSegmentThatTheTierLacksIsCopied(t *testing.T) {
	dir, before := extract(t, "plain-0"), newFakeTier()
	before.offload(t, before.config(dir))
	for missing := range 6 {
		w := newFakeTier()
		p := before.partition(t, "plain", 0)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(w.PutTopic(t.Context(), p.ID().Topic, "plain"))
		must(w.PutPartition(t.Context(), p.ID(), 0, []segment.EpochStart{{Epoch: 0, StartOffset: 0}}))
		for i, s := range p.Segments(false) {
			if i == missing {
				continue
			}
			started := *s
			started.State = tier.CopyStarted
			must(w.StartCopy(t.Context(), started))
			must(w.FinishCopy(t.Context(), p.ID(), s.ID))
		}
		report := w.offload(t, w.config(dir))
		if r := of(t, report, "plain", 0); report.Failed() || r.Segments != 1 {
			t.Fatalf("without segment %d: %d copied, left %+v", missing, r.Segments, r.Left)
		}
		after := w.partition(t, "plain", 0)
		for offset := int64(0); offset < 554; offset++ {
			if seg, ok := after.Find(offset); !ok || seg.BaseOffset > offset || seg.EndOffset < offset {
				t.Fatalf("without segment %d: offset %d is not in the tier", missing, offset)
			}
		}
	}
}
