// Package observe turns what a live cluster says (cluster.View) into changes of a tier: each partition's bounds and
// lineage, how far they can be relied on, and which topic carries a name. A catalog that reads segments elsewhere, from
// a metadata topic or a bucket, has an Observer for the part that only brokers know.
//
// Invariants:
//   - A view, and whether its bounds can be relied on, are published in one step: an Observer applies what it observes
//     and what its catalog gives it (Apply) under one lock, one at a time. Else a topic could look as if it had no
//     segments, and be forgotten, while its first one comes in.
//   - A view is taken over once, and views that are older than one that was observed change nothing.
//   - Bounds are certain once the cluster has reported them to this process: before, the log start would be that of the
//     oldest segment, and what DeleteRecords took would be served. Reported bounds are used on while leaders or the
//     cluster are away, which passes.
//   - A denied topic stays denied until the right is granted, while its records may be deleted unseen: of its
//     bounds it is right only that what lies below the start is deleted. They are used for one minute, then they are
//     unknown until the topic can be described again.
//   - A partition whose new leader has not reported its leader epochs is unknown: the view holds nothing of older
//     epochs then, and that is no end.
//   - A topic is gone when the cluster says so of its id (cluster.TopicGone), not when it is not listed. It leaves the
//     view as a whole once a record says that its segments are being deleted. Records that empty a partition are
//     applied after the cluster was asked why, so that no reader sees a deleted topic as an empty one.
//   - Topics that no record names are in the view when a reader has named them (Include) and the cluster has them.
//
// Non-goals: asking brokers, which cluster does, and where segments come from.
package observe
