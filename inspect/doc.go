// Package inspect looks at a tier, at its objects and at Kafka's segment files, for people and for scripts.
//
// Every value that is shown is a row with fixed field names: a JSON value a line, or a table. Logs of any size are
// streamed through one buffer, so that memory does not depend on them.
//
// Invariants:
//   - Nothing is ever written but the output.
//   - What comes from a store or a file is quoted before a terminal sees it.
//   - A verification takes the metadata before and after it lists the store, so that copies and deletes that run
//     meanwhile are not reported as damage.
//   - Damage is a finding and the next segment is looked at; only a store that does not answer ends a verification.
//
// Non-goals: repair, and reading through the caches of a running server.
package inspect
