// Package cache keeps chunks of log bytes in memory, loads the ones it lacks, and keeps the memory of all of them under
// one hard bound.
//
// # The bound
//
// An arena of Config.Memory/Config.Chunk slabs is mapped at the start and never grows. A slab is reserved before a load
// begins, so that what is in flight, what readers hold and what is merely cached never exceed the arena together.
// A chunk of at most a sixteenth of Config.Chunk takes a sixteenth of a slab, so that the tails of segments and small
// segments don't waste a whole one.
//
// When no slab is free, the coldest chunk that nobody holds goes. When readers and flights hold every slab, loads wait
// in order of arrival, and Config.Pressure is called.
//
// # Who owns a chunk
//
// Chunks are counted references. The index's own reference counts as one; each *Chunk handed out is one more and
// belongs to the caller, who gives it back with Release, exactly once. The cache lets go only of a chunk that nobody
// else holds (its count goes from one to zero in one step, and never up from zero), so a chunk in use stays findable
// and is never loaded twice. DropSegment and Drop are the exceptions: they forget chunks whoever holds them, and a
// chunk that was dropped can be loaded again while the old one is still held. Chunk headers are garbage-collected and
// never reused; only slabs are.
//
// # Who stays
//
// New chunks enter a recency window (Config.WindowShare of the arena). What falls out of it is offered to ristretto,
// which keeps the frequently used and refuses the rest. Without the window, a chunk read once, refused by ristretto
// and wanted again 50 ms later is fetched again: with 64 sequential readers that touch each chunk four times ristretto
// alone served 16 % of the reads from memory, with a window of half the memory 75 %. Ristretto decides nothing but
// who stays: a chunk is found through our own index, because ristretto shows a value only some time after it was set,
// and its cost limit does not bound memory (32,768 accepted values may be waiting to be counted).
//
// # Flights
//
// There is one load per key at a time, whoever asks. It runs in a goroutine of the cache under its own deadline: a
// reader that leaves does not disturb the others, and a load that has begun ends in the cache. One that still waits for
// its turn and that nobody wants any more is dropped. When a load fails, the caller that started it gets the error and
// one of those who joined tries once more with its own Source and lane; after that everybody gets the error. Errors
// are never kept.
//
// # Locks, in the order they may nest
//
// Cache.policy (moves between window and ristretto) → shard.mu (index and flights of a part of the keys) → Cache.mu
// (arena, lists, slab queue). Ristretto's callbacks take shard.mu and Cache.mu, one after the other; so nobody calls
// a ristretto method that may wait for it while holding those. A hit takes the read lock of its shard, nothing else.
//
// # Not here
//
// Where bytes come from (Source), what they mean, who may read them, and how far to read ahead.
package cache
