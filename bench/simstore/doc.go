// Package simstore is an object store within the process, for benchmarks that count what a real store would be asked,
// and for tests. Memory behaves as the acceptance test of rangeio's backends demands; Counting counts the reads of
// another store.
//
// Non-goals: time (every answer comes at once), faults, durability.
package simstore
