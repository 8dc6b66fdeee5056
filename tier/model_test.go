package tier

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"coldtap/segment"
)

// plain is the partition once more, as slowly and plainly as the rules can be put: maps and full scans.
type plain struct {
	segments map[segment.UUID]Segment
	mapped   map[int32]map[int64]segment.UUID // Kafka's per-epoch maps
	highest  map[int32]int64
	told     []segment.EpochStart
	holes    []Hole
	start    int64
}

func newPlain() *plain {
	return &plain{map[segment.UUID]Segment{}, map[int32]map[int64]segment.UUID{}, map[int32]int64{}, nil, nil, -1}
}

type held struct {
	epoch      int32
	start, end int64
}

func heldBy(s Segment) (list []held) {
	for i, e := range s.Epochs {
		h := held{e.Epoch, max(e.StartOffset, s.BaseOffset), s.EndOffset}
		if i+1 < len(s.Epochs) && s.Epochs[i+1].StartOffset <= s.EndOffset {
			h.end = s.Epochs[i+1].StartOffset - 1
		}
		if h.start <= h.end {
			list = append(list, h)
		}
	}
	return list
}

func (m *plain) finish(s Segment) {
	m.withdraw(s.ID)
	for _, h := range heldBy(s) {
		starts := m.mapped[h.epoch]
		if starts == nil {
			starts = map[int64]segment.UUID{}
			m.mapped[h.epoch] = starts
			m.highest[h.epoch] = -1
		}
		for len(starts) > 0 {
			last := slices.Max(slices.Collect(maps.Keys(starts)))
			if last < h.start || m.highest[h.epoch] > h.end {
				break
			}
			delete(starts, last)
		}
		starts[h.start] = s.ID
		m.highest[h.epoch] = max(m.highest[h.epoch], h.end)
	}
}

func (m *plain) withdraw(u segment.UUID) {
	for _, starts := range m.mapped {
		maps.DeleteFunc(starts, func(_ int64, v segment.UUID) bool { return u == v })
	}
}

func (m *plain) readable(l []segment.EpochStart) (list []Segment) {
	for _, s := range m.segments {
		if s.State == CopyFinished && within(s, l) {
			list = append(list, s)
		}
	}
	return list
}

// within is the lineage test, clause by clause.
func within(s Segment, l []segment.EpochStart) bool {
	h := heldBy(s)
	if len(l) == 0 || h[len(h)-1].epoch > l[len(l)-1].Epoch || h[len(h)-1].epoch < l[0].Epoch {
		return false
	}
	for h[0].epoch < l[0].Epoch {
		h = h[1:]
	}
	for k, e := range h {
		i := slices.IndexFunc(l, func(x segment.EpochStart) bool { return x.Epoch == e.epoch })
		if i < 0 || k == 0 && i > 0 && e.start < l[i].StartOffset {
			return false
		}
		if k == len(h)-1 {
			if i+1 < len(l) && s.EndOffset >= l[i+1].StartOffset {
				return false
			}
		} else if i+1 >= len(l) || l[i+1].Epoch != h[k+1].epoch || l[i+1].StartOffset != h[k+1].start {
			return false
		}
	}
	return true
}

func (m *plain) lineage() (l []segment.EpochStart) {
	for i, e := range m.told {
		if i+1 == len(m.told) || m.told[i+1].StartOffset != e.StartOffset {
			l = append(l, e)
		}
	}
	if len(l) == 0 {
		epoch := int32(-1)
		for _, s := range m.segments {
			if h := heldBy(s); s.State == CopyFinished {
				epoch = max(epoch, h[len(h)-1].epoch)
			}
		}
		if epoch < 0 {
			return nil
		}
		l = []segment.EpochStart{{Epoch: epoch, StartOffset: 1 << 60}}
	}
	for {
		first := &l[0]
		before := int32(-1)
		for _, s := range m.segments {
			for _, h := range heldBy(s) {
				if s.State == CopyFinished && h.epoch == first.Epoch {
					first.StartOffset = min(first.StartOffset, h.start)
				}
			}
		}
		for _, s := range m.segments {
			h := heldBy(s)
			for k := range h {
				if s.State == CopyFinished && k > 0 && h[k].epoch == first.Epoch && h[k].start == first.StartOffset {
					before = max(before, h[k-1].epoch)
				}
			}
		}
		if before < 0 {
			gapped := int32(-1)
			for _, s := range m.segments {
				h := heldBy(s)
				last := h[len(h)-1].epoch
				if s.State == CopyFinished && last < first.Epoch && s.EndOffset < first.StartOffset {
					gapped = max(gapped, last)
					if s.EndOffset == first.StartOffset-1 {
						before = max(before, last)
					}
				}
			}
			before = max(before, -1)
			if before < 0 {
				before = gapped
			}
		}
		if before < 0 {
			return l
		}
		l = append([]segment.EpochStart{{Epoch: before, StartOffset: 1 << 60}}, l...)
	}
}

