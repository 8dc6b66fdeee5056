// Package rebuild makes a tier's metadata anew from the objects of the native layout, for an operator who has lost the
// metadata database and still has the bucket.
//
// Scan reads the bucket and writes nothing; Record writes what it found into an empty catalog, under the same ids, as
// an offloader would: COPY_SEGMENT_STARTED, then COPY_SEGMENT_FINISHED. A Record that was interrupted is repeated.
//
// Invariants:
//   - A segment is recorded only when its .meta is sound, lies under the key that its manifest gives, and its .log is
//     there with the size that the manifest has. A .meta is written last and deleted first, so what lacks one is an
//     unfinished copy or a half-done delete: it is reported and left out.
//   - Only a start object has a start that has moved. A partition whose start object is damaged is left
//     out whole: records that retention has deleted must not come back.
//   - A catalog that holds anything that the bucket does not is refused before the first step.
//   - The bucket is only ever read, and of a .meta object only its manifest and, of the newest segment of each
//     partition, its leader-epoch checkpoint. Memory is about 300 bytes a segment and what native.Layout allows for
//     manifests.
//
// Non-goals: checking the bytes of logs (`coldtap inspect verify --deep` does), holes that --skip-damaged has recorded
// (no object has them, so they come back as gaps), layouts other than native.
package rebuild
