// Package export copies a range of a topic from a gateway into files: ndjson, CSV, Parquet or raw batches.
//
// It is an HTTP client and knows nothing of stores. It asks for raw record batches in bounded requests, checks each
// batch's CRC, and decodes with package segment, so that what the files hold is checked from the producer to here,
// whatever lies between. Partitions are read side by side.
//
// Invariants:
//   - The range of each partition is fixed in the manifest before the first record is written.
//   - A file's bytes are on disk (fsync) before the manifest says so, and the manifest is replaced in one step. After a
//     kill at any moment the next run cuts files back to what the manifest says and goes on there: no gap and no
//     duplicate.
//   - A range that is not in the files is in the manifest as a hole with its reason, and the export is not complete.
//   - What the gateway says is not trusted: answers are bounded in size, offsets must make progress, and names never
//     lead out of the export's folder.
//
// A cut answer goes on behind its last whole batch; a gateway that is busy or away is asked again, a bounded number of
// times without progress. Memory: a batch and its records for each partition read at a time, and for Parquet a row
// group.
//
// Non-goals: following a topic's end, more than one topic in a folder, what the brokers have and the tier has not.
package export
