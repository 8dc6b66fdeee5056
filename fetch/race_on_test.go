//go:build race

package fetch

// The race detector makes each step ten times as slow.
const (
	raceEnabled = true
	subranges   = 3
	rawStep     = 12_000

	flippedSegments = 1
	flippedBatches  = 2
	flippedStep     = 9
)
