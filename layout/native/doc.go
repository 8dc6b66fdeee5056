// Package native is coldtap's own layout of a segment in the object store: two objects, so that one GET brings
// everything small.
//
//	<prefix><topic>-<topic id>/<partition>/<20-digit base offset>-<segment id>.log    the log file, byte for byte
//	<prefix><topic>-<topic id>/<partition>/<20-digit base offset>-<segment id>.meta   manifest and small files
//	<prefix><topic>-<topic id>/<partition>/start                                      the tier's start, once it moved
//
// A .meta or start object begins with 16 bytes, big endian: 4 of magic, uint16 version, uint16 zero, uint32 length and
// uint32 CRC-32C of the JSON that follows. In a .meta the small files follow the JSON, packed one after the other; its
// JSON is a Manifest. Fields may be added to it, and what lacks one is read as if it had the field's zero value.
//
// Invariants:
//   - A key is made of the segment's ids and nothing else: two copies never share one (two attempts at the same copy
//     do, and overwrite each other with the same bytes).
//   - .meta is written last and deleted first, so a segment whose .meta is there is complete. Yet what exists is the
//     metadata's word, not the bucket's.
//   - What goes to the store is what the caller has checked: each block of a log is compared with the checksum of the
//     pass whose SHA-256 was the caller's, in the moment in which the store's client takes it.
//   - Nothing in an object is believed before it was compared with the object's length, its checksum and the segment it
//     should belong to. A damaged index costs time, a damaged transaction index the answer to read_committed, and a
//     damaged manifest the segment.
//
// Non-goals: caching, deciding which segments exist, bounding how many reads run.
package native
