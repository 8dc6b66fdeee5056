package tier

import (
	"math"
	"math/rand/v2"
	"testing"

	"coldtap/segment"
	"unsafe"
)

func TestEndOfEpoch(t *testing.T) {
	s := seg(1, 100, 350, 4, 50, 5, 120, 6, 300, 7, 300, 8, 300, 9, 351)
	for _, c := range []struct {
		epoch      int32
		start, end int64
		ok         bool
	}{
		{3, 0, 0, false}, {4, 100, 119, true}, {5, 120, 299, true}, {6, 0, 0, false}, {7, 0, 0, false}, {8, 300, 350, true}, {9, 0, 0, false}, {10, 0, 0, false},
	} {
		start, end, ok := s.EndOfEpoch(c.epoch)
		if ok != c.ok || ok && (start != c.start || end != c.end) {
			t.Errorf("epoch %d: %d..%d %v, want %d..%d %v", c.epoch, start, end, ok, c.start, c.end, c.ok)
		}
	}
	if got := s.lastEpoch(); got != 8 {
		t.Errorf("the last epoch with records is %d, want 8", got)
	}
}

func TestValidateRefusesImpossibleSegments(t *testing.T) {
	good := seg(1, 100, 199, 5, 100)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Segment){
		"negative base":        func(s *Segment) { s.BaseOffset = -1 },
		"end below base":       func(s *Segment) { s.EndOffset = 99 },
		"no next offset":       func(s *Segment) { s.EndOffset = math.MaxInt64 },
		"negative size":        func(s *Segment) { s.Size = -1 },
		"negative partition":   func(s *Segment) { s.Partition.Partition = -1 },
		"unknown state":        func(s *Segment) { s.State = 4 },
		"no epochs":            func(s *Segment) { s.Epochs = nil },
		"negative epoch":       func(s *Segment) { s.Epochs = epochList(-1, 100) },
		"negative epoch start": func(s *Segment) { s.Epochs = epochList(1, -1) },
		"epochs descend":       func(s *Segment) { s.Epochs = epochList(5, 100, 4, 150) },
		"epoch twice":          func(s *Segment) { s.Epochs = epochList(5, 100, 5, 150) },
		"starts descend":       func(s *Segment) { s.Epochs = epochList(5, 150, 6, 100) },
		"epochs behind end":    func(s *Segment) { s.Epochs = epochList(5, 200) },
	} {
		s := good
		spoil(&s)
		if s.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSegmentStaysInItsAllocationClass(t *testing.T) {
	if size := unsafe.Sizeof(Segment{}); size > 160 {
		t.Errorf("a Segment takes %d bytes: above 160 each live one costs another allocation class", size)
	}
}

// What is computed in steps of a search is what a look at every stretch gives.
func TestEpochsOfASegment(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 2000 {
		s := Segment{BaseOffset: rng.Int64N(20), Size: 1}
		s.EndOffset = s.BaseOffset + rng.Int64N(20)
		at := rng.Int64N(25)
		for e := int32(rng.IntN(3)); len(s.Epochs) == 0 || rng.IntN(6) > 0; e += 1 + int32(rng.IntN(2)) {
			s.Epochs = append(s.Epochs, segment.EpochStart{Epoch: e, StartOffset: at})
			at += rng.Int64N(8) * rng.Int64N(2)
		}
		if s.Validate() != nil {
			continue
		}
		last, before := int32(-1), int32(-1)
		for r := range s.stretches {
			below, ok := s.before(r.epoch)
			if ok != (before >= 0) || ok && below != before {
				t.Fatalf("%+v: before epoch %d comes %d %t, want %d", s, r.epoch, below, ok, before)
			}
			if start, end, ok := s.EndOfEpoch(r.epoch); !ok || start != r.start || end != r.end {
				t.Fatalf("%+v: epoch %d is at %d to %d %t, want %+v", s, r.epoch, start, end, ok, r)
			}
			last, before = r.epoch, r.epoch
		}
		if s.lastEpoch() != last {
			t.Fatalf("%+v: the last epoch is %d, want %d", s, s.lastEpoch(), last)
		}
	}
}

func TestTooManyEpochs(t *testing.T) {
	s := flapping(1, 0, 0, maxEpochs)
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	s = flapping(1, 0, 0, maxEpochs+1)
	if rejected := New().Apply(added(s)...); len(rejected) != 1 || rejected[0].Reason != ReasonMalformed {
		t.Errorf("rejected: %d", len(rejected))
	}
}
