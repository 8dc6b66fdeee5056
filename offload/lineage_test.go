package offload

import (
	"reflect"
	"testing"

	"coldtap/segment"
)

// epochs makes a lineage of pairs.
func epochs(pairs ...int64) (list []segment.EpochStart) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, segment.EpochStart{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return list
}

func TestSegmentEpochs(t *testing.T) {
	lineage := epochs(5, 100, 6, 300, 8, 350)
	for _, tt := range []struct {
		base, next int64
		want       []segment.EpochStart
	}{
		{100, 351, epochs(5, 100, 6, 300, 8, 350)},
		{100, 350, epochs(5, 100, 6, 300)},
		{150, 300, epochs(5, 150)},
		{300, 301, epochs(6, 300)},
		{320, 400, epochs(6, 320, 8, 350)},
		{50, 200, epochs(5, 100)}, // the log start moved into the segment
		{50, 100, nil},
		{400, 500, epochs(8, 400)},
	} {
		if got := segmentEpochs(lineage, tt.base, tt.next); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%d..%d: %v, want %v", tt.base, tt.next, got, tt.want)
		}
	}
}

func TestMergeLineage(t *testing.T) {
	for _, tt := range []struct {
		name            string
		recorded, local []segment.EpochStart
		highWatermark   int64
		want            []segment.EpochStart
	}{
		{"first copy", nil, epochs(0, 0, 3, 50), 100, epochs(0, 0, 3, 50)},
		{"the same", epochs(0, 0, 3, 50), epochs(0, 0, 3, 50), 100, epochs(0, 0, 3, 50)},
		{"a new leader", epochs(0, 0), epochs(0, 0, 3, 50), 100, epochs(0, 0, 3, 50)},
		{"log start moved within an epoch", epochs(0, 0), epochs(0, 40), 100, epochs(0, 0)},
		{"log start moved over an epoch", epochs(0, 0, 3, 50), epochs(3, 70, 4, 90), 100, epochs(0, 0, 3, 50, 4, 90)},
		{"divergent", epochs(0, 0, 3, 100), epochs(0, 0, 4, 100), 180, epochs(0, 0, 4, 100)},
		{"divergent below the log start", epochs(0, 0, 5, 20), epochs(3, 50), 100, epochs(0, 0, 3, 50)},
		{"lagging", epochs(0, 0, 3, 100, 4, 150), epochs(0, 0), 100, epochs(0, 0, 3, 100, 4, 150)},
		{"lagging and divergent", epochs(0, 0, 3, 80, 4, 150), epochs(0, 0), 100, epochs(0, 0)},
		{"nothing local", epochs(0, 0), nil, 100, epochs(0, 0)},
	} {
		if got := mergeLineage(tt.recorded, tt.local, tt.highWatermark); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestNewSegmentID(t *testing.T) {
	seen := make(map[segment.UUID]bool)
	for range 2000 {
		id := newSegmentID()
		if id[6]>>4 != 4 || id[8]>>6 != 2 || id.String()[0] == '-' || seen[id] {
			t.Fatalf("id %s", id)
		}
		seen[id] = true
	}
}
