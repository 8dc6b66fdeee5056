package tier

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"coldtap/segment"
)

// crowd makes the changes of segments spread over partitions of perPartition each, with random ids as copiers draw
// them.
func crowd(segments, perPartition int) []Change {
	rng := rand.New(rand.NewPCG(3, 4))
	changes := make([]Change, 0, 2*segments)
	for i := range segments {
		p := PartitionID{Topic: topicA, Partition: int32(i / perPartition)}
		base := int64(i%perPartition) * 1000
		var u segment.UUID
		for k := range u {
			u[k] = byte(rng.Uint32())
		}
		changes = append(changes,
			SegmentAdded{Segment{ID: u, Partition: p, Topic: "orders", BaseOffset: base, EndOffset: base + 999, Size: 1 << 26,
				Epochs: []segment.EpochStart{{Epoch: 4, StartOffset: base}}}},
			SegmentUpdated{Partition: p, ID: u, State: CopyFinished})
	}
	return changes
}

// BenchmarkFind looks offsets up in a partition of 10,000 segments.
func BenchmarkFind(b *testing.B) {
	t := New()
	t.Apply(crowd(10_000, 10_000)...)
	rng := rand.New(rand.NewPCG(5, 6))
	id := PartitionID{Topic: topicA}
	b.ReportAllocs()
	for b.Loop() {
		p, _ := t.Snapshot().Partition(id)
		if _, ok := p.Find(rng.Int64N(10_000_000)); !ok {
			b.Fatal("not found")
		}
	}
}

// BenchmarkApplyAtOnce loads 300,000 segments, 10,000 a partition, in one call.
func BenchmarkApplyAtOnce(b *testing.B) {
	changes := crowd(300_000, 10_000)
	for b.Loop() {
		New().Apply(changes...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(changes)), "ns/change")
}

// BenchmarkApplyOneByOne publishes a view after each change of a partition that grows to 10,000 segments.
func BenchmarkApplyOneByOne(b *testing.B) {
	changes := crowd(10_000, 10_000)
	for b.Loop() {
		t := New()
		for _, c := range changes {
			t.Apply(c)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(changes)), "ns/change")
}

// The configured memory bound counts 300 bytes a live segment.
func TestLiveSegmentTakesAtMost300Bytes(t *testing.T) {
	const segments = 50_000
	tr := New()
	before := heap()
	func() {
		changes := crowd(segments, 10_000)
		for len(changes) > 0 {
			n := min(len(changes), 1000)
			tr.Apply(changes[:n]...)
			changes = changes[n:]
		}
	}()
	each := float64(heap()-before) / segments
	t.Logf("%.1f bytes a segment", each)
	if each > 300 {
		t.Errorf("a live segment takes %.1f bytes", each)
	}
	runtime.KeepAlive(tr)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
