//go:build race || invariants

package invariants

// Enabled is true in builds with -race or the tag invariants.
const Enabled = true
