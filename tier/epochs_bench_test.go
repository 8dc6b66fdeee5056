package tier

import (
	"fmt"
	"testing"
	"time"

	"coldtap/segment"
)

// flapping is a segment whose leader changed with every record.
func flapping(n uint64, base int64, epoch int32, epochs int) Segment {
	s := Segment{ID: id(n), Partition: part0, Topic: "t", BaseOffset: base, EndOffset: base + int64(epochs) - 1, Size: 1000}
	for i := range epochs {
		s.Epochs = append(s.Epochs, segment.EpochStart{Epoch: epoch + int32(i), StartOffset: base + int64(i)})
	}
	return s
}

// BenchmarkManyEpochs changes a partition that holds a segment of as many epochs as one may have: its segment is
// finished, another change of the segments follows, the bounds move (as they do each second), and an offset is looked
// up.
func BenchmarkManyEpochs(b *testing.B) {
	for _, n := range []int{12_500, 25_000, 50_000, maxEpochs} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var finish, next, bounds, find time.Duration
			for b.Loop() {
				b.StopTimer()
				t := New()
				s := flapping(1, 0, 0, n)
				t.Apply(added(s)...)
				b.StartTimer()
				for _, step := range []struct {
					took *time.Duration
					do   func()
				}{
					{&finish, func() { t.Apply(SegmentUpdated{Partition: part0, ID: s.ID, State: CopyFinished}) }},
					{&next, func() { t.Apply(finished(seg(2, int64(n), int64(n)+9, int64(n), int64(n)))...) }},
					{&bounds, func() { t.Apply(startIs(0)) }},
					{&find, func() {
						p, _ := t.Snapshot().Partition(part0)
						if _, ok := p.Find(int64(n) / 2); !ok {
							b.Fatal("not found")
						}
					}},
				} {
					begun := time.Now()
					step.do()
					*step.took += time.Since(begun)
				}
			}
			for _, m := range []struct {
				name string
				took time.Duration
			}{{"finish", finish}, {"next", next}, {"bounds", bounds}, {"find", find}} {
				b.ReportMetric(float64(m.took.Microseconds())/float64(b.N), m.name+"-us")
			}
		})
	}
}

// BenchmarkManyGaps adds a segment to a partition whose segments have an epoch and a gap each, so that none proves
// which epoch came before its own.
func BenchmarkManyGaps(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := New()
			var segs []Segment
			for i := range int64(n) {
				segs = append(segs, seg(uint64(i+1), 10*i, 10*i+5, i, 10*i))
			}
			t.Apply(finished(segs...)...)
			next := int64(n)
			for b.Loop() {
				t.Apply(finished(seg(uint64(next+1), 10*next, 10*next+5, next, 10*next))...)
				next++
			}
		})
	}
}
