// Package gateway is the HTTP side of coldtap: the data plane, which gives out records, offsets, listings and segment
// files, and the admin plane with metrics, health and profiles. It reaches everything through fetch, and its clients
// through package engine: here are routes, parameters and formats.
//
// The data plane runs on fasthttp because of the control it gives over how a body is written. Chunk bytes go from the
// cache's slab to the socket in slices of up to 1 MiB without a copy, and stay pinned until they are written. The admin
// plane runs on net/http and a port of its own, where data connections cannot starve it.
//
// Invariants:
//   - an answer that fails before its first byte has a proper status, since the first piece of data is there before
//     the status line is; one that breaks later ends visibly: no final chunk, or a reset;
//   - a declared length is met exactly or the connection is closed;
//   - JSON is built before the status line, in memory reserved from the decode budget before it is allocated, and given
//     back when written;
//   - a request never waits for memory while it holds some of the same share, except bounded by its own timeout; what a
//     client can hold by reading slowly has shares of its own (package budget), and for ndjson and events it is one
//     buffer and the batch at hand, whatever the size of a record;
//   - fasthttp's context is never kept or passed on: reads run under the context of their exchange.
//
// Answers that are text are compressed when the client asks for it. Batches and files never are, since batches are
// compressed already and ranges would break.
//
// The contract is openapi.json, which the data plane serves; tests hold it against routes, parameters, media types and
// error codes.
//
// Non-goals: HTTP/2, writes.
package gateway
