//go:build !race

package fetch

// How much of the fixtures is read again in small steps.
const (
	raceEnabled = false
	subranges   = 12   // random ranges for each partition, isolation level and chunk length
	rawStep     = 3000 // bytes

	// Whose base offsets are flipped, bit by bit.
	flippedSegments = 2 // of a set, but one of each partition
	flippedBatches  = 2 // of each segment
	flippedStep     = 1 // every bit
)