// verdict is what Find must give: nothing, exactly one segment (Kafka's), or one of several.
type verdict []Segment

func (m *plain) find(l []segment.EpochStart, readable []Segment, start, end, offset int64) verdict {
	if offset < start || offset >= end {
		return nil
	}
	if v := m.holding(l, readable, offset); v != nil {
		return v
	}
	inHole := func(o int64) bool {
		return slices.ContainsFunc(m.holes, func(h Hole) bool { return h.From <= o && o < h.To })
	}
	for o := offset; o < end; o++ {
		if v := m.holding(l, readable, o); v != nil {
			return v
		}
		if !inHole(o) {
			return nil
		}
	}
	return nil
}

func (m *plain) holding(l []segment.EpochStart, readable []Segment, offset int64) (v verdict) {
	epoch := int32(-1)
	for _, e := range l {
		if e.StartOffset <= offset {
			epoch = e.Epoch
		}
	}
	floor := int64(-1)
	for start := range m.mapped[epoch] {
		if start <= offset {
			floor = max(floor, start)
		}
	}
	covers := func(s Segment) bool {
		return slices.ContainsFunc(heldBy(s), func(h held) bool { return h.epoch == epoch && h.start <= offset && offset <= h.end })
	}
	for _, s := range readable {
		if !covers(s) {
			continue
		}
		if floor >= 0 && s.ID == m.mapped[epoch][floor] {
			return verdict{s}
		}
		v = append(v, s)
	}
	return v
}

func TestTierAgreesWithThePlainModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { modelRun(t, seed) })
	}
}

func modelRun(t *testing.T, seed uint64) {
	const top = 120 // offsets stay below, so that every one of them can be asked for after every step
	rng := rand.New(rand.NewPCG(seed, 7))
	tr, m := New(), newPlain()
	var ids []segment.UUID
	// A true history, which most segments keep to; the others are anything at all.
	var truth []segment.EpochStart
	for e, o := int32(0), int64(0); o < top; e++ {
		truth = append(truth, segment.EpochStart{Epoch: e, StartOffset: o})
		o += int64(rng.IntN(60)) * int64(rng.IntN(2))
	}
	randomSegment := func() Segment {
		base := rng.Int64N(top - 1)
		s := Segment{ID: id(rng.Uint64()), Partition: part0, Topic: "t", BaseOffset: base, EndOffset: min(base+rng.Int64N(40), top-1)}
		if rng.IntN(4) > 0 {
			for i, e := range truth {
				if e.StartOffset <= s.EndOffset && (i+1 == len(truth) || truth[i+1].StartOffset > base) {
					s.Epochs = append(s.Epochs, segment.EpochStart{Epoch: e.Epoch, StartOffset: max(e.StartOffset, base)})
				}
			}
			if rng.IntN(20) == 0 {
				s.Epochs[0].StartOffset += int64(rng.IntN(int(s.EndOffset-base) + 1))
				for i := range s.Epochs {
					s.Epochs[i].StartOffset = max(s.Epochs[i].StartOffset, s.Epochs[0].StartOffset)
				}
			}
		} else {
			o := base
			for e := int32(rng.IntN(6)); len(s.Epochs) == 0 || rng.IntN(2) == 0; e += 1 + int32(rng.IntN(2)) {
				s.Epochs = append(s.Epochs, segment.EpochStart{Epoch: e, StartOffset: o})
				o += int64(rng.IntN(15))
			}
		}
		return s
	}
	for range 60 {
		var changes []Change
		var withdrawn []segment.UUID
		for range 1 + rng.IntN(3) {
			switch k := rng.IntN(20); {
			case k < 8:
				s := randomSegment()
				changes = append(changes, SegmentAdded{s})
				ids = append(ids, s.ID)
				m.segments[s.ID] = s
				if rng.IntN(4) > 0 {
					changes = append(changes, SegmentUpdated{Partition: part0, ID: s.ID, State: CopyFinished})
					s.State = CopyFinished
					m.segments[s.ID] = s
					m.finish(s)
				}
			case k < 16 && len(ids) > 0:
				u := ids[rng.IntN(len(ids))]
				next := State(rng.IntN(6) - 1)
				changes = append(changes, SegmentUpdated{Partition: part0, ID: u, State: next})
				s, ok := m.segments[u]
				if !ok || next == CopyStarted || !s.State.CanBecome(next) {
					break
				}
				if s.State == CopyFinished && next != CopyFinished {
					withdrawn = append(withdrawn, u)
				}
				s.State = next
				m.segments[u] = s
				switch next {
				case CopyFinished:
					m.finish(s)
				case DeleteStarted:
					m.withdraw(u)
				case DeleteFinished:
					delete(m.segments, u)
				}
			case k == 16:
				m.told = nil
				if rng.IntN(3) > 0 {
					m.told = truth[rng.IntN(len(truth)):]
				}
				changes = append(changes, LineageChanged{part0, m.told})
			case k == 17:
				h := Hole{From: rng.Int64N(top), Reason: "r"}
				h.To = h.From + 1 + rng.Int64N(20)
				m.holes = append(m.holes, h)
				changes = append(changes, HoleRecorded{part0, h})
			case k == 18:
				m.start = rng.Int64N(50) - 1
				changes = append(changes, startIs(m.start))
			}
		}
		var told []segment.UUID
		for _, s := range tr.ApplyAll(changes).Withdrawn {
			if s.State != CopyFinished {
				t.Errorf("%v was withdrawn as %v", s.ID, s.State)
			}
			told = append(told, s.ID)
		}
		if !slices.Equal(told, withdrawn) {
			t.Errorf("%v were withdrawn, the plain model says %v", told, withdrawn)
		}
		compare(t, tr, m, top)
		// What is restored is the same, and goes on as the same.
		if tr = restored(t, tr); rng.IntN(4) == 0 {
			compare(t, tr, m, top)
		}
		if t.Failed() {
			return
		}
	}
}

