// Package engine is the connections of the data plane: it accepts them, bounds them, watches them, writes bodies to
// them and cuts the ones that hold memory without taking bytes. It knows HTTP and nothing of what is served.
//
// The owner of a Server answers requests with fasthttp. For each request it begins an Exchange, embeds it in its own
// state, and gives it a Body. The engine writes the body: slices of up to 1 MiB go from the body's memory to the socket
// without a copy, the header leaves with the first of them, text is compressed, and each slice has a write deadline of
// its own, so that only a client that takes nothing is cut, not one that is slow.
//
// Invariants:
//   - a body that fails never looks whole to its client: the last chunk is missing, the declared length is not reached,
//     or the connection is reset;
//   - an exchange ends exactly once: when its handler returns, or, with a body, when fasthttp has closed the body;
//   - fasthttp's context is never kept: an exchange has a context of its own, which is cancelled when the client has
//     gone or is cut;
//   - compressors are shared and held only while they compute, never while a client is waited for.
//
// Non-goals: TLS, HTTP/2, request bodies.
package engine
