package fetch

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"coldtap/segment"
)

// asBrokersDo makes a segment of batches with the indexes that a broker writes: an entry once more than interval bytes
// have gone by, which names the last offset of the batch at its position.
func asBrokersDo(interval int, batches ...[]byte) stored {
	h, _ := segment.ParseHeader(batches[0], math.MaxInt32)
	base := h.BaseOffset
	var log []byte
	var offsets, times []int64
	since, latest, latestAt, written := 0, int64(-1), int64(-1), int64(-1)
	for _, b := range batches {
		if h, _ = segment.ParseHeader(b, math.MaxInt32); h.MaxTimestamp > latest {
			latest, latestAt = h.MaxTimestamp, h.LastOffset()
		}
		if since > interval {
			offsets = append(offsets, h.LastOffset(), int64(len(log)))
			if latest > written {
				times = append(times, latest, latestAt)
				written = latest
			}
			since = 0
		}
		since += len(b)
		log = append(log, b...)
	}
	return stored{base: base, end: h.LastOffset(), log: log, noTxns: true,
		files: segment.Files{OffsetIndex: offsetIndex(base, offsets...), TimeIndex: timeIndex(base, times...)}}
}

// batchesOf makes n batches of so many records each, from offset 0 on, a millisecond apart.
func batchesOf(n, records, value int, attrs int16) (batches [][]byte) {
	for o := 0; o < n*records; o += records {
		b := batchOf{base: int64(o), attrs: attrs}
		for i := range records {
			b.records = append(b.records, rec{delta: i, time: plainTime + int64(o+i), key: "k", value: string(make([]byte, value))})
		}
		batches = append(batches, b.encode())
	}
	return batches
}

// damagedBatch is a batch of a log, and what is done to it.
type damagedBatch struct {
	first, last int64 // offsets
	at          int64 // position
	next        int64 // first offset behind the damage that is proven
}

// damages are ways to damage one batch. next is behind the batch itself, but where nothing tells how long it is.
var damages = map[string]func(b []byte){
	"the last byte":     func(b []byte) { b[len(b)-1] ^= 0x10 },
	"the first record":  func(b []byte) { b[61] ^= 1 },
	"all of its values": func(b []byte) { clear(b[66:]) },
	"the checksum":      func(b []byte) { b[20] ^= 1 },
	"the attributes":    func(b []byte) { b[22] ^= 0x20 },
	"the last delta":    func(b []byte) { b[26] ^= 2 },
	"the count":         func(b []byte) { b[57] ^= 0x40 },
	"the largest time":  func(b []byte) { b[42] ^= 4 },
	"the base offset":   func(b []byte) { b[5] ^= 1 },
	"a near offset":     func(b []byte) { b[7] ^= 4 },
	"the magic":         func(b []byte) { b[16] = 7 },
	"the length":        func(b []byte) { b[11] ^= 4 },
	"nothing is left":   func(b []byte) { clear(b) },
}

