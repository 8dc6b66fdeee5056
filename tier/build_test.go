package tier

import (
	"encoding/binary"
	"fmt"
	"testing"

	"coldtap/segment"
)

var (
	topicA = segment.UUID{15: 0xa}
	topicB = segment.UUID{15: 0xb}
	part0  = PartitionID{Topic: topicA}
)

func id(n uint64) (u segment.UUID) {
	binary.BigEndian.PutUint64(u[8:], n)
	return u
}

// epochList makes epochs of pairs: epoch, start, epoch, start, …
func epochList(pairs ...int64) []segment.EpochStart {
	var l []segment.EpochStart
	for i := 0; i < len(pairs); i += 2 {
		l = append(l, segment.EpochStart{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return l
}

func seg(n uint64, base, end int64, epochs ...int64) Segment {
	return Segment{ID: id(n), Partition: part0, Topic: "t", BaseOffset: base, EndOffset: end, Size: 1000, Epochs: epochList(epochs...)}
}

func added(s Segment) []Change { return []Change{SegmentAdded{s}} }

func finished(segs ...Segment) (cs []Change) {
	for _, s := range segs {
		cs = append(cs, SegmentAdded{s}, SegmentUpdated{Partition: s.Partition, ID: s.ID, State: CopyFinished})
	}
	return cs
}

func deleted(ids ...uint64) (cs []Change) {
	for _, n := range ids {
		cs = append(cs,
			SegmentUpdated{Partition: part0, ID: id(n), State: DeleteStarted},
			SegmentUpdated{Partition: part0, ID: id(n), State: DeleteFinished})
	}
	return cs
}

func lineageIs(pairs ...int64) Change {
	return LineageChanged{Partition: part0, Epochs: epochList(pairs...)}
}

func startIs(start int64) Change {
	return BoundsChanged{Partition: part0, Bounds: Bounds{Start: start, LocalStart: -1, HighWatermark: -1, LastStable: -1}}
}

func build(t testing.TB, groups ...[]Change) *Tier {
	t.Helper()
	tr := New()
	for _, cs := range groups {
		if r := tr.Apply(cs...); len(r) > 0 {
			t.Fatalf("rejected: %+v", r)
		}
	}
	return tr
}

func partition(t testing.TB, tr *Tier) *Partition {
	t.Helper()
	p, ok := tr.Snapshot().Partition(part0)
	if !ok {
		t.Fatal("the partition is not there")
	}
	return p
}

// wantAt checks what Find gives; 0 is none.
func wantAt(t *testing.T, p *Partition, want map[int64]uint64) {
	t.Helper()
	for offset, n := range want {
		got, ok := p.Find(offset)
		check(t, fmt.Sprintf("Find(%d)", offset), got, ok, n)
	}
}

func check(t *testing.T, what string, got *Segment, ok bool, n uint64) {
	t.Helper()
	switch {
	case ok != (got != nil):
		t.Errorf("%s: segment %v with ok %v", what, got, ok)
	case n == 0 && ok:
		t.Errorf("%s gives [%d..%d], want none", what, got.BaseOffset, got.EndOffset)
	case n != 0 && !ok:
		t.Errorf("%s gives none, want segment %d", what, n)
	case n != 0 && got.ID != id(n):
		t.Errorf("%s gives [%d..%d] id %x, want segment %d", what, got.BaseOffset, got.EndOffset, got.ID[8:], n)
	}
}

// walk reads all offsets from start as a reader does: segment by segment, each from where the last one ended.
func walk(t *testing.T, p *Partition, start int64) (offsets []int64) {
	t.Helper()
	for s, ok := p.Find(start); ok; s, ok = p.Next(s) {
		if s.EndOffset < start {
			t.Fatalf("offset %d was answered with [%d..%d]", start, s.BaseOffset, s.EndOffset)
		}
		for o := max(start, s.BaseOffset); o <= s.EndOffset; o++ {
			offsets = append(offsets, o)
		}
		start = s.EndOffset + 1
	}
	return offsets
}

func wantRange(t *testing.T, got []int64, from, to int64) {
	t.Helper()
	if int64(len(got)) != to-from {
		t.Fatalf("%d offsets were read, want %d (%d..%d): %v", len(got), to-from, from, to-1, got)
	}
	for i, o := range got {
		if o != from+int64(i) {
			t.Fatalf("offset %d was read where %d belongs", o, from+int64(i))
		}
	}
}
