// Package indexcache keeps the small files of segments (offset, time and transaction index, producer snapshot, leader
// epochs), parsed, in bounded memory: an offset becomes a position in the log without a request to the store.
//
// An entry is loaded when somebody first asks for it, never before: a tier of 50,000 segments starts with an empty
// cache. Half of the memory is ristretto's, which keeps what is asked for often. A quarter is a window of the latest
// entries in front of it, because ristretto refuses newcomers that it has not seen often, and a reader that comes back
// for the next page of its segment is always such a newcomer. The last quarter is for loads that are under way.
//
// Invariants:
//   - One load per segment at a time, whoever asks. It has its own context: a caller that leaves does not end it.
//   - An entry can be found from the moment it was loaded: ristretto applies a Set later, so the window and the table
//     of flights hold an entry until ristretto has decided.
//   - Errors are not kept. The next caller tries again.
//   - A damaged offset or time index is an empty one, which costs a longer scan and nothing else. Damaged transaction
//     information is an error for read_committed and nothing else. Damaged files are fetched once more at once, and
//     again after 10 s, in case the damage was not the object's.
//   - What is cached plus what loads have reserved is at most Config.Memory. How large an object is shows only when it
//     arrives, so a load reserves an estimate: Kafka's default index density for the segment's size, or the largest
//     object lately seen. Up to 16 loads, each bounded by the layout's limit for an object, can exceed their estimate
//     once; the loads after them reserve that much.
//
// Non-goals: reading objects (the Load given at wiring does, through the reader pool) and deciding who may read.
package indexcache
