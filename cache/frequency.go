package cache

import (
	"github.com/dgraph-io/ristretto/v2"
)

// frequency decides which chunks stay when they fall out of the window.
type frequency interface {
	// touch counts a look-up, found or not.
	touch(hash uint64)
	// offer hands a chunk over. True: expel will be called for it exactly once, now or later. False: it never had it.
	offer(hash uint64, ch *Chunk, cost int64) bool
	// settle returns when every offer made before has been decided.
	settle()
	// forget makes it let go of the chunk with this hash, if it has one: expel is called for it.
	forget(hash uint64)
	// close ends it. No other call may run or follow.
	close()
}

// tinyLFU is ristretto as frequency.
type tinyLFU struct {
	cache *ristretto.Cache[uint64, *Chunk]
}

// newTinyLFU makes a tinyLFU that keeps chunks of at most budget bytes together, out of an arena of slabs slabs.
// expel is called with a nil chunk too, from any goroutine that calls a method, or ristretto's own.
func newTinyLFU(slabs int, budget int64, expel func(*Chunk)) (*tinyLFU, error) {
	rc, err := ristretto.NewCache(&ristretto.Config[uint64, *Chunk]{
		// The documented 10 counters an entry cost 1 to 5 points of hit ratio with a hot set under scans; 100 cost 300
		// bytes a chunk.
		NumCounters: 100 * int64(slabs),
		MaxCost:     max(budget, 1), // at 1 every chunk is refused: the window is all there is
		BufferItems: 64,
		// Costs are bytes of the arena; ristretto's own 56 bytes an entry are not in it.
		IgnoreInternalCost: true,
		// Keys are hashes already. A conflict hash would make ristretto drop values without telling; whole keys are
		// compared in our index.
		KeyToHash: func(hash uint64) (uint64, uint64) { return hash, 0 },
		OnExit:    expel,
		// Nothing here expires, so its sweep has no work: once a day instead of every 2.5 s.
		TtlTickerDurationInSec: 86400,
	})
	if err != nil {
		return nil, err
	}
	return &tinyLFU{rc}, nil
}

func (t *tinyLFU) touch(hash uint64) { t.cache.Get(hash) }

func (t *tinyLFU) offer(hash uint64, ch *Chunk, cost int64) bool {
	return t.cache.Set(hash, ch, cost)
}

func (t *tinyLFU) settle() { t.cache.Wait() }

func (t *tinyLFU) forget(hash uint64) { t.cache.Del(hash) }

func (t *tinyLFU) close() { t.cache.Close() }
