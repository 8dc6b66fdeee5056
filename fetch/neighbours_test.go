package fetch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"coldtap/internal/sample"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// placed is a batch between its neighbours.
type placed struct {
	segment.Header
	pos    int64
	before int64 // last offset of the batch before; the segment's base - 1 for the first
	behind int64 // base offset of the next batch; the segment's end + 1 for the last
}

// fits says that the batch could have this base offset, as far as its neighbours tell.
func (p *placed) fits(base int64) bool {
	return base > p.before && base <= p.behind-1-int64(p.LastOffsetDelta)
}

// layOut lists the batches of a log, and says whether it is dense.
func layOut(tb testing.TB, seg *tier.Segment, log []byte) (batches []placed, dense bool) {
	tb.Helper()
	before := seg.BaseOffset - 1
	dense = true
	for b, err := range segment.Batches(log) {
		if err != nil {
			tb.Fatal(err)
		}
		if n := len(batches); n > 0 {
			batches[n-1].behind = b.Header.BaseOffset
		}
		batches = append(batches, placed{b.Header, b.Position, before, seg.EndOffset + 1})
		dense = dense && b.Header.BaseOffset == before+1
		before = b.Header.LastOffset()
	}
	return batches, dense && before == seg.EndOffset
}

// question is one way to read at and around a batch; the reply is compared as it is.
type question func() (reply []byte, err error)

// questions are reads that a wrong base offset of b could make wrong.
func (s *harness) questions(seg *tier.Segment, b *placed) map[string]question {
	raw := func(from, to int64, isolation Isolation) question {
		return func() ([]byte, error) {
			r := Request{TopicID: seg.Partition.Topic, Partition: seg.Partition.Partition, Offset: from, EndOffset: to, EndTimestamp: -1,
				MaxBytes: 1 << 40, Isolation: isolation}
			a := s.stretch(&r)
			if a.err != nil {
				return a.bytes, a.err
			}
			return fmt.Appendf(a.bytes, " %v %d", a.end, a.next), nil
		}
	}
	first, last := b.BaseOffset, b.LastOffset()
	all := map[string]question{
		"its segment":            raw(seg.BaseOffset, seg.EndOffset+1, ReadUncommitted),
		"its segment, committed": raw(seg.BaseOffset, seg.EndOffset+1, ReadCommitted),
		"it alone":               raw(first, last+1, ReadUncommitted),
		"its last offset":        raw(last, last+1, ReadCommitted),
		"what is before it":      raw(max(seg.BaseOffset, b.before), first, ReadUncommitted),
		"what is behind it":      raw(last+1, min(b.behind+1, seg.EndOffset+1), ReadUncommitted),
		"its records": func() (reply []byte, err error) {
			r := Request{TopicID: seg.Partition.Topic, Partition: seg.Partition.Partition, Offset: first, EndOffset: b.behind, EndTimestamp: -1,
				MaxBytes: 1 << 40, Isolation: ReadUncommitted}
			st, err := s.Open(s.tb.Context(), &r)
			if err != nil {
				return nil, err
			}
			defer st.Close()
			var rec segment.Record
			for {
				if err := st.NextRecord(s.tb.Context(), &rec); errors.Is(err, io.EOF) {
					return fmt.Appendf(reply, "%d", st.NextOffset()), nil
				} else if err != nil {
					return reply, err
				}
				reply = fmt.Appendf(reply, "%d %s\n", rec.Offset, tell(&rec))
			}
		},
		"its time": func() ([]byte, error) {
			at, err := s.OffsetForTime(s.tb.Context(), "", seg.Partition.Topic, seg.Partition.Partition, b.MaxTimestamp, ReadUncommitted, 0)
			if err != nil {
				return nil, err
			}
			return fmt.Appendf(nil, "%+v", at), nil
		},
		"its bytes": func() (reply []byte, err error) {
			f, err := s.OpenFile(s.tb.Context(), "", seg.Partition.Topic, seg.Partition.Partition, seg.ID.String(), "log", 0)
			if err != nil {
				return nil, err
			}
			fs := f.Range(b.pos, b.pos+b.Size())
			defer fs.Close()
			var run Run
			defer run.Release()
			for {
				if err := fs.Next(s.tb.Context(), &run); errors.Is(err, io.EOF) {
					return reply, nil
				} else if err != nil {
					return reply, err
				}
				reply = append(reply, run.Bytes()...)
			}
		},
	}
	if first >= last {
		delete(all, "its last offset")
	}
	return all
}

