package kafka

import (
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/tier"
)

// BenchmarkDecode reads the records of a real cluster over and over, and turns them into changes.
func BenchmarkDecode(b *testing.B) {
	records := clusterfixture.Load(b).Metadata
	changes := make([]tier.Change, 0, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r, err := Decode(records[i].Value)
		if err != nil {
			b.Fatal(err)
		}
		changes = Changes(changes[:0], r)
		if i++; i == len(records) {
			i = 0
		}
	}
}
