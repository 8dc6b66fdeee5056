// Package segment reads and writes the file formats of Kafka's log: record batches of every magic and codec, the
// offset, time and transaction index, producer snapshots, checkpoints, and the names of directories and files.
//
// Everything here is a pure function over bytes: no goroutine, no clock, and no I/O but that of a LogReader, which
// walks a log that its caller's io.Reader gives. The other piece of state is a Decoder, which keeps its decompression
// buffer from one batch to the next.
//
// Invariants:
//   - No length, count or position found in the bytes is believed before it has been compared with what was given, and
//     none sizes an allocation on its own. Hostile bytes give an *Error, never a panic.
//   - What does not compress is not copied: records, keys, values and headers are views into the batch.
//   - Decompressed bytes are bounded by the caller's limit and taken from its Budget before they are allocated.
//   - Where Kafka's own reader is laxer than the format, records come out as Kafka's consumer sees them (any negative
//     length is null); where it silently drops bytes (a cut inner message, a cut snappy chunk), this package refuses.
//
// The formats follow Kafka's classes DefaultRecordBatch, DefaultRecord, AbstractLegacyRecordBatch, LegacyRecord,
// ControlRecordType, OffsetIndex, TimeIndex, TransactionIndex, ProducerStateManager, CheckpointFile and
// PartitionMetadataFile.
//
// Non-goals: writing record batches (the tier passes them through as stored), deciding which records a reader may see,
// and everything that spans two files.
package segment
