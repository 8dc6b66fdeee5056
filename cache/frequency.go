package cache

import (
	"github.com/dgraph-io/ristretto/v2"
)

// frequency decides which chunks stay when they fall out of the window.
type frequency interface {
	// count counts a look-up, found or not.
	count(hash uint64)
	// offer hands a chunk over. True: evicted is called for it exactly once, now or later. False: it was not taken.
	offer(hash uint64, ch *Chunk, cost int64) bool
	// waitDecided returns when every offer made before has been decided.
	waitDecided()
	// forget removes the chunk with this hash, if there is one: evicted is called for it.
	forget(hash uint64)
	// close ends it. No other call may run at the time or follow.
	close()
}

// tinyLFU is ristretto as frequency.
type tinyLFU struct {
	cache *ristretto.Cache[uint64, *Chunk]
}

// newTinyLFU makes a tinyLFU that keeps chunks of at most budget bytes together, out of an arena of slabs slabs.
// evicted is called for each chunk that it refuses, evicts or forgets, and with nil for unknown keys, on the goroutine
// of any caller, or on ristretto's own.
func newTinyLFU(slabs int, budget int64, evicted func(*Chunk)) (*tinyLFU, error) {
	rc, err := ristretto.NewCache(&ristretto.Config[uint64, *Chunk]{
		// The documented 10 counters an entry cost 1 to 5 points of hit ratio with a hot set under scans; 100 cost 300
		// bytes a chunk.
		NumCounters: 100 * int64(slabs),
		MaxCost:     max(budget, 1), // at 1 every chunk is refused: the window is all there is
		BufferItems: 64,
		// Costs are bytes of the arena; ristretto's own 56 bytes an entry are not in it.
		IgnoreInternalCost: true,
		// Keys are hashes already. With a conflict hash ristretto would drop values without a call of OnExit;
		// whole keys are compared in our index.
		KeyToHash: func(hash uint64) (uint64, uint64) { return hash, 0 },
		OnExit:    evicted,
		// Nothing here expires, so its sweep has no work: once a day instead of every 2.5 s.
		TtlTickerDurationInSec: 86400,
	})
	if err != nil {
		return nil, err
	}
	return &tinyLFU{rc}, nil
}

func (t *tinyLFU) count(hash uint64) { t.cache.Get(hash) }

func (t *tinyLFU) offer(hash uint64, ch *Chunk, cost int64) bool {
	return t.cache.Set(hash, ch, cost)
}

func (t *tinyLFU) waitDecided() { t.cache.Wait() }

func (t *tinyLFU) forget(hash uint64) { t.cache.Del(hash) }

func (t *tinyLFU) close() { t.cache.Close() }
