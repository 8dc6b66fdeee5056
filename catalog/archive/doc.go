// Package archive feeds a tier from a bucket alone: no cluster, no metadata store. The manifests that were written
// beside the segments are the metadata. It is the one exception to the rule that a listing is never the truth, made by
// an operator who declares the bucket complete.
//
// In a listing every object belongs to a segment by its key (the objects of a segment are neighbours in the order of
// keys, so one segment at a time is remembered). A manifest that is known, from the listing before or from the snapshot
// file, by its key, size and modification time, is not read again; the others are read in parallel while the listing
// goes on. Then each partition in which something changed is resolved: its lineage is the leader-epoch checkpoint that
// travelled with the newest segment, the one with the greatest (last epoch, end offset), whose log survived.
//
// Invariants:
//   - A segment is in the view only when its manifest can be believed, lies under the key of what it describes, and the
//     other objects are listed with the sizes that it names. Everything else is left out, counted and reported.
//   - Of several copies of one range along the lineage one is in the view: the one that began last. The order is event
//     time, modification time, id; it does not depend on which manifest was read first.
//   - A partition changes as a whole: no reader sees its segments without their lineage, or without its start.
//   - Until one listing is complete nothing is served: "not ready" is never "not there". A listing that fails, or that
//     is empty after one that was not, leaves the view as it is.
//   - Refresh is not answered by a listing that began before the call. It lists the folder of one partition, while the
//     bucket may have millions of objects; the listing replaces the partition in the view as a whole.
//   - Of two listings of a partition the one that began later decides, whichever ends first.
//   - The store is only read. Memory is some 290 bytes a segment of one leader epoch, the tier's part included; other
//     objects of a listing are counted and not kept.
//
// A bucket does not show which copies were never finished although all their objects are there. Such an orphan holds
// the same records as the copy that replaced it, or belongs to a lineage that lost; both are resolved as above.
//
// Nor does it show a DeleteRecords after the last copy: what brokers hide since then is served here. One before it
// shows in the newest checkpoint (Aiven's) or in the start object (native).
//
// Non-goals: reading the segments' bytes, sweeping orphans, holes (no object records them: they are gaps here).
package archive