// whole lists the readable segments that serve all of their offsets.
func (s *harness) whole(id tier.PartitionID) (list []*tier.Segment) {
	for _, seg := range s.readable(id) {
		p, _ := s.tier.Snapshot().Partition(id)
		first, ok := p.Find(seg.BaseOffset)
		last, _ := p.Find(seg.EndOffset)
		if seg.Size > 0 && seg.BaseOffset >= p.Bounds().Start && ok && first.ID == seg.ID && last.ID == seg.ID {
			list = append(list, seg)
		}
	}
	return list
}

// flips counts what came of flipped bits.
type flips struct {
	asked, refused int
	wrong          int // replies, each to a flip that fits between its neighbours
	fitting        int // flips
	batches        int
}

// flipOffsets flips each bit of the base offset of some batches of a segment, and asks. Where the log is known to be
// dense, every reply is right or Damaged; else a wrong one is to a base offset that fits in a gap.
func (s *harness) flipOffsets(tb testing.TB, seg *tier.Segment, rng *rand.Rand, most int, n *flips) {
	stored := s.logs[seg.ID]
	batches, dense := layOut(tb, seg, stored.log)
	log := bytes.Clone(stored.log)
	stored.log = log
	order := rng.Perm(len(batches))
	if len(order) > most {
		// Those at the edges have but one neighbour.
		order = append([]int{0, len(batches) - 1}, order[:most-2]...)
	}
	for _, i := range order {
		b := &batches[i]
		n.batches++
		questions := s.questions(seg, b)
		right := map[string][]byte{}
		for what, ask := range questions {
			reply, err := ask()
			if err != nil {
				tb.Fatalf("segment %d, batch of offset %d, %s: %v", seg.BaseOffset, b.BaseOffset, what, err)
			}
			right[what] = reply
		}
		for bit := 0; bit < 64; bit += flippedStep {
			base := b.BaseOffset ^ 1<<bit
			fits := b.fits(base)
			if fits {
				n.fitting++
			}
			if fits && dense {
				tb.Fatalf("segment %d: offset %d fits in no gap", seg.BaseOffset, base)
			}
			flip := func() { log[b.pos+7-int64(bit/8)] ^= 1 << (bit % 8) }
			flip()
			for what, ask := range questions {
				s.chunks.DropSegment(seg.Key())
				reply, err := ask()
				n.asked++
				switch {
				case err != nil && kindOf(err) == Damaged && bytes.HasPrefix(right[what], reply):
					n.refused++
				case err == nil && bytes.Equal(reply, right[what]):
				case fits && (err == nil || kindOf(err) == Damaged):
					n.wrong++
				default:
					tb.Fatalf("segment %d to %d, batch of offsets %d to %d between %d and %d (dense %v) with base offset %d: %s: %d bytes instead of %d, %v",
						seg.BaseOffset, seg.EndOffset, b.BaseOffset, b.LastOffset(), b.before, b.behind, stored.files.Dense, base, what, len(reply), len(right[what]), err)
				}
			}
			flip()
		}
		s.chunks.DropSegment(seg.Key())
	}
}

