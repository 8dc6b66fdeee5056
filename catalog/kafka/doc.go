// Package kafka knows __remote_log_metadata, the topic in which brokers record the life of remote segments (KIP-405's
// TopicBasedRemoteLogMetadataManager): the records' format, the partition that a record belongs in, what a record
// changes in a tier, and how to follow the topic (Follower) or read it once (Walk).
//
// A record's value is an envelope (frame version, api key and message version, each an unsigned varint) around one of
// four messages in Kafka's flexible encoding: Segment, Update, PartitionDelete and Snapshot. Its key is null today and
// means nothing here.
//
// Records:
//   - Reading is lax where brokers come to differ: unknown tags, message version 1 (KIP-1266) and epochs in any order
//     are accepted, and what is not has an error whose Kind says why, so that a record that is new to this package
//     costs that record only. A broker's own consumer stops for good at the first one.
//   - Nothing in a value sizes an allocation before it was compared with the bytes that are there. Hostile bytes give
//     an *Error, never a panic.
//   - Whether a step is legal after the ones before it is decided by the tier: Changes translates only.
//
// Following:
//   - A Follower's view is everything or nothing: it is published when it holds all that the topic held at the start,
//     with the bounds that the leaders answered. Afterwards an answer's records become visible together.
//   - A partition's position moves with the batches that were passed, not with the records that were in them: offsets
//     that hold nothing (markers, what compaction removed) keep no caller waiting.
//   - A batch that cannot be read (checksum, compression, form) is fetched once more, then counted (BadBatch), logged
//     the first time, and passed over, if it is known where the next one begins. If not, its partition stops there:
//     Status says so, what is in the view is served on, and Refresh fails for partitions whose records are there.
//   - One leader's answer takes at most 32 MiB, of which 16 MiB of values are used at a time. Batches that decompress
//     to more than 4 MiB, up to 64 MiB, are open one at a time.
//   - What breaks the chain between what was read and what the topic holds (another topic or cluster id, a log start
//     beyond the position, an end before it, a leader whose log diverges from ours below it) restarts the replay, at
//     growing intervals; until it has caught up Ready fails. Each Fetch has the leader epoch of the last batch that was
//     read, so that a leader notices records that an unclean election has replaced (Fetch version 12, KIP-595).
//   - The snapshot file is a cache of the topic. Its positions and its segments are of one moment; whatever is wrong
//     with it costs a full replay and a warning. It restores the tier exactly, preferences among overlapping segments
//     included.
//   - Trouble that lasts for 5 s is logged once per kind, and once more when it is over.
//
// Refreshing:
//   - A Refresh is for a partition. It fails if that partition's leader, or the leader of the metadata partition that
//     has its records, did not answer; other leaders do not matter. Ready does not wait for leaders that are away.
//   - A Refresh about a partition costs seven requests, and is not repeated within Options.Refresh when it found
//     nothing new. When Recent is true the view of a partition needs none.
//   - Bounds, lineage, names, and whether a topic is gone, are for catalog/observe: records are applied through its
//     Observer.
//
// The cluster:
//   - It is asked through the Brokers of package cluster, which know leaders and offsets; this package builds Fetch
//     requests only. Nothing is written: the API keys sent are ApiVersions, Metadata (which never creates a topic),
//     ListOffsets and Fetch, and SASL's.
//
// The principal needs READ on the metadata topic and DESCRIBE on each topic that is served, nothing on the cluster and
// nothing on groups; a test holds that.
//
// Non-goals: writing to the topic, and consumer groups.
package kafka
