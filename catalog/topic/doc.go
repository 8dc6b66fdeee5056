// Package topic knows __remote_log_metadata, the topic in which brokers record the life of remote segments (KIP-405's
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
//   - Nothing in a value sizes an allocation before it was compared with the bytes that are there. Hostile bytes give an
//     *Error, never a panic.
//   - Whether a step is legal after the ones before it is the tier's to say: Changes translates, it does not judge.
//   - A Follower's view is everything or nothing: it is published when it holds all that the topic held at the start,
//     with the bounds that the cluster told. Afterwards an answer's records become visible together.
//   - A partition's position moves with the batches that were passed, not with the records that were in them: offsets that
//     hold nothing (markers, what compaction took) keep nobody waiting.
//   - The snapshot file is a cache of the topic. Its positions and its segments are of one moment; whatever is wrong with
//     it costs a full replay and a warning. It restores the tier exactly, preferences among overlapping segments included.
//   - Whatever breaks the chain between what was read and what the topic holds (another topic or cluster id, a log start
//     beyond the position, an end before it) starts the replay anew; until it has caught up Ready says no.
//   - Nothing is written to the cluster: the API keys sent are ApiVersions, Metadata (which never creates a topic),
//     ListOffsets and Fetch, and SASL's.
//
// Non-goals: writing to the topic, consumer groups, and noticing that an unclean election replaced records below the
// position by as many others (the metadata topic has min.insync.replicas 2 and brokers would be as wrong).
package topic
