package cache

import (
	"context"
	"testing"
)

// What readers hold is never dropped from the index, or a second reader would load it into a second slab.
func TestHeldChunksStayFindable(t *testing.T) {
	c, st := open(t, 8), &store{}
	held := hold(t, c, st, 1, 5)
	for n := range 100 {
		mustRead(t, c, st.chunkOf(2, n))
	}
	before := st.count()
	for n := range held {
		if o := mustRead(t, c, st.chunkOf(1, n)); o.Level != Mem {
			t.Errorf("held chunk %d was loaded again", n)
		}
	}
	if st.count() != before {
		t.Error("loads of chunks that were in memory")
	}
	release(held)
}

// A small chunk that a reader holds keeps its whole slab, and only that.
func TestSmallChunksYieldTheirSlab(t *testing.T) {
	c, st := open(t, 4), &store{}
	small := func(n int) Request {
		r := st.chunkOf(1, n)
		r.Len = testChunk / parts
		return r
	}
	for n := range 4 * parts {
		mustRead(t, c, small(n))
	}
	if c.SlabsInUse() != 4 {
		t.Fatalf("64 small chunks fill %d slabs of 4", c.SlabsInUse())
	}
	var found *Chunk
	for n := range 4 * parts {
		if ch, ok := c.TryAcquire(small(n).Key); ok {
			found = ch
			break
		}
	}
	if found == nil {
		t.Fatal("no small chunk cached")
	}
	held := hold(t, c, st, 2, 3)
	if _, _, err := c.AcquireNoWait(context.Background(), st.chunkOf(2, 3)); err != ErrNoSlab {
		t.Errorf("a slab with a held chunk in it was given away: %v", err)
	}
	if err := intact(found); err != nil {
		t.Error(err)
	}
	found.Release()
	mustRead(t, c, st.chunkOf(2, 3))
	release(held)
}

// One pass over ten times the memory costs each chunk one load, and leaves the arena full of what is cached.
func TestScanLoadsEachChunkOnce(t *testing.T) {
	c, st := open(t, 16), &store{}
	for n := range 160 {
		// Four batches of a chunk, one after the other: the session that reads them holds the chunk, but another may
		// read the same.
		for range 4 {
			mustRead(t, c, st.chunkOf(1, n))
		}
	}
	if st.count() != 160 {
		t.Errorf("%d loads of 160 chunks", st.count())
	}
}
