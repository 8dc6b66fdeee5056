//go:build !race

package fetch

// How much of the sample is read again in small steps.
const (
	raceEnabled = false
	subranges   = 12   // random ranges for each partition, isolation level and chunk length
	rawStep     = 3000 // bytes
)
