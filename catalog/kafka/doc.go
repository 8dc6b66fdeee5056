// Package kafka knows __remote_log_metadata, the topic in which brokers record the life of remote segments (KIP-405's
// TopicBasedRemoteLogMetadataManager): the records' format, the partition that a record belongs in, what a record
// changes in a tier, and how to follow the topic (Follower) or read it once (Walk).
//
// A record's value is an envelope (frame version, api key and message version, each an unsigned varint) around one of
// four messages in Kafka's flexible encoding: Segment, Update, PartitionDelete and Snapshot. Its key is null today and
// means nothing here.
//
// Invariants:
//   - Reading is lax where brokers come to differ: unknown tags, message version 1 (KIP-1266), epochs in any order and
//     null values pass or are told apart by an error's Kind, so that one record that is new to this package costs that
//     record only. A broker's own consumer stops for good at the first one.
//   - Writing is strict for the same reason: a value that would stop the brokers' consumers is refused. What Kafka
//     4.x writes for a record, Append writes, byte for byte, at message version 0.
//   - Nothing in a value sizes an allocation before it was compared with the bytes that are there. Hostile bytes give
//     an *Error, never a panic.
//   - A batch that cannot be read (checksum, compression, form) is asked for once more, then counted (BadBatch), logged
//     the first time, and passed over, if it is known where the next one begins. If not, its partition stops there:
//     Status says so, what is in the view goes on being served, and Refresh fails for what is filed in that partition.
//   - One leader's answer takes at most 32 MiB, of which 16 MiB of values are taken at a time. Batches that decompress
//     to more than 4 MiB, up to 64 MiB, are opened by one leader's reader at a time.
//   - Whether a step is legal after the ones before it is the tier's to say: Changes translates, it does not judge.
//   - A Follower's view is everything or nothing: it is published when it holds all that the topic held at the start,
//     with the bounds that the cluster told. Afterwards an answer's records become visible together.
//   - A partition's position moves with the batches that were passed, not with the records that were in them: offsets
//     that hold nothing (markers, what compaction took) keep nobody waiting.
//   - The snapshot file is a cache of the topic. Its positions and its segments are of one moment; whatever is wrong
//     with it costs a full replay and a warning. It restores the tier exactly, preferences among overlapping segments
//     included.
//   - Whatever breaks the chain between what was read and what the topic holds (another topic or cluster id, a log
//     start beyond the position, an end before it, a leader whose log parted from ours below it) starts the replay
//     anew, at growing distances; until it has caught up Ready says no. Each Fetch tells the leader epoch of the last
//     batch that was read, so that a leader notices records that an unclean election has replaced (Fetch version 12,
//     KIP-595).
//   - A Refresh is for a partition. It fails if that partition's leader, or the leader of the metadata partition in
//     which it is filed, did not answer; what other leaders do is no matter. Ready does not wait for leaders that are
//     away.
//   - A Refresh about a partition costs seven requests, and is not repeated within Options.Refresh when it was in vain.
//     Recent says that what the view tells of a partition needs none.
//   - Bounds, lineage, names, and whether a topic is gone, are for catalog/observe: records are applied through its
//     Observer.
//   - Trouble that lasts for 5 s is logged once per kind, and once more when it is over.
//   - Nothing is written to the cluster: the API keys sent are ApiVersions, Metadata (which never creates a topic),
//     ListOffsets and Fetch, and SASL's.
//
// The principal needs READ on the metadata topic and DESCRIBE on each topic that is served, nothing on the cluster and
// nothing on groups; a test holds that.
//
// Non-goals: writing to the topic, and consumer groups.
package kafka
