// Package readerpool admits reads to the object store: at most so many at a time, at most so many waiting, and a quick
// refusal beyond that. It is the broker's remote-log reader pool (KIP-405: remote.log.reader.threads and
// remote.log.reader.max.pending.tasks) with lanes instead of one queue.
//
// Invariants:
//   - Never more than Config.Threads reads run, and never more than Config.MaxPending wait.
//   - A place is handed from the read that ends to one that waits; it is given back whatever way a read ends, also by a
//     panic. A pool that loses places serves ever less and then nothing.
//   - Someone waits only while every place is taken.
//   - A read that gives up (its context, the queue timeout) frees its position in the queue at once.
//   - Within a lane reads start in order of arrival. A lane can be overtaken, but not for ever.
//
// Non-goals: the pool does not know what a read is, does not retry, and does not limit bytes or requests per second. It
// starts no goroutines: a read runs on its caller's.
package readerpool
