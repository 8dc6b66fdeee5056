package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/internal/invariants"
	"coldtap/readerpool"
)

// Everything at once: readers that keep chunks for a while and check them to the last moment, drops, read-ahead, a
// Source that fails, chunks of both sizes, hashes that collide, and a memory far too small. Nothing may leak or change
// under a reader.
func TestStress(t *testing.T) {
	const workers, operations = 6, 1500
	collide := func(k Key) uint64 { return uint64(k.Chunk%5)<<6 | uint64(k.Segment.ID[0])%3 }
	for name, hash := range map[string]func(Key) uint64{"hash": hashKey, "collisions": collide} {
		t.Run(name, func(t *testing.T) {
			c, st := openHashed(t, hash, 8), &store{}
			var n atomic.Uint64
			st.before = func(context.Context, Key, readerpool.Lane) error {
				if n.Add(1)%17 == 0 {
					return errStore
				}
				return nil
			}
			var wg sync.WaitGroup
			for worker := range workers {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(worker), 1))
					var kept *Chunk
					for range operations {
						r := st.chunkOf(rnd.IntN(3), rnd.IntN(20))
						if r.Key.Chunk%4 == 0 {
							r.Len = testChunk / parts
						}
						var ch *Chunk
						var err error
						switch op := rnd.IntN(100); {
						case op < 2:
							c.DropSegment(r.Key.Segment)
							continue
						case op < 10:
							c.Prefetch(context.Background(), r)
							continue
						case op < 40:
							ch, _ = c.TryAcquire(r.Key)
						case op < 70:
							ch, _, err = c.AcquireNoWait(context.Background(), r)
						default:
							if kept != nil { // as the contract has it: don't wait while holding
								kept.Release()
								kept = nil
							}
							ch, _, err = c.Acquire(context.Background(), r)
						}
						if err != nil && !errors.Is(err, errStore) && !errors.Is(err, ErrNoSlab) {
							t.Errorf("unexpected: %v", err)
							return
						}
						if ch == nil {
							continue
						}
						if ch.Key() != r.Key {
							t.Errorf("asked for %v, got %v", r.Key, ch.Key())
						}
						if kept != nil {
							if rnd.IntN(50) == 0 {
								c.Drop(kept)
							}
							if err := intact(kept); err != nil {
								t.Error(err)
							}
							kept.Release()
						}
						kept = ch
					}
					if kept != nil {
						kept.Release()
					}
				})
			}
			wg.Wait()
			if p := c.pinned(); p != 0 {
				t.Errorf("%d bytes pinned with no reader left", p)
			}
		})
	}
}

// J2: a memory of four chunks, 64 readers over 100 chunks: every byte right, no error, never more than the memory.
func TestJ2EvictionUnderReaders(t *testing.T) {
	c, st := open(t, 4), &store{}
	var wg sync.WaitGroup
	for reader := range 64 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(reader), 2))
			for range 50 {
				if _, err := read(c, st.chunkOf(1, rnd.IntN(100))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// J11: slow readers hold their chunk long after the cache wants its slab; the bytes they send must not change.
func TestJ11SlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := open(t, 4), &store{}
		defer c.Close(context.Background())
		var wg sync.WaitGroup
		for reader := range 64 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(reader), 3))
				for range 20 {
					ch, _, err := c.Acquire(context.Background(), st.chunkOf(1, rnd.IntN(50)))
					if err != nil {
						t.Error(err)
						continue
					}
					for range 4 {
						time.Sleep(10 * time.Millisecond)
						if err := intact(ch); err != nil {
							t.Error(err)
						}
					}
					ch.Release()
				}
			})
		}
		wg.Wait()
	})
}

