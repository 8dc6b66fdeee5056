// Package invariants says whether this build spends time on checks that production does not pay for: memory is filled
// with a pattern when it is given back, and lives where the race detector sees it. Builds with -race or with the tag
// `invariants` switch it on.
package invariants

// Poison is the byte that fills memory given back in such a build: code that reads it used memory after giving it back.
const Poison = 0xDB

// Scribble fills b with Poison when Enabled.
func Scribble(b []byte) {
	if !Enabled || len(b) == 0 {
		return
	}
	// In doubling copies: byte by byte the race detector would make it the slowest part of every test.
	b[0] = Poison
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
