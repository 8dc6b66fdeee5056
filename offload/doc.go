// Package offload copies the closed segments of a stopped broker's log directories into the tier, and on demand the
// active ones as far as they are stable.
//
// Once is one run over everything: it finds the partitions, decides for each segment whether it may be copied, checks
// every byte of those that may, and copies them one after another, in offset order. It follows Kafka's own copy task
// (org.apache.kafka.server.log.remote.storage.RemoteLogManager, KIP-405) where that has a say.
//
// Invariants:
//   - A segment is copied only when it is closed, ends below the checkpointed high watermark and ends below the last
//     stable offset, so that each transaction with data in it has ended, and how is known. With Config.SealActive, the
//     part of the active segment for which the same holds is copied as if it were closed there.
//   - STARTED is recorded before the first byte is sent, FINISHED after the layout says that all objects are durable.
//     A run that dies at any point leaves an unfinished copy, which the next run resumes under the same id, or removes.
//   - Nothing is copied unchecked: batch headers, checksums, offsets, epochs, indexes, transactions, snapshot. What
//     only speeds up look-ups (the indexes) is made anew when it is wrong, and reported; anything else that is wrong
//     stops the partition there, for its history has to stay contiguous. Other partitions go on.
//   - What Config.SkipDamaged gave up is a hole that every run looks at again, and fills once its segment is sound.
//   - Memory is bounded by constants and by the small files of one segment, whatever the size of a segment or batch:
//     a log is streamed through one buffer.
//   - A log directory is only ever read.
//
// Non-goals: live brokers (their leader, high watermark and last stable offset), retention, the sweep of orphans.
//
// What can be proven about missing data. The end of a segment is the next one's base less one, whatever the batches
// say, and compaction removes batches legally. So a hole in the offsets is damage only where nothing shows that the
// log was ever compacted: neither the directory's cleaner checkpoint nor a batch with fewer records than offsets. In a
// compacted log a lost batch is noticed only if it was a transaction's or a lost log file left its indexes behind.
package offload
