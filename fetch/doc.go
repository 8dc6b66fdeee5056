// Package fetch is one read of the tier, from request to a stream of batches, in four visible steps:
//
//   - resolve: the topic, the partition's bounds and the start offset, from the newest snapshot of the tier;
//   - locate: the segment that holds the offset, and the position in its log, from its offset index;
//   - stream: the log's chunks, in order and across segments, with read-ahead no further than the answer can need;
//   - filter: batches cut by header arithmetic, each checksum checked once, what the isolation level hides left out.
//
// It also answers look-ups by time, the listings that its callers show, and byte ranges of a segment's files.
//
// Invariants:
//
//   - No byte of a batch is handed out, and no batch of the range that is asked for is passed over, before its checksum
//     has been checked; that holds for byte ranges of a log as well. A batch that is handed out in pieces because it is
//     too large to be held is read twice, and what comes the second time is what was checked the first.
//   - A batch's base offset, which no checksum covers, is believed when it follows on the batch before it, or else
//     after a look at the header behind it; no answer and no segment ends at an offset that is not believed.
//   - Damage is believed at the second sight: a batch whose bytes fail leaves memory with its chunks and is read from
//     the store once more. What is damaged there too is not kept either, so an object that was repaired is seen at
//     once. Records that a right checksum covers are as they were written, and no reason to read again.
//   - Damage costs the batch that it lies in. What lies below the offset that is asked for is stepped over, unread
//     again, when the batch behind it begins at or below that offset and is proven (see behind.go): whatever is damaged
//     lies below it then. Else the error names that batch's offset, or where none is proven the one behind the segment,
//     so that a client which follows it always gets on. A search by time needs more: that no record in the damage can
//     be the answer.
//   - A sound batch that the decode memory can't take is no damage: it is passed over, and handed out undecoded.
//   - A stream ends with a reason (EndReason) or with an error; it is never just short. Where it says how to go on,
//     that offset is beyond everything seen, so the same request is never invited twice.
//   - OutOfRange is said only when certain: metadata is loaded, and it was refreshed first unless the offset lies below
//     a start that was told, since starts only move up. So it was before a gap is reported.
//   - read_committed ends where proof ends (EndUndecided).
//   - Records are in no order of time. A range of time gives records exactly: those in the range among the offsets up
//     to the first visible record at or after its end + lateness. A batch or segment is passed over unread only where
//     its largest timestamp lies before the range: then it does not hold the record to stop at either. Batches
//     (NextRun) come when their header's timestamps overlap the range, or when a record in them is wanted all the same.
//   - Waiting order, so that the two memory bounds can't deadlock: one may wait for a chunk while holding decode
//     memory, never for decode memory while holding a chunk or decode memory, and never for a chunk while holding a
//     chunk. What a caller of the stream holds beside it has shares of its own in the decode memory (package budget).
//   - Busy is said only of what others hold: a batch that the whole decode memory could not take, less what the caller
//     of the stream needs itself, is an error at once.
//
// It knows nothing of HTTP, of the Kafka protocol, or of where bytes and metadata come from: chunk sources and index
// loaders are given at wiring.
package fetch
