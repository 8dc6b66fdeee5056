package cache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// shardCount is how many locks the index has: 64, so that the 2 to 32 cores this runs on rarely wait for the same one.
const shardCount = 64

// shard is a part of the index: what is in memory and what is in flight.
type shard struct {
	mu      sync.RWMutex
	chunks  map[Key]*Chunk
	flights map[Key]*flight
	closed  bool

	// hits are look-ups answered from memory, by shard: to a common counter all cores would write.
	hits atomic.Uint64

	_ [64]byte // the next shard's lock lives in another cache line
}

var seed = maphash.MakeSeed()

// hashKey spreads keys over shards, and is all of a key that ristretto keeps. Two keys may have the same hash: the
// index compares whole keys, and ristretto's callbacks name the chunk, not the key.
func hashKey(k Key) uint64 { return maphash.Comparable(seed, k) }

func (c *Cache) shard(hash uint64) *shard { return &c.shards[hash%shardCount] }

// find gives a reference to a chunk in memory and counts the use. It allocates nothing.
func (s *shard) find(c *Cache, key Key, hash uint64) *Chunk {
	s.mu.RLock()
	ch := s.chunks[key]
	if ch == nil || s.closed || !ch.tryAcquire() {
		s.mu.RUnlock()
		return nil
	}
	// Under the lock, because Close sets closed under it before it closes ristretto.
	c.frequency.count(hash)
	s.mu.RUnlock()
	s.hits.Add(1)
	ch.used()
	return ch
}

// remove takes a chunk out of the index, unless another with the same key has taken its place.
func (s *shard) remove(ch *Chunk) {
	s.mu.Lock()
	if s.chunks[ch.key] == ch {
		delete(s.chunks, ch.key)
	}
	s.mu.Unlock()
}
