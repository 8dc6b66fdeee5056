// Package rangeio reads and writes the objects of a store, reliably: any range of an object on the way in, whole
// objects on the way out.
//
// A [Backend] is one kind of store (S3, GCS, Azure Blob, a folder of files) and makes one attempt at an operation;
// [Client] adds what a network needs: bounded retries with full jitter, resume of a broken body at the byte where it
// broke, a watch on silent connections, checks of every range and length that the store claims, and metrics.
//
// Invariants:
//   - A read is complete or an error. There is no partial result, and no byte of another version of the object:
//     whatever follows the first answer is asked for with If-Match and compared with its ETag and size.
//   - No length from the store is believed before it is compared with what was asked, and nothing is allocated from it
//     unchecked.
//   - A write is atomic and durable when it returns; a source that ends early or fails leaves no object.
//   - Every attempt ends: by its answer, by the caller's context, or because no byte moved for the stall timeout.
//     Bodies that are not wanted any more are cut off, never drained.
//
// Not here: what the bytes mean, how many reads run at a time, caching, hedging.
package rangeio