// Damage costs the batch that it lies in and nothing else, wherever a read begins: with a broker's own sparse index, an
// empty one, and none; and a client that goes on where the error says comes to the end. Where the length is damaged
// too, it costs what lies up to the next entry of the index.
func TestDamageCostsItsOwnBatch(t *testing.T) {
	for _, shapes := range []struct {
		n, records, value int
	}{{40, 12, 70}, {99, 1, 5}} {
		batches := batchesOf(shapes.n, shapes.records, shapes.value, 0)
		healthy := asBrokersDo(4096, batches...)
		all := offsetsOf(0, healthy.end)
		for name, damage := range damages {
			for _, victim := range []int{0, shapes.n / 2, shapes.n - 1} {
				bad := slices.Clone(batches)
				bad[victim] = bytes.Clone(bad[victim])
				damage(bad[victim])
				d := damagedBatch{first: int64(victim * shapes.records), at: int64(len(joined(batches[:victim]...)))}
				d.last = d.first + int64(shapes.records) - 1
				for indexes, change := range map[string]func(*segment.Files){
					"":                func(*segment.Files) {},
					", dense":         func(f *segment.Files) { f.Dense = true },
					", no time index": func(f *segment.Files) { f.TimeIndex = nil },
					", no index":      func(f *segment.Files) { f.OffsetIndex, f.TimeIndex = nil, nil },
				} {
					x := healthy
					x.log, x.maxTime = joined(bad...), maxTimestamp(healthy.log)
					change(&x.files)
					s := newHarness(t, shape{chunk: 3000, memory: 64 << 10, window: -1})
					s.topic("t", 0)
					seg := s.add(x)
					d.next = d.last + 1
					lost := name == "the length" || name == "nothing is left"
					if lost {
						d.next = x.behindByIndex(d.at)
					}
					what := fmt.Sprintf("%s of batch %d to %d of %d%s", name, d.first, d.last, x.end, indexes)
					for view, read := range map[string]func(*Request) *answer{"raw": s.raw, "records": func(r *Request) *answer { return s.records(r) }} {
						for _, offset := range []int64{0, d.first - 1, d.first, d.last, d.last + 1, d.last + 3, d.next - 1, d.next, d.next + 20, x.end} {
							if offset < 0 || offset > x.end {
								continue
							}
							a := read(from(offset))
							if offset >= d.next {
								want(t, what+", "+view, a, all[offset:], EndTier, x.end+1)
								continue
							}
							e := wantKind(t, what+", "+view, a, Damaged)
							if before := all[min(offset, d.first):d.first]; fmt.Sprint(a.offsets) != fmt.Sprint(before) && len(a.offsets)+len(before) > 0 {
								t.Errorf("%s, %s from %d: %v", what, view, offset, a)
							}
							if e.NextOffset != d.next || e.Segment != seg.ID {
								t.Errorf("%s, %s from %d: next %d, want %d; %v", what, view, offset, e.NextOffset, d.next, e)
							}
						}
					}
					strict := slices.Contains([]string{"the last byte", "the first record", "all of its values", "the checksum", "the attributes"}, name)
					s.times(t, what, &d, x.end, strict)
				}
			}
		}
	}
}

// Damage that spreads over many batches ends at the first entry of the index behind it, however much it is, or where
// the headers lead to, and finding that costs no request for each batch.
func TestDamageOfManyBatches(t *testing.T) {
	batches := batchesOf(20_000, 1, 30, 0)
	healthy := asBrokersDo(4096, batches...)
	const first = 5000
	size := len(batches[0])
	from5000 := first * size // batches are of one size here
	if len(healthy.log) != 20_000*size {
		t.Fatal("batches of several sizes")
	}
	hole := func(n int) func(log []byte) int64 {
		return func(log []byte) int64 {
			clear(log[from5000+40:][:n])
			x := stored{base: healthy.base, end: healthy.end, log: healthy.log, files: healthy.files}
			return x.behindByIndex(int64(from5000 + 39 + n))
		}
	}
	for name, damage := range map[string]func(log []byte) int64{
		"a hole of 4 KiB":   hole(4 << 10),
		"a hole of 64 KiB":  hole(64 << 10),
		"a hole of 200,000": hole(200_000),
		"a hole of 1 MiB":   hole(1 << 20),
		"40 batches": func(log []byte) int64 {
			for i := range 40 {
				log[(first+i)*size+70] ^= 1
			}
			return first + 40
		},
	} {
		x := healthy
		x.log, x.maxTime = bytes.Clone(healthy.log), maxTimestamp(healthy.log)
		next := damage(x.log)
		s := newHarness(t, shape{chunk: 256 << 10, memory: 16 << 20, window: -1})
		s.topic("t", 0)
		seg := s.add(x)
		e := wantKind(t, name, s.records(from(first-10)), Damaged)
		if e.NextOffset != next || next > healthy.end {
			t.Errorf("%s: go on at %d, want %d", name, e.NextOffset, next)
		}
		// Each of the chunks that the damage lies in, and one behind it, comes up to three times.
		if gets, most := s.logGets(), 3*((1<<20)/(256<<10)+2); name != "a hole of 1 MiB" && gets > 6 || gets > most {
			t.Errorf("%s: %d requests", name, gets)
		}
		// A batch behind the damage that the second read brings damaged is read once more itself.
		if name == "40 batches" {
			s.chunks.DropSegment(seg.Key())
			loads := 0
			s.logs[seg.ID].spoil = func(off int64, chunk []byte) {
				if at := int64((first+40)*size) - off; 0 <= at && at < int64(len(chunk))-100 {
					if loads++; loads == 2 {
						chunk[at+70] ^= 1
					}
				}
			}
			if e := wantKind(t, name, s.records(from(first-10)), Damaged); e.NextOffset != next || loads < 3 {
				t.Errorf("go on at %d, want %d; %d loads", e.NextOffset, next, loads)
			}
		}
	}
}