// restored makes another tier of all that a store could keep of one.
func restored(t *testing.T, from *Tier) *Tier {
	t.Helper()
	var changes []Change
	for p := range from.partitions.all() {
		for _, s := range p.Segments(true) {
			changes = append(changes, SegmentRestored{*s, p.Shadowed(s)})
		}
		for _, e := range p.HighestOfEpochs() {
			changes = append(changes, EpochRestored{p.ID(), e})
		}
		for _, h := range p.holes {
			changes = append(changes, HoleRecorded{p.ID(), h})
		}
		changes = append(changes, LineageChanged{p.ID(), p.reported})
		if p.hasBounds {
			changes = append(changes, BoundsChanged{p.ID(), p.bounds})
		}
	}
	to := New()
	if rejected := to.Apply(changes...); len(rejected) > 0 {
		t.Fatalf("%+v", rejected)
	}
	if a, b := to.Snapshot().Segments(), from.Snapshot().Segments(); a != b {
		t.Errorf("%d segments are restored of %d", a, b)
	}
	return to
}

func compare(t *testing.T, tr *Tier, m *plain, top int64) {
	t.Helper()
	p, ok := tr.Snapshot().Partition(part0)
	if !ok {
		if len(m.segments) > 0 {
			t.Error("the partition is not listed")
		}
		return
	}
	l := m.lineage()
	if got := p.Lineage(); !slices.Equal(got, l) {
		t.Errorf("lineage %v, the plain model has %v", got, l)
		return
	}
	readable := m.readable(l)
	start := m.start
	if start < 0 {
		start = -1
		base := int64(1 << 60)
		for _, s := range readable {
			if s.BaseOffset < base || s.BaseOffset == base && heldBy(s)[0].start < start {
				base, start = s.BaseOffset, heldBy(s)[0].start
			}
		}
	}
	end := start
	for _, s := range readable {
		end = max(end, s.EndOffset+1)
	}
	if p.TieredEnd() != end {
		t.Errorf("end %d, the plain model has %d", p.TieredEnd(), end)
	}
	if n := len(p.Segments(false)); n != len(readable) {
		t.Errorf("%d readable segments, the plain model has %d", n, len(readable))
	}
	if n := len(p.Segments(true)); n != len(m.segments) || n != tr.Snapshot().Segments() {
		t.Errorf("%d segments, the plain model has %d", n, len(m.segments))
	}
	for o := int64(-2); o < top+2; o++ {
		want := m.find(l, readable, start, end, o)
		got, ok := p.Find(o)
		if ok != (len(want) > 0) || ok && !slices.ContainsFunc(want, func(s Segment) bool { return s.ID == got.ID }) {
			t.Errorf("Find(%d) gives %v %v, the plain model allows %d segments", o, got, ok, len(want))
		}
	}
	holes := p.Holes()
	for o := int64(0); o < top+25; o++ {
		within := func(h Hole) bool { return h.From <= o && o < h.To }
		want := slices.ContainsFunc(m.holes, within) && m.holding(l, readable, o) == nil
		if got := slices.ContainsFunc(holes, within); got != want {
			t.Errorf("offset %d in a hole: %v, the plain model has %v", o, got, want)
		}
	}
}
