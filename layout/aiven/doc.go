// Package aiven reads the objects that Aiven's tiered-storage plugin for Apache Kafka writes
// (io.aiven.kafka.tieredstorage.RemoteStorageManager, manifest version 1). It never writes.
//
//	<prefix><topic>-<topic id>/<partition>/<20-digit base offset>-<segment id>.log             stored chunks, end to end
//	<prefix><topic>-<topic id>/<partition>/<20-digit base offset>-<segment id>.indexes         four or five small files
//	<prefix><topic>-<topic id>/<partition>/<20-digit base offset>-<segment id>.rsm-manifest    JSON, written last
//
// The log is cut into chunks of one length; each is compressed (one zstd frame), then sealed (AES-256-GCM: 12 bytes of
// nonce, ciphertext, 16 bytes of tag), both optional. The manifest says which, and where each stored chunk lies. The
// small files are sealed one by one and never compressed. The segment's data key is in the manifest, wrapped with RSA.
//
// # One read
//
// ReadLog asks for all the stored chunks it needs with one GET, opens them in parallel, and each straight into the
// caller's memory when the caller wants the whole of it. A chunk of which only a part is wanted is opened into the
// workspace instead and stays open there while memory allows, because the next piece of the log wants the rest; other
// reads that want it meanwhile wait for it. A log that is neither compressed nor sealed is read like a file.
//
// # Amplification
//
// ChunkSize makes pieces of whole stored chunks where they fit, and whole pieces of a stored chunk where they don't, so
// a sequential reader fetches and opens each stored chunk once, whatever the writer's chunk.size. It does so without
// asking the store, from the manifests that were read before; a segment of which nothing is known is assumed to be like
// the last one.
//
// A random read of one piece costs the stored chunks it touches: nothing more when chunks are smaller than pieces, and
// chunk / piece times as much when they are larger (16 for chunks of 64 MiB and pieces of 4 MiB), unless the chunk is
// still open.
//
// # Invariants
//
//   - What a chunk or file opens to is served whole and checked, or not at all. The tag does not bind a chunk to its
//     place, so a bucket's owner can still swap chunks of a segment; batch checksums and offsets are for the caller.
//   - Stored bytes and open chunks together never exceed Options.Memory, and what could not be opened within it is
//     refused before it is asked for.
//   - The manifest decides whether a segment is sealed, never the configuration; the keys are only a ring.
//   - Objects are asked for where the segment's custom metadata says, then under each configured prefix. The plugin's
//     own reader does not look for a manifest under the prefix that the metadata recorded.
//   - The plugin's key.prefix.mask changes what brokers print, never a key, so there is nothing to do about it here.
//
// Non-goals: Iceberg mode (no bytes of the log are kept), the prototype of before April 2023, caching beyond what one
// sequential reader needs, deciding which segments exist.
package aiven
