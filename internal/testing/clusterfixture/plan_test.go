package clusterfixture_test

import (
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/faultstore"
)

// TestPlanIsWhatThenHappens compares plans with what a store counts when the read follows: GETs to the last one, bytes
// of logs too where they are stored as they are or the manifest is at hand, in every layout, with whole and partial
// ranges, cold.
func TestPlanIsWhatThenHappens(t *testing.T) {
	type kind struct {
		open      func(chunk int64) *harness
		estimated int64 // percent of the bytes
	}
	layouts := map[string]kind{
		"local":  {open: func(int64) *harness { return newHarness(t, clusterKnown) }},
		"native": {open: func(int64) *harness { return newNativeStand(t) }},
	}
	for _, set := range clusterfixture.LoadAiven(t) {
		layouts["aiven "+set.Name] = kind{func(chunk int64) *harness { return newAivenStand(t, set, chunk, lineageHidden) }, map[bool]int64{true: 35}[set.Name != "plain-orphan"]}
	}
	for name, kind := range layouts {
		t.Run(name, func(t *testing.T) {
			for _, chunk := range []int64{8 << 10, 128 << 10} {
				for _, part := range []struct{ from, to int64 }{{0, 6}, {1, 4}, {3, 6}} { // sixths of the partition
					for isolation := range isolations {
						s := kind.open(chunk)
						for _, p := range s.fixture.Partitions() {
							span := p.LatestTiered + 1 - p.Start
							r := request(p, p.Start+span*part.from/6, isolation)
							r.EndOffset, r.MaxBytes = p.Start+span*part.to/6, 1<<40
							if span < 12 {
								continue
							}
							plan, err := s.Plan(t.Context(), &r)
							if err != nil {
								t.Fatal(err)
							}
							s.store.Reset()
							s.raw(t, r)
							var requests, gets int
							var bytes, got int64
							for _, seg := range plan.Segments {
								requests += seg.Requests
								bytes += seg.Bytes
							}
							for _, c := range s.store.Calls() {
								if c.Op == faultstore.Get {
									gets++
								}
								object := int64(len(s.fixture.Objects[c.Key]))
								if n := object - c.Off; c.N < 0 || c.N > n {
									got += n
								} else {
									got += c.N
								}
							}
							// Where the range ends within a chunk's length, a chunk more or less is read; with read_committed the
							// indexes of segments behind the range may be too.
							most := map[string]int{"read_uncommitted": 1, "read_committed": 4}[isolation]
							if d := gets - requests; d < -most || d > most {
								t.Errorf("chunks of %d, %s [%d, %d) %s: %d GETs, planned %d", chunk, p.Name(), r.Offset, r.EndOffset, isolation, gets, requests)
							}
							// Chunks of a compressed log differ, and the small files' bytes are estimated.
							if d := got - bytes; max(d, -d) > 3000+chunk*int64(most)+got*(2+kind.estimated)/100 {
								t.Errorf("chunks of %d, %s [%d, %d) %s: %d bytes, planned %d", chunk, p.Name(), r.Offset, r.EndOffset, isolation, got, bytes)
							}
						}
					}
				}
			}
		})
	}
}