// A base offset with a flipped bit never renumbers, hides or adds a record, whatever is read around it: in a log
// without gaps, whether the copier said so or not; and in a log with gaps, unless the batch still fits between its
// neighbours (docs/limits.md).
func TestFlippedBaseOffsets(t *testing.T) {
	sets := map[string]func(*testing.T, shape) (*harness, []tier.PartitionID){
		"cluster": func(t *testing.T, sh shape) (*harness, []tier.PartitionID) {
			s, f := newClusterHarness(t, sh)
			var all []tier.PartitionID
			for _, p := range f.Partitions() {
				all = append(all, tier.PartitionID{Topic: p.Topic.ID, Partition: p.Number})
			}
			return s, all
		},
	}
	for _, dir := range sample.Partitions {
		sets[dir] = func(t *testing.T, sh shape) (*harness, []tier.PartitionID) {
			s := newHarness(t, sh)
			s.addAll(closed(t, dir))
			return s, []tier.PartitionID{{Topic: testTopic}}
		}
	}
	for name, open := range sets {
		t.Run(name, func(t *testing.T) {
			for _, tt := range []struct {
				known bool
				chunk int64
			}{{true, 128 << 10}, {false, 128 << 10}, {false, 2000}} {
				s, partitions := open(t, shape{chunk: tt.chunk, memory: 4 << 20})
				rng := rand.New(rand.NewPCG(uint64(tt.chunk), 8))
				var dense, gappy flips
				most := max(1, flippedSegments/len(partitions))
				for _, id := range partitions {
					segments := s.whole(id)
					rng.Shuffle(len(segments), func(i, j int) { segments[i], segments[j] = segments[j], segments[i] })
					for _, seg := range segments[:min(len(segments), most)] {
						_, isDense := layOut(t, seg, s.logs[seg.ID].log)
						s.logs[seg.ID].files.Dense = isDense && tt.known
						n := &dense
						if !isDense {
							n = &gappy
						}
						s.flipOffsets(t, seg, rng, flippedBatches, n)
					}
				}
				t.Logf("%+v: without gaps %+v, with gaps %+v", tt, dense, gappy)
				if dense.wrong > 0 {
					t.Errorf("%d wrong replies of logs without gaps", dense.wrong)
				}
				if len(partitions) > 1 && (dense.batches < 20 || gappy.batches == 0) || dense.batches+gappy.batches == 0 {
					t.Errorf("only %d and %d batches", dense.batches, gappy.batches)
				}
			}
		})
	}
}

// A base offset that is not where it belongs must not end an answer early, nor a segment: what is behind the wrong
// offset is looked at first, in another chunk if need be.
func TestWrongOffsetEndsNothing(t *testing.T) {
	for _, chunk := range []int64{100, 4 << 10} {
		for name, c := range map[string]struct {
			base      int64
			isolation Isolation
			end       int64
			files     segment.Files
		}{
			"beyond the range":       {74, ReadUncommitted, 60, segment.Files{}},
			"beyond what is decided": {138, ReadCommitted, -1, segment.Files{Snapshot: openAt(100)}},
			"up to the end":          {190, ReadUncommitted, -1, segment.Files{}},
		} {
			s := newHarness(t, shape{chunk: chunk})
			s.topic("t", 0)
			var log []byte
			for o := int64(0); o < 200; o += 10 {
				log = append(log, dense(o, o+9, false)...)
			}
			at := len(dense(0, 9, false))
			binary.BigEndian.PutUint64(log[at:], uint64(c.base))
			s.add(stored{base: 0, end: 199, log: log, files: c.files})
			r := from(0)
			r.Isolation, r.EndOffset = c.isolation, c.end
			for _, a := range []*answer{s.records(r), s.raw(r)} {
				if e := wantKind(t, name, a, Damaged); e.NextOffset != 20 || e.Position != int64(at) || len(a.offsets) != 10 {
					t.Errorf("%s, chunks of %d: %v after %v", name, chunk, e, a.offsets)
				}
			}
		}
	}
}

// openAt is a producer snapshot with a transaction that is open since an offset.
func openAt(first int64) []byte {
	return segment.AppendSnapshot(nil, []segment.ProducerState{{ProducerID: 7, TxnFirstOffset: first}})
}

// thin is a compacted segment with an index entry for each batch.
func thin(t *testing.T, chunk int64) (s *harness, log []byte, starts []int64) {
	s = newHarness(t, shape{chunk: chunk})
	s.topic("t", 0)
	var pairs []int64
	for _, o := range [][2]int64{{0, 9}, {12, 15}, {20, 29}, {40, 49}} {
		pairs = append(pairs, o[1], int64(len(log)))
		starts = append(starts, int64(len(log)))
		log = append(log, dense(o[0], o[1], false)...)
	}
	s.add(stored{base: 0, end: 59, log: log, files: segment.Files{OffsetIndex: offsetIndex(0, pairs[2:]...)}})
	return s, log, starts
}

