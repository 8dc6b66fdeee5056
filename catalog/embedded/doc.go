// Package embedded keeps a tier's metadata in one SQLite database: an offloader records its steps through DB, any
// number of readers in other processes follow them through Reader, and people look into it with their own tools (the
// view readable is a good start).
//
// Invariants:
//   - A step is one durable transaction: it survives the process and, with synchronous=FULL, the machine. It is
//     recorded wholly or not at all.
//   - One writer: a lock on the file <path>.lock is held as long as the DB is open. Deleting that file while an
//     offloader runs breaks it.
//   - The database decides what is legal, in the step's own transaction; the writer's view in memory only follows.
//   - A segment's id is recorded for ever, also when the segment is gone: an id is never used twice, and a reader that
//     was away learns of the delete. A gone segment keeps a row of about 250 bytes.
//   - A reader sees whole commits only, within one poll, and never writes to the tables.
//
// Non-goals: several writers, network file systems (SQLite's locks and shared memory need a local one), and shrinking
// the file.
package embedded
