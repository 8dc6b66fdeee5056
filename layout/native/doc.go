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
//   - A key is made of the segment's ids and offset: two copies never share one. Two attempts at the same copy do, and
//     overwrite each other with the same bytes.
//   - .meta is written last and deleted first, so a segment whose .meta is there is complete. Which
//     segments exist is decided by the metadata all the same, not by the bucket.
//   - The store gets the bytes that the caller has checked: Put reads the log once and compares its SHA-256 with the
//     caller's, and compares each block with that pass again when the store's client reads it.
//   - Nothing in an object is used before it was compared with the object's length, its checksum and the segment that
//     it should belong to. With a damaged index reads are slower, with a damaged transaction index read_committed
//     fails, and with a damaged manifest the segment cannot be read.
//
// Layout reads and writes the objects of segments that the metadata knows, and finds segments in a listing: for a
// catalog that has no other metadata, for a rebuild of the metadata, and for inspection.
//
// Non-goals: caching, deciding which segments exist, bounding how many reads run.
package native
