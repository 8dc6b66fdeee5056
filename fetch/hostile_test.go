package fetch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"coldtap/segment"
)

// truth is what a partition of the sample holds. Of a damaged log, base offsets and leader epochs are outside of every
// checksum: the former are caught by their neighbours, the latter are not looked at.
type truth struct {
	tiered
	records map[Isolation]map[int64]string
	times   map[int64]int64 // of all records
}

func tell(rec *segment.Record) string {
	return fmt.Sprintf("%d %d %q %q %v", rec.Timestamp, rec.TimestampType, rec.Key, rec.Value, rec.Headers)
}

func learn(t testing.TB, dir string) *truth {
	x := &truth{tiered: closed(t, dir), records: map[Isolation]map[int64]string{}, times: map[int64]int64{}}
	s := newHarness(t, shape{})
	s.addAll(x.tiered)
	for _, isolation := range []Isolation{ReadCommitted, ReadUncommitted} {
		all := map[int64]string{}
		r := from(0)
		r.Isolation = isolation
		if a := s.records(r, func(rec *segment.Record) { all[rec.Offset], x.times[rec.Offset] = tell(rec), rec.Timestamp }); a.err != nil || a.end != EndTier {
			t.Fatal(a)
		}
		x.records[isolation] = all
	}
	return x
}

// damage changes bytes of one segment, of its log or of an index, and says whether offsets may have been forged: of
// more than one batch, or in a log with gaps.
func (x *truth) damage(rng *rand.Rand) (segments []stored, forged bool) {
	segments = append(segments, x.segments...)
	victim := &segments[rng.IntN(len(segments))]
	victim.maxTime = maxTimestamp(victim.log)
	file := &victim.log
	switch rng.IntN(6) {
	case 0:
		file = &victim.files.OffsetIndex
	case 1:
		file = &victim.files.TimeIndex
	}
	*file = bytes.Clone(*file)
	if len(*file) == 0 {
		return segments, false
	}
	for range 1 + rng.IntN(3) {
		at := rng.IntN(len(*file))
		if file == &victim.log && rng.IntN(2) == 0 {
			at = headerByte(x, victim.base, rng)
		}
		(*file)[at] ^= byte(1 << rng.IntN(8))
	}
	if file != &victim.log {
		return segments, false
	}
	// Follow the true headers and see whether one of the bytes that nothing protects changed.
	var original []byte
	for i := range x.segments {
		if x.segments[i].base == victim.base {
			original = x.segments[i].log
		}
	}
	wrong := 0
	for pos := 0; pos < len(original); {
		h, err := segment.ParseHeader(original[pos:], 1<<40)
		if err != nil {
			break
		}
		if !bytes.Equal(original[pos:pos+8], (*file)[pos:pos+8]) {
			wrong++
		}
		pos += int(h.Size())
	}
	return segments, wrong > 1 || wrong == 1 && !victim.files.Dense
}

// limitTimes makes r a read over a range of time, mostly. Not where a time index is damaged: what it then says is
// believed.
func (x *truth) limitTimes(r *Request, segments []stored, rng *rand.Rand) {
	for i := range segments {
		if !bytes.Equal(segments[i].files.TimeIndex, x.segments[i].files.TimeIndex) {
			return
		}
	}
	when := func() int64 { return x.times[rng.Int64N(x.end)] + rng.Int64N(3) } // of no record: a time before all
	if rng.IntN(3) > 0 {
		r.StartTimestamp, r.HasStartTimestamp = when(), true
	}
	if end := when(); rng.IntN(3) > 0 && end >= r.StartTimestamp {
		r.EndTimestamp, r.Lateness = end, []int64{0, 1000, 100_000, 1 << 40}[rng.IntN(4)]
	}
}

// headerByte picks a byte of some batch's header.
func headerByte(x *truth, base int64, rng *rand.Rand) int {
	for i := range x.segments {
		if x.segments[i].base != base {
			continue
		}
		log := x.segments[i].log
		var starts []int
		for pos := 0; pos < len(log); {
			h, err := segment.ParseHeader(log[pos:], 1<<40)
			if err != nil {
				break
			}
			starts = append(starts, pos)
			pos += int(h.Size())
		}
		return starts[rng.IntN(len(starts))] + rng.IntN(segment.HeaderSize)
	}
	return 0
}

// read reads a range of a damaged partition, and goes on behind what is damaged. Every record must be the true one,
// none may be left out silently.
func (x *truth) read(t *testing.T, segments []stored, forged bool, rng *rand.Rand) {
	s := newHarness(t, shape{chunk: 1 << (8 + rng.IntN(6)), memory: 1 << 20, decode: 1 << 20})
	s.addAll(tiered{segments: segments})
	r := from(rng.Int64N(x.end))
	r.Isolation = Isolation(rng.IntN(2))
	r.MaxBytes = rng.Int64N(100_000)
	if rng.IntN(3) == 0 {
		r.EndOffset = r.Offset + rng.Int64N(300)
	}
	x.limitTimes(r, segments, rng)
	for steps := 0; x.readOnce(t, s, r, forged); steps++ {
		if steps > 1000 {
			t.Fatalf("%+v: no end", r)
		}
	}
	s.raw(r) // checks every batch it gives
	s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, rng.Int64N(2_000_000_000_000), r.Isolation, 0)
}

// readOnce is one answer of read. When it is damage, r is set to what is behind it, for another.
func (x *truth) readOnce(t *testing.T, s *harness, r *Request, forged bool) (again bool) {
	var got map[int64]string
	a := s.records(r, func(rec *segment.Record) {
		if got == nil {
			got = map[int64]string{}
		}
		got[rec.Offset] = tell(rec)
	})
	if forged {
		return false
	}
	if a.err != nil {
		e := wantKind(t, "damage", a, Damaged)
		if e.NextOffset <= max(r.Offset, a.next) {
			t.Fatalf("%+v: go on at %d, which was reached: %v", r, e.NextOffset, a)
		}
		defer func() { r.Offset = e.NextOffset }()
	}
	times := timeRangeOf(r)
	for offset, text := range x.records[r.Isolation] {
		inside := offset >= r.Offset && offset < a.next && (r.EndOffset < 0 || offset < r.EndOffset)
		wanted := inside && times.holds(x.times[offset])
		if inside && times.stopsAt(x.times[offset]) {
			t.Fatalf("%+v: offset %d ends the range: %v", r, offset, a)
		}
		if other, ok := got[offset]; ok != wanted || ok && other != text {
			t.Fatalf("%+v: offset %d: got %v %q, want %v %q; ended %v", r, offset, ok, other, wanted, text, a)
		}
		delete(got, offset)
	}
	if len(got) > 0 {
		t.Fatalf("%+v: records that are not there: %v", r, got)
	}
	return a.err != nil && r.EndOffset < 0
}

// FuzzDamage reads ranges of partitions whose files had bits flipped: each answer is right records or a clear error.
func FuzzDamage(f *testing.F) {
	var all []*truth
	for _, dir := range []string{"txn-1", "codecs-0", "gaps-0"} {
		all = append(all, learn(f, dir))
	}
	for seed := range uint64(30) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 11))
		x := all[rng.IntN(len(all))]
		segments, forged := x.damage(rng)
		for range 2 {
			x.read(t, segments, forged, rng)
		}
	})
}