// J4: segments deleted and read again in a loop while readers read them.
func TestJ4DropRacesWithReaders(t *testing.T) {
	c, st := open(t, 16), &store{}
	stop := make(chan struct{})
	var dropper, readers sync.WaitGroup
	dropper.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				k := segmentKeyN(n % 2)
				c.DropSegment(k.Segment)
				runtime.Gosched()
			}
		}
	})
	for reader := range 32 {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(reader), 4))
			for range 100 {
				if _, err := read(c, st.chunkOf(rnd.IntN(2), rnd.IntN(8))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	dropper.Wait()
}

// J8: loaded bytes go to those who wait, whatever the cache makes of them: 2,000 cold chunks at once, in a memory for
// 32.
func TestJ8LoadedBytesReachTheirReaders(t *testing.T) {
	c, st := open(t, 32), &store{}
	var wg sync.WaitGroup
	for n := range 2000 {
		wg.Go(func() {
			ch, _, err := c.Acquire(context.Background(), st.chunkOf(1, n))
			if err != nil {
				t.Error(err)
				return
			}
			defer ch.Release()
			// Also findable in the very moment it was loaded, while it is held.
			again, ok := c.TryAcquire(ch.Key())
			if !ok {
				t.Errorf("chunk %d is not found right after its load", n)
				return
			}
			again.Release()
		})
	}
	wg.Wait()
	if st.count() != 2000 {
		t.Errorf("%d loads of 2000 chunks", st.count())
	}
}

// J9: closing under load, twice, never panics; readers get their chunk or ErrClosed.
func TestJ9CloseUnderLoad(t *testing.T) {
	for range 50 {
		c, st := open(t, 16), &store{}
		var wg sync.WaitGroup
		for reader := range 200 {
			wg.Go(func() {
				for n := range 3 {
					r := st.chunkOf(1, (reader*3+n)%80)
					if _, err := read(c, r); err != nil && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					c.Prefetch(context.Background(), st.chunkOf(1, n))
					if ch, ok := c.TryAcquire(r.Key); ok {
						ch.Release()
					}
				}
			})
		}
		k := segmentKeyN(1)
		wg.Go(func() { c.DropSegment(k.Segment) })
		for range 2 {
			wg.Go(func() {
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := c.SlabsInUse(); n != 0 {
			t.Fatalf("%d slabs in use", n)
		}
	}
}

// J12: an idle cache costs its book-keeping, not its bound: 4 GiB of chunk memory in less than 2 MiB.
func TestJ12IdleMemory(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the arena is on the heap in this build")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := New(Config{Memory: 4 << 30, Chunk: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("New allocates %d KiB", n>>10)
	}
}

// J15: one backfill that reads 50 times the memory leaves the hot chunks of everybody else where they are.
func TestJ15ScanSparesTheHotSet(t *testing.T) {
	if invariants.Enabled {
		t.Skip("with the race detector sync.Pool forgets at random, and ristretto counts look-ups in one")
	}
	const slabs, hot = 256, 100
	c, st := open(t, slabs), &store{}
	for range 5 {
		for n := range hot {
			mustRead(t, c, st.chunkOf(1, n))
		}
	}
	hits, reads, next := 0, 0, 0
	for n := range 50 * slabs {
		r := st.chunkOf(2, n)
		r.Len = testChunk/parts + 1 // a whole slab, but quickly checked
		mustRead(t, c, r)
		// Each hot chunk is wanted once in 200 chunks of the scan: 100 chunks at 10 reads a second beside 2,000 chunks
		// a second.
		if n%2 == 0 {
			reads++
			if mustRead(t, c, st.chunkOf(1, next%hot)).Level == Mem {
				hits++
			}
			next++
		}
	}
	if share := float64(hits) / float64(reads); share < 0.8 {
		t.Errorf("%.0f %% of the hot reads came from memory", 100*share)
	} else {
		t.Logf("%.1f %% of the hot reads came from memory", 100*share)
	}
}

// J19: failing loads use nothing up. After hundreds of them, with readers waiting for slabs all the while, the store
// heals and all is well.
func TestJ19FailuresUseNothingUp(t *testing.T) {
	c, st := open(t, 4), &store{}
	var down atomic.Bool
	down.Store(true)
	st.before = func(_ context.Context, key Key, _ readerpool.Lane) error {
		if !down.Load() {
			return nil
		}
		if key.Chunk%3 == 0 {
			panic("a bug on the error path")
		}
		return errStore
	}
	storm := func(want bool) {
		var wg sync.WaitGroup
		for n := range 300 {
			wg.Go(func() {
				if _, err := read(c, st.chunkOf(1, n/2)); (err == nil) != want {
					t.Errorf("store down %v, but %v", down.Load(), err)
				}
			})
		}
		wg.Wait()
	}
	storm(false)
	if n := c.SlabsInUse(); n != 0 {
		t.Errorf("%d slabs kept by failed loads", n)
	}
	down.Store(false)
	storm(true)
}

// J22: 20,000 reads of which a third end badly, each in its way; then everything is there again.
func TestJ22NothingLeaks(t *testing.T) {
	c, st := open(t, 8), &store{}
	var n atomic.Uint64
	st.before = func(ctx context.Context, _ Key, _ readerpool.Lane) error {
		switch n.Add(1) % 9 {
		case 0:
			return errStore
		case 1:
			panic("corrupt")
		case 2:
			defer Queued(ctx)()
			runtime.Gosched() // long enough for a reader to leave
			return ctx.Err()
		}
		return nil
	}
	reads := 20000
	if invariants.Enabled {
		reads = 4000 // ten times slower there
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 5))
			for range reads / 8 {
				r := st.chunkOf(rnd.IntN(4), rnd.IntN(50))
				r.Len = lengthOf(r.Key)
				ctx, cancel := context.WithCancel(context.Background())
				if rnd.IntN(10) == 0 {
					go cancel()
				}
				if ch, _, err := c.Acquire(ctx, r); err == nil {
					ch.Release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if p := c.pinned(); p != 0 {
		t.Errorf("%d bytes pinned with no reader left", p)
	}
	st.before = nil
	for n := range 1000 {
		mustRead(t, c, st.chunkOf(5, n%30))
	}
}

// lengthOf is a length of either size class that depends on nothing but the key.
func lengthOf(k Key) int {
	if k.Chunk%3 == 0 {
		return 1 + int(k.Chunk)%(testChunk/parts)
	}
	return testChunk / 8
}
