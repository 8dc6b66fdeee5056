// Package indexcache keeps the small files of segments (offset, time and transaction index, producer snapshot, leader
// epochs), parsed, in bounded memory: an offset becomes a position in the log without a request to the store.
//
// An entry is loaded at the first request for it, never before: a tier of 50,000 segments starts with an empty cache.
// Half of the memory is ristretto's, which keeps what is asked for often. A quarter is a window of the latest entries
// in front of it, because ristretto refuses keys that it has not seen often, and the segment of a reader that comes
// back for the next page is always such a key. The last quarter is for loads that are under way.
//
// Invariants:
//   - One load per segment at a time, shared by all callers (internal/flight). It has its own context: a caller that
//     leaves does not end it, unless it was the last one and the load still waits for memory.
//   - An entry is found from the moment that it is loaded: ristretto shows an item only some time after Set, so the
//     policy keeps what it has offered until ristretto has decided.
//   - Errors are not kept. The next caller tries again.
//   - A damaged offset or time index counts as empty: reads scan further, and are right. Damaged transaction
//     information is an error, for read_committed only. Damaged files are fetched once more at once, and again after 10
//     s, because the object itself may be sound.
//   - What is cached plus what loads have reserved is at most Config.Memory. The size of an object is not known before
//     it arrives, so a load reserves an estimate: Kafka's default index density for the segment's size, or the size of
//     the largest object lately seen. Up to 16 loads, each bounded by the layout's limit for an object, can exceed
//     their estimate once; the loads after them reserve that much.
//
// Non-goals: reading objects (the Load given at wiring does, through the reader pool) and deciding who may read.
package indexcache
