// Package topic knows __remote_log_metadata, the topic in which brokers record the life of remote segments (KIP-405's
// TopicBasedRemoteLogMetadataManager): the records' format, the partition that a record belongs in, and what a record
// changes in a tier.
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
//
// Non-goals: following the topic, and writing to it.
package topic