// behindByIndex is the first offset of the batch at the first entry behind a position, or the offset behind the
// segment.
func (x *stored) behindByIndex(at int64) int64 {
	index, _ := segment.ParseOffsetIndex(x.files.OffsetIndex, x.base, int64(len(x.log)))
	if _, pos, ok := index.UpperBound(at + 1); ok {
		h, _ := segment.ParseHeader(x.log[pos:], math.MaxInt32)
		return h.BaseOffset
	}
	return x.end + 1
}

// times looks records up by their time: the answer is right, or damage, where the record lies in it. Where the header
// is damaged, nothing else tells what times the batch has, so look-ups behind it may fail too (not strict).
func (s *harness) times(t *testing.T, what string, d *damagedBatch, end int64, strict bool) {
	t.Helper()
	for o := range end + 1 {
		if (o < d.first-4 || o > d.next+4) && o%37 > 0 {
			continue
		}
		got, err := s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, plainTime+o, ReadUncommitted, 0)
		switch inside := o >= d.first && o < d.next; {
		case kindOf(err) == Damaged && (inside || o > d.last && !strict):
		case err == nil && got.Offset == o && !inside:
		default:
			t.Errorf("%s, offset %d by time: %+v, %v", what, o, got, err)
		}
	}
}

// A bit that flipped anywhere in a batch makes no look-up by time wrong, without a time index that would tell what the
// batch holds; whoever sets the timestamps.
func TestNoFlippedBitMakesATimeWrong(t *testing.T) {
	for _, attrs := range []int16{0, 8} {
		batches := batchesOf(12, 6, 3, attrs)
		healthy := asBrokersDo(400, batches...)
		healthy.files.TimeIndex = nil
		healthy.log = bytes.Clone(healthy.log)
		s := newHarness(t, shape{chunk: 64 << 10, memory: 1 << 20, window: -1})
		s.topic("t", 0)
		seg := s.add(healthy)
		victim := len(joined(batches[:5]...))
		for at := victim; at < victim+len(batches[5]); at++ {
			if at >= victim+12 && at < victim+16 {
				continue // the leader epoch is outside of every checksum
			}
			for bit := range 8 {
				healthy.log[at] ^= 1 << bit
				s.chunks.DropSegment(seg.Key())
				for _, o := range []int64{29, 30, 34, 35, 36, 37, 42, 71} {
					right, mayFail := o, o >= 30
					if attrs != 0 {
						right = o / 6 * 6 // all records of a batch have its latest time
					}
					if at >= victim+len(batches[5])-3 { // behind the last timestamp
						mayFail = o >= 30 && o < 36 || attrs != 0 && o >= 36 && o < 42
					}
					got, err := s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, plainTime+o, ReadUncommitted, 0)
					if err == nil && got.Offset != right || err != nil && (kindOf(err) != Damaged || !mayFail) {
						t.Errorf("bit %d of byte %d, attributes %d: offset %d by time: %+v, %v", bit, at-victim, attrs, o, got, err)
					}
				}
				healthy.log[at] ^= 1 << bit
			}
		}
	}
}

// A range of the log behind a damaged batch is given; one that touches it names what is behind it.
func TestLogRangeBehindDamage(t *testing.T) {
	batches := batchesOf(40, 12, 70, 0)
	healthy := asBrokersDo(4096, batches...)
	begin, end := int64(len(joined(batches[:20]...))), int64(len(joined(batches[:21]...)))
	for name, damage := range damages {
		for _, indexed := range []bool{true, false} {
			x := healthy
			x.log, x.maxTime = bytes.Clone(x.log), 1
			if !indexed {
				x.files = segment.Files{}
			}
			damage(x.log[begin:end])
			s := newHarness(t, shape{chunk: 3000, memory: 1 << 20, window: -1})
			s.topic("t", 0)
			s.add(x)
			next, sound := int64(21*12), end
			if name == "the length" || name == "nothing is left" {
				next = x.behindByIndex(begin)
				sound = int64(len(joined(batches[:next/12]...)))
				if next > x.end {
					sound = int64(len(x.log))
				}
			}
			for _, from := range []int64{0, begin - 1, begin, end - 1, sound, sound + 1, sound + 500} {
				from = min(from, int64(len(x.log)))
				got, _, err := s.logBytes(from, int64(len(x.log)))
				what := fmt.Sprintf("%s, indexed %v, from %d for a batch at [%d, %d)", name, indexed, from, begin, end)
				if from >= sound {
					if err != nil || !bytes.Equal(got, x.log[from:]) {
						t.Errorf("%s: %d bytes, %v", what, len(got), err)
					}
					continue
				}
				if e := wantKind(t, what, &answer{err: err}, Damaged); e.NextOffset != next || !bytes.Equal(got, x.log[min(from, begin):begin]) {
					t.Errorf("%s: %d bytes, next %d, want %d", what, len(got), e.NextOffset, next)
				}
			}
		}
	}
}