// In a log with gaps, a batch that an index led to is compared with the one before it, which is no fault of the index.
func TestBatchFoundByIndexIsComparedWithTheOneBefore(t *testing.T) {
	for _, chunk := range []int64{61, 200, 4 << 10} {
		s, log, starts := thin(t, chunk)
		want(t, "sound", s.records(from(20)), append(offsetsOf(20, 29), offsetsOf(40, 49)...), EndTier, 60)
		if a := s.raw(from(22)); fmt.Sprint(a.offsets) != fmt.Sprint(append(offsetsOf(22, 29), offsetsOf(40, 49)...)) {
			t.Errorf("raw: %v", a)
		}
		if n := testutil.ToFloat64(s.metrics.fallbacks); n != 0 {
			t.Errorf("%v positions of a right index are called wrong", n)
		}
		log[starts[2]+7] ^= 16 // 20 becomes 4
		s.chunks.DropSegment(tier.SegmentKey{Partition: tier.PartitionID{Topic: testTopic}, ID: idOf(1)})
		for _, r := range []*Request{from(20), from(29)} {
			for _, a := range []*answer{s.records(r), s.raw(r)} {
				if e := wantKind(t, "4 to 13 behind 15", a, Damaged); e.Position != starts[2] || len(a.offsets) > 0 {
					t.Errorf("chunks of %d: %v after %v", chunk, e, a.offsets)
				}
			}
		}
		if got, _, err := s.logBytes(starts[2], starts[3]); kindOf(err) != Damaged || len(got) > 0 {
			t.Errorf("%d bytes of the log, %v", len(got), err)
		}
	}
}

// Offsets that are missing from a log that was whole when it was copied are damage; nobody can tell in another log.
func TestMissingBatchOfADenseLog(t *testing.T) {
	for _, known := range []bool{true, false} {
		s := newHarness(t, shape{})
		s.topic("t", 0)
		s.add(stored{base: 0, end: 29, log: joined(dense(0, 9, false), dense(20, 29, false)), files: segment.Files{Dense: known}})
		r := from(0)
		r.EndOffset = 25 // for which the index is read
		for _, a := range []*answer{s.records(r), s.raw(r)} {
			if known {
				if e := wantKind(t, "a gap", a, Damaged); e.NextOffset != 20 || len(a.offsets) != 10 {
					t.Errorf("%v after %v", e, a.offsets)
				}
			} else if a.err != nil || len(a.offsets) != 15 {
				t.Errorf("a gap that may be true: %v", a)
			}
		}
	}
}

// The look behind a batch that an index led to costs a GET where the next header lies in another chunk, and that chunk
// is not asked for again; it needs no second chunk's memory.
func TestLookBehindCosts(t *testing.T) {
	for _, c := range []struct {
		offset, end int64
		gets        int
	}{
		{8, 9, 1}, {9, 10, 2}, {9, 15, 2}, {9, 25, 3}, {5, 10, 1}, {99, 100, 1},
	} {
		for others := range 4 { // of four slabs
			s := newHarness(t, shape{chunk: 10_000, memory: 40_000, window: -1})
			s.topic("t", 0)
			var log []byte
			var pairs []int64
			for o := int64(0); o < 100; o++ {
				if o > 0 {
					pairs = append(pairs, o, int64(len(log)))
				}
				log = append(log, one(o, 1000+o, 1000)...)
			}
			s.add(stored{base: 0, end: 99, log: log, files: segment.Files{OffsetIndex: offsetIndex(0, pairs...)}})
			for i := range others {
				st, err := s.Open(t.Context(), from(int64(60+10*i)))
				if err != nil {
					t.Fatal(err)
				}
				defer st.Close()
				var run Run
				defer run.Release()
				if err := st.NextRun(t.Context(), &run); err != nil {
					t.Fatal(err)
				}
			}
			before := s.logGets()
			r := from(c.offset)
			r.EndOffset = c.end
			want(t, "records", s.records(r), offsetsOf(c.offset, c.end-1), EndRange, c.end)
			if gets := s.logGets() - before; gets != c.gets && others < 2 {
				t.Errorf("[%d, %d) took %d GETs, want %d", c.offset, c.end, gets, c.gets)
			}
			if a := s.raw(r); fmt.Sprint(a.offsets) != fmt.Sprint(offsetsOf(c.offset, c.end-1)) {
				t.Errorf("raw [%d, %d) beside %d slabs: %v", c.offset, c.end, others, a)
			}
		}
	}
}
