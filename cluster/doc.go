// Package cluster keeps what only a live Kafka cluster knows: the topics and their ids, leaders and leader epochs, and,
// for the topics that are watched, the offsets that bound each partition and the lineage of leader epochs that wrote
// it.
//
// Brokers are the way to the cluster: one kgo client, shared by everything that asks. A Client asks in rounds. A full
// round sends one Metadata request for all topics, then, to each broker that leads watched partitions, one ListOffsets
// request per kind of bound (Kafka refuses a partition that is named twice in one request), then OffsetForLeaderEpoch
// requests for the partitions whose leader epoch is new. Brokers are asked side by side. The outcome is a View,
// immutable and read without a lock. Full rounds run every Interval, and at once when Refresh is called; RefreshOnly is
// answered by a round about some partitions. At most ten rounds start per second.
//
// Requests:
//   - The cluster is only read. The API keys that are sent are ApiVersions, Metadata (which never creates topics),
//     ListOffsets, OffsetForLeaderEpoch, those of SASL, and Fetch for catalogs that follow a topic (Brokers.Fetch); a
//     test holds that. No group is joined.
//   - The kinds of bounds are asked for in the order log start, local start, latest tiered, last stable, high
//     watermark. Each moves up while the next is asked for, so that the answers of a sound leader never contradict each
//     other.
//   - One broker has 2 s of a round for the bounds and 1 s for lineages: one that hangs costs its own partitions only.
//
// What is believed:
//   - Everything a broker answers is checked. Values that are negative, beyond 1<<62 or contradict each other become
//     unknown (-1), and are counted. Within one leader epoch a log start, last stable offset or high watermark that
//     moves back is ignored (and counted): a leader never takes them back, so it is a late or a wrong answer. A new
//     leader epoch may have lower values and is believed: after an unclean election the log is truncated, and a
//     follower that became leader may not know of the last move of the log start.
//   - Metadata with an older leader epoch than one seen for the same topic id comes from a broker that lags. It is
//     ignored five times in a row, as clients do, then believed.
//   - A partition's log start, last stable offset and high watermark are taken over together or not at all. When the
//     leader does not answer, all five values stay as they were, and Partition.BoundsAt says from when they are.
//   - A topic's absence from the list of all topics does not prove that it is gone: a lagging broker lists less, and so
//     does every broker while the right to describe the topic is missing. A watched topic that is missing is asked for
//     by its id (by its name where Metadata is older than version 12), and View.Missing has the answer: gone, when two
//     answers say so, denied, or unclear. Once the answer has stayed the same for three rounds it is asked for again in
//     every tenth one only; when the topic is listed again it is there at once.
//   - A topic that is not gone stays in the View as it was last seen, with its bounds and their BoundsAt. Denied topics
//     are logged once, and once more when they can be described again; meanwhile they count as unanswered.
//
// Lineages:
//   - A lineage takes one answer per leader epoch that wrote, a hundred per round and at most 1,000 in all. For a
//     partition that has more (logged) it holds the newest, and readers derive the others from the segments.
//   - A lineage is of one leader epoch. From the moment that another leader is known until that one has answered for
//     its own, nothing that older epochs wrote counts as part of the log (Partition.LineagePending): an unclean
//     election may have cut it anywhere. The same round has the answer as a rule; ten more rounds follow at once. While
//     there is no leader the log cannot change, and the known lineage stays.
//
// While the cluster is away the View stays and Age grows. Failures that last for 5 s are logged once per kind, and once
// more when they are over; wrong credentials and missing rights are logged at once. An orderly restart of the brokers
// is over before.
//
// The principal needs the right to describe (DESCRIBE, which READ implies) each topic that is watched, and none on the
// cluster. Files of TLSOptions and SASLOptions are read again for each connection and authentication, so that secrets
// and certificates may be replaced in place; the file of a password or token may also be created after the start.
//
// Non-goals: anything about segments or the object store, and writing to the cluster.
//
// It follows KIP-516 (topic ids), KIP-320 (leader epochs), KIP-405 and KIP-1005 (the bounds of tiered storage), and the
// classes ReplicaManager and LeaderEpochFileCache of Kafka.
package cluster
