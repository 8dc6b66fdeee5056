package cache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// shardCount spreads the index over enough locks that cores rarely meet: 64 against the 2 to 32 cores this runs on.
const shardCount = 64

// shard is a part of the index: what is in memory and what is in flight.
type shard struct {
	mu      sync.RWMutex
	chunks  map[Key]*Chunk
	flights map[Key]*flight
	closed  bool

	hits atomic.Uint64 // look-ups answered from memory; here because a common counter would be the one line all cores write

	_ [64]byte // the next shard's lock lives in another cache line
}

var seed = maphash.MakeSeed()

// hashKey spreads keys over shards and names them to ristretto, which keeps no more than the hash. Two keys may share
// one: the index compares whole keys, and ristretto's replies are about the chunk, not the key.
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
	// Under the lock, because ristretto must not be touched once Close has passed here.
	c.frequency.touch(hash)
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
