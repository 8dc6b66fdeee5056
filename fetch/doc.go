// Package fetch is one read of the tier, from request to a stream of batches, in four steps (Service.Open,
// Stream.nextBatch):
//
//   - resolve: the locator finds topic, partition, start offset and the segment that holds it, in the newest snapshot
//     of the tier;
//   - locate: the planner finds the position in the segment's log, from its offset index, and lists the chunks that the
//     answer can need, across segments;
//   - stream: a scanner (fetch/scan) gives the log's batches in order, each checked once;
//   - filter: a batch's header decides whether the answer shows the batch, passes it over, or ends before it.
//
// A part calls none above it. Consumers of the four are runs of stored batches, records, the look-up of an offset by
// time, and byte ranges of a segment's log. The package also gives the listings that its callers show.
//
// Invariants; those of the bytes are fetch/scan's:
//
//   - No byte of a batch is handed out, and no batch of the range that is asked for is passed over, before its checksum
//     has been checked; that holds for byte ranges of a log as well. A batch that is handed out in pieces because it is
//     too large to be held is read twice, and what comes the second time is what was checked the first.
//   - No answer and no segment ends at an offset that is not believed.
//   - Damage costs the batch that it lies in: the error says where a client that wants to go on finds the next one.
//   - A sound batch that the decode memory can't take is no damage: it is passed over, and handed out undecoded.
//   - A stream ends with a reason (EndReason) or with an error; it is never just short. Where it says how to go on,
//     that offset is beyond everything seen, so the same request is never invited twice.
//   - OutOfRange is said only when certain: metadata is loaded, and it was refreshed first unless the offset lies below
//     a start that was reported, since starts only move up. The same goes for a gap.
//   - read_committed ends where proof ends (EndUndecided).
//   - Records are in no order of time. A range of time gives records exactly: those in the range among the offsets up
//     to the first visible record at or after its end + lateness. A batch or segment is passed over unread only where
//     its largest timestamp lies before the range: then it does not hold the record to stop at either. Batches
//     (NextRun) come when their header's timestamps overlap the range, or when a record in them is wanted all the same.
//   - Waiting order, so that the two memory bounds can't deadlock: a read may wait for a chunk while it holds decode
//     memory, never for decode memory while it holds a chunk or decode memory, and never for a chunk while it holds a
//     chunk. What a caller of the stream holds beside it has shares of its own in the decode memory (package budget).
//   - Busy is said only of what others hold: a batch that the whole decode memory could not take, less what the caller
//     of the stream needs itself, is an error at once.
//
// It knows nothing of HTTP, of the Kafka protocol, or of where bytes and metadata come from: chunk sources and index
// loaders are given at wiring.
package fetch