// A batch too large for the decode memory is no damage: what is behind it is read, it is handed out undecoded, and who
// wants its records is told that it is too large, and where to go on. It costs no decode memory, and chunk by chunk no
// second chunk's.
func TestBatchTooLargeForTheDecodeMemory(t *testing.T) {
	big := batchOf{base: 10}
	for i := range 10 {
		big.records = append(big.records, rec{delta: i, time: 1000 * int64(11+i), value: string(bytes.Repeat([]byte{byte(i)}, 600<<10))})
	}
	log := joined(dense(0, 9, false), big.encode(), dense(20, 28, false))
	behind := int64(len(log) - len(dense(20, 28, false)))
	for _, chunk := range []int64{1 << 20, 100_000} {
		for _, index := range [][]byte{nil, offsetIndex(0, 19, int64(len(dense(0, 9, false))))} {
			s := newHarness(t, shape{chunk: chunk, memory: 4 * chunk, decode: 4 << 20})
			s.topic("t", 0)
			s.add(stored{base: 0, end: 28, log: log, files: segment.Files{OffsetIndex: index}})
			what := fmt.Sprintf("chunks of %d, an index of %d bytes", chunk, len(index))
			for _, offset := range []int64{20, 23, 28} {
				want(t, what+", records", s.records(from(offset)), offsetsOf(offset, 28), EndTier, 29)
				want(t, what+", raw", s.raw(from(offset)), offsetsOf(offset, 28), EndTier, 29)
			}
			for _, offset := range []int64{0, 5, 10, 15, 19} {
				a := s.raw(from(offset))
				begin := len(dense(0, 9, false))
				if offset < 10 {
					begin = 0
				}
				if a.err != nil || !bytes.Equal(joined(a.batches...), log[begin:]) || a.next != 29 {
					t.Errorf("%s, raw from %d: %d batches, next %d, %v", what, offset, len(a.batches), a.next, a.err)
				}
				a = s.records(from(offset))
				if e := wantKind(t, what, a, TooLarge); e.NextOffset != 20 || !strings.Contains(e.Error(), "limits.decode_memory") || strings.Contains(e.Error(), "damage") {
					t.Errorf("%s, records from %d: %v, next %d", what, offset, e, e.NextOffset)
				}
			}
			r := from(0)
			r.EndOffset = 10
			want(t, what+", before it", s.records(r), offsetsOf(0, 9), EndRange, 10)
			for ts, offset := range map[int64]int64{5000: 4, 21_000: 20, 25_000: 24} {
				if got := s.at(ts, ReadUncommitted); got.Offset != offset {
					t.Errorf("%s, by time %d: %+v", what, ts, got)
				}
			}
			_, err := s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, 15_000, ReadUncommitted, 0)
			wantKind(t, what+", a time in it", &answer{err: err}, TooLarge)
			for _, r := range [][2]int64{{0, int64(len(log))}, {500, 3 << 20}, {3 << 20, 3<<20 + 10}, {behind - 1, behind + 1}, {behind, int64(len(log))}} {
				if got, _, err := s.logBytes(r[0], r[1]); err != nil || !bytes.Equal(got, log[r[0]:r[1]]) {
					t.Errorf("%s, bytes [%d, %d): %d, %v", what, r[0], r[1], len(got), err)
				}
			}
			if s.refetches(healed)+s.refetches(stillDamaged) != 0 {
				t.Error("a sound batch was read again")
			}
		}
	}
}

