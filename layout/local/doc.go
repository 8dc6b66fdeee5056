// Package local reads the layout of LocalTieredStorage, the storage plugin that Apache Kafka ships for its own tests:
//
//	<prefix><topic>-<partition>-<topic id>/<20-digit base offset>-<segment id>.log
//	                                                                          .index .timeindex .txnindex
//	                                                                          .snapshot .leader_epoch_checkpoint
//
// The plugin keeps these below <dir>/kafka-tiered-storage/, which is where the store is rooted, or what the prefix
// says. Objects are byte copies of the broker's files.
//
// Invariants:
//   - A key is made of the segment's ids and offsets, and nothing is listed or parsed: names and ids may hold '-'.
//   - The layout keeps no checksums, so a small file is what the store gave. A file that each copy has and that is not
//     there is named in Files.IndexDamaged: it costs time.
//   - A transaction index that is not there means "no aborted transactions" only as far as the format can tell, see
//     Layout.ReadFiles. Any other failure to read one fails the segment's files: aborted records never come out because
//     a request failed.
//   - Nothing here knows more of transactions than the segment's own index, so Files.Decided is false.
//
// Non-goals: writing (Kafka's plugin does), caching, deciding which segments exist, bounding how many reads run.
package local
