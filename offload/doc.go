// Package offload copies the closed segments of a stopped broker's log directories into the tier, and on demand the
// active ones as far as they are stable.
//
// Once is one run over everything: it finds the partitions, decides for each segment whether it may be copied, checks
// every byte of those that may, and copies them one after another, in offset order. It follows Kafka's own copy task
// (org.apache.kafka.server.log.remote.storage.RemoteLogManager, KIP-405) where there is one.
//
// Invariants:
//   - A segment is copied only when it is closed, ends below the checkpointed high watermark and ends below the last
//     stable offset, so that each transaction with data in it has ended, and how is known. With Config.SealActive, the
//     part of the active segment for which the same holds is copied as if it were closed there.
//   - COPY_SEGMENT_STARTED is recorded before the first byte is sent, COPY_SEGMENT_FINISHED after the layout says that
//     all objects are durable. A run that dies at any point leaves an unfinished copy, which the next run resumes under
//     the same id, or removes.
//   - Nothing is copied unchecked: batch headers, checksums, offsets, epochs, indexes, transactions, snapshot. Indexes,
//     which only speed up look-ups, are rebuilt when they are wrong, and reported; anything else that is wrong stops
//     the partition there, because its history has to stay contiguous. Other partitions go on.
//   - A segment that Config.SkipDamaged gave up is a hole, which every run checks again, and fills once the segment is
//     sound.
//   - Memory is bounded by constants and by the small files of one segment, whatever the size of a segment or batch:
//     a log is streamed through one buffer.
//   - A log directory is only ever read.
//
// Non-goals: live brokers (their leader, high watermark and last stable offset), retention, the sweep of orphans.
//
// What can be proven about missing data: a segment ends one offset below the next one's base, wherever its last batch
// ends, and compaction removes batches legally. So missing offsets are damage only where nothing shows that the log was
// ever compacted: neither the directory's cleaner checkpoint nor a batch with fewer records than offsets. In a
// compacted log a lost batch is noticed only if it was a transaction's, or if a lost log file left its indexes behind.
package offload
