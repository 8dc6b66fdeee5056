package aiven

import (
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// What a caller keeps is cut by ChunkSize, so the first answer stays, whatever is learned later; and since ChunkSize is
// called outside of any bound of requests, it sends none.
func TestChunkSizeStays(t *testing.T) {
	log := testLog(132_000)
	s := newStand(t, Options{ManifestMemory: 1}) // keeps none
	w := &writer{chunk: 30_000, compressed: true}
	early, late, other := s.putSegment(w, log), testSegment(len(log)), testSegment(len(log))
	late.ID, other.ID = segment.UUID{1}, segment.UUID{2}
	w.put(s.Memory, late, log, testFiles())
	(&writer{chunk: 40_000, compressed: true}).put(s.Memory, other, log, testFiles())

	check := func(seg *tier.Segment, want int64) {
		t.Helper()
		asked := len(s.faults.Calls())
		if got := s.ChunkSize(seg, 100_000); got != want {
			t.Errorf("pieces of %d, want %d", got, want)
		}
		if n := len(s.faults.Calls()) - asked; n > 0 {
			t.Errorf("%d requests", n)
		}
	}
	check(early, 64<<10) // nothing is known yet
	if _, _, err := s.ReadFiles(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	check(early, 64<<10)
	mustRead(t, s, early, log, 64<<10, 128<<10)
	check(late, 90_000) // taken for one like the last
	mustRead(t, s, late, log, 0, 90_000)
	mustRead(t, s, other, log, 0, 40_000)
	check(other, 80_000)
	check(late, 90_000)
	check(early, 64<<10)
	check(&tier.Segment{}, 64<<10)
}

// A log that is read like a file says nothing about chunks, and neither do segments that follow it.
func TestChunkSizeOfPlainLogs(t *testing.T) {
	log := testLog(132_000)
	s := newStand(t, Options{})
	seg, next := s.putSegment(&writer{chunk: 30_000}, log), testSegment(len(log))
	next.ID = segment.UUID{1}
	if _, _, err := s.ReadFiles(t.Context(), seg); err != nil {
		t.Fatal(err)
	}
	for _, seg := range []*tier.Segment{seg, next} {
		if got := s.ChunkSize(seg, 100_000); got != 64<<10 {
			t.Errorf("pieces of %d", got)
		}
	}
}

// Only so many are remembered, those that were used last among them.
func TestForgottenGeometry(t *testing.T) {
	var g geometries
	key := func(i int) tier.SegmentKey { return tier.SegmentKey{Partition: tier.PartitionID{Partition: int32(i)}} }
	used := key(0)
	for i := range 2*rememberedGeometries + 1 {
		g.learn(key(i), int64(i)+7, 1)
		if i%1000 == 0 && g.of(used) != 7 {
			t.Fatalf("what was just used is forgotten after %d others", i)
		}
	}
	if n := len(g.chunks.fresh) + len(g.chunks.old); n > 2*rememberedGeometries || n < rememberedGeometries {
		t.Errorf("%d are remembered", n)
	}
	if got := g.of(key(1)); got != g.usual {
		t.Errorf("a forgotten one is %d, want the usual %d", got, g.usual)
	}
	g.learn(key(1), 5, 1)
	if got := g.of(key(1)); got != int64(2*rememberedGeometries)+7 {
		t.Errorf("another answer: %d", got)
	}
}
