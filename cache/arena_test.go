package cache

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"coldtap/internal/invariants"
)

func newTestArena(t *testing.T, slabs int) *arena {
	a, err := newArena(int64(slabs)*testChunk+testChunk-1, testChunk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.unmap)
	if len(a.slabs) != slabs {
		t.Fatalf("%d slabs", len(a.slabs))
	}
	return a
}

func TestArenaGivesEachPlaceOnce(t *testing.T) {
	a := newTestArena(t, 3)
	taken := map[*byte]bool{}
	take := func(small bool) (slot, bool) {
		p, ok := a.allocate(small)
		if ok {
			b := a.bytes(p, int(a.size(p)))
			if cap(b) != len(b) {
				t.Fatal("a slot can be appended to, into its neighbour")
			}
			at := unsafe.SliceData(b)
			if taken[at] {
				t.Fatalf("slot %v was taken already", p)
			}
			taken[at] = true
		}
		return p, ok
	}
	whole, ok := take(false)
	if !ok {
		t.Fatal("an empty arena has no slab")
	}
	for range 2 * parts {
		if _, ok := take(true); !ok {
			t.Fatal("two free slabs hold fewer than 32 small slots")
		}
	}
	if _, ok := take(true); ok {
		t.Error("a small slot in a full arena")
	}
	if _, ok := take(false); ok {
		t.Error("a slab in a full arena")
	}
	if a.used != a.total() || a.slabsInUse() != 3 {
		t.Errorf("%d of %d bytes, %d slabs in use", a.used, a.total(), a.slabsInUse())
	}
	a.release(whole)
	if p, ok := a.allocate(false); !ok || p != whole {
		t.Error("the slab given back is not to be had")
	}
}

func TestSmallPlacesMergeAgain(t *testing.T) {
	a := newTestArena(t, 1)
	for range 3 {
		var slots []slot
		for range parts {
			p, _ := a.allocate(true)
			slots = append(slots, p)
		}
		rand.Shuffle(parts, func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		for _, p := range slots {
			if _, ok := a.allocate(false); ok {
				t.Fatal("a slab with a small chunk in it was given as a whole")
			}
			a.release(p)
		}
		p, ok := a.allocate(false)
		if !ok {
			t.Fatal("sixteen free parts are not a slab again")
		}
		a.release(p)
	}
	if a.used != 0 || a.slabsInUse() != 0 {
		t.Errorf("%d bytes, %d slabs in use", a.used, a.slabsInUse())
	}
}

// A random history keeps the accounts right.
func TestArenaAccounts(t *testing.T) {
	a := newTestArena(t, 5)
	rnd := rand.New(rand.NewPCG(1, 2))
	var held []slot
	var sum int64
	for range 5000 {
		if rnd.IntN(2) == 0 {
			if p, ok := a.allocate(rnd.IntN(4) > 0); ok {
				held = append(held, p)
				sum += a.size(p)
			}
		} else if len(held) > 0 {
			i := rnd.IntN(len(held))
			p := held[i]
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			sum -= a.size(p)
			a.release(p)
		}
		slabs := map[int32]bool{}
		for _, p := range held {
			slabs[p.slab] = true
		}
		if a.used != sum || a.slabsInUse() != len(slabs) {
			t.Fatalf("%d bytes and %d slabs in use, not %d and %d", a.used, a.slabsInUse(), sum, len(slabs))
		}
	}
}

func TestFreedMemoryIsPoisoned(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("only in builds with -race or the tag invariants")
	}
	a := newTestArena(t, 1)
	p, _ := a.allocate(false)
	b := a.bytes(p, testChunk)
	a.release(p)
	if b[0] != invariants.Poison || b[testChunk-1] != invariants.Poison {
		t.Error("whoever reads after Release sees the old bytes")
	}
}