// A damaged batch of that size is damage, for all who touch it, and costs nobody behind it.
func TestDamagedBatchTooLargeForTheDecodeMemory(t *testing.T) {
	big := one(10, 1000, 6<<20)
	big[3<<20] ^= 1
	log := joined(dense(0, 9, false), big, dense(11, 19, false))
	s := newHarness(t, shape{chunk: 1 << 20, memory: 4 << 20, decode: 4 << 20})
	s.topic("t", 0)
	s.add(stored{base: 0, end: 19, log: log})
	for _, offset := range []int64{0, 10} {
		for _, a := range []*answer{s.raw(from(offset)), s.records(from(offset))} {
			if e := wantKind(t, "it", a, Damaged); e.NextOffset != 11 || len(a.offsets) != int(10-offset) {
				t.Errorf("from %d: %v, next %d", offset, a, e.NextOffset)
			}
		}
	}
	want(t, "behind", s.records(from(12)), offsetsOf(12, 19), EndTier, 20)
	want(t, "behind, raw", s.raw(from(11)), offsetsOf(11, 19), EndTier, 20)
}

// The bytes of a batch that is handed out piece by piece are those that were checked, also when a chunk has left memory
// in between and comes again otherwise.
func TestPiecesAreWhatWasChecked(t *testing.T) {
	big := one(0, 1000, 1<<20)
	for _, times := range []int{1, 1000} {
		s := newHarness(t, shape{chunk: 64 << 10, memory: 256 << 10, window: -1, decode: 1 << 20})
		s.topic("t", 0)
		seg := s.add(stored{base: 0, end: 0, log: big})
		loads := map[int64]int{}
		s.logs[seg.ID].spoil = func(off int64, chunk []byte) {
			if loads[off]++; off == 640<<10 && loads[off] > 1 && loads[off] <= 1+times {
				chunk[100] ^= 1
			}
		}
		st, err := s.Open(t.Context(), from(0))
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		var run Run
		for err = nil; err == nil; err = st.NextRun(t.Context(), &run) {
			got = append(got, run.Bytes()...)
		}
		st.Close()
		if times == 1 && (err != io.EOF || !bytes.Equal(got, big)) || times > 1 && (kindOf(err) != Unreachable || !bytes.Equal(got, big[:640<<10])) {
			t.Errorf("damaged %d times: %d bytes, %v", times, len(got), err)
		}
	}
}

// Bytes that a layout cannot make log bytes of (they fail authentication) cost what lies in their chunk.
func TestChunkThatCannotBeOpened(t *testing.T) {
	s := newHarness(t, shape{chunk: 10_000, memory: 1 << 20, window: -1})
	segs := s.plain()
	s.loadLog = func(id segment.UUID, off int64) error {
		if id == segs[0].ID && off == 40_000 {
			return failure(Damaged, nil, "fails authentication")
		}
		return nil
	}
	for _, offset := range []int64{0, 38, 40, 45, 49} {
		for _, a := range []*answer{s.raw(from(offset)), s.records(from(offset))} {
			if e := wantKind(t, "in it", a, Damaged); e.NextOffset != 50 || len(a.offsets) != int(max(0, 40-offset)) {
				t.Errorf("from %d: next %d, %v", offset, e.NextOffset, a)
			}
		}
	}
	for _, offset := range []int64{50, 51, 60, 99} {
		want(t, "behind it", s.records(from(offset)), offsetsOf(offset, 299), EndTier, 300)
	}
	r := from(36)
	r.EndOffset = 40
	want(t, "before it", s.records(r), offsetsOf(36, 39), EndRange, 40)
}

// What is passed over below the offset that is asked for is not read again, and costs no more of the store than a sound
// batch.
func TestSteppingOverCostsNothing(t *testing.T) {
	sh := shape{chunk: 10_000, memory: 1 << 20, window: -1}
	s, _ := repaired(t, sh, 50_500, 1000)
	var log bytes.Buffer
	s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := from(52)
	r.EndOffset = 58
	for range 3 {
		want(t, "behind it", s.records(r), offsetsOf(52, 57), EndRange, 58)
	}
	if s.logGets() != 1 || s.refetches(stillDamaged) != 0 || strings.Count(log.String(), "stepped over") != 3 {
		t.Errorf("%d GETs, log:\n%s", s.logGets(), log.String())
	}
}
