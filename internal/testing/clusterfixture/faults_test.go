package clusterfixture_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/bench/simstore"
	"coldtap/fetch"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
)

// trials is how many questions each layout is asked under each kind of fault.
const trials = 12

// TestEveryAnswerUnderFaultsIsRightOrAnError asks for records, raw batches, ranges of logs and offsets of times, in
// every layout and with both isolation levels, while the store does whatever stores do. Each answer is what it is
// without faults, or ends early and goes on rightly where it says, or is a typed error after a right beginning; and
// once the store is well, so are the answers. Time is not real.
func TestEveryAnswerUnderFaultsIsRightOrAnError(t *testing.T) {
	layouts := map[string]func(*testing.T) *harness{
		"local":  func(t *testing.T) *harness { return newHarness(t, clusterKnown) },
		"native": newNativeStand,
	}
	for _, set := range clusterfixture.LoadAiven(t) {
		layouts["aiven "+set.Name] = func(t *testing.T) *harness { return newAivenStand(t, set, 24<<10, clusterKnown) }
	}
	for name, open := range layouts {
		t.Run(name, func(t *testing.T) {
			emptyPools()
			defer emptyPools()
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				rnd := rand.New(rand.NewPCG(9, uint64(len(name))))
				right, refused := map[string]int{}, map[string]int{}
				for _, what := range slices.Sorted(maps.Keys(faults)) {
					for range trials {
						p := s.anyPartition(rnd)
						q := s.anyQuestion(t, p, rnd)
						hit, served := s.try(t, p, q, what, rnd)
						switch {
						case !hit:
						case served:
							right[what]++
						default:
							refused[what]++
						}
					}
					if right[what]+refused[what] == 0 {
						t.Errorf("%s: no answer met it", what)
					}
				}
				// Retries, second sights and faults of other chunks leave answers right; others are not to be had.
				if len(right) < len(faults)/2 || len(refused) < len(faults)/2 {
					t.Errorf("right %v, refused %v", right, refused)
				}
			})
		})
	}
}

// emptyPools takes every sync.Pool's content away: zstd's decoders have channels, which must not leave the bubble that
// they were made in. What a pool holds outlives one collection.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// newNativeStand is the frozen cluster's tier in coldtap's own layout.
func newNativeStand(t *testing.T) *harness {
	from := newHarness(t, clusterKnown)
	mem := simstore.NewMemory()
	to := native.New(rangeio.NewClient(mem, rangeio.Config{}), "")
	for _, p := range from.fixture.Partitions() {
		for _, seg := range from.view(t, p).Segments(false) {
			log := from.fixture.Objects[key(p, seg, ".log")]
			files, _, err := from.layout.ReadFiles(t.Context(), seg)
			if err != nil {
				t.Fatal(err)
			}
			next := seg.BaseOffset
			files.Dense = true
			for b, err := range segment.Batches(log) {
				if err != nil {
					t.Fatal(err)
				}
				files.Dense = files.Dense && b.Header.BaseOffset == next
				next = b.Header.LastOffset() + 1
			}
			files.Dense = files.Dense && next == seg.EndOffset+1
			sum := sha256.Sum256(log)
			if err := to.Put(t.Context(), "cluster", seg, bytes.NewReader(log), hex.EncodeToString(sum[:]), files); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := *from.fixture
	f.Objects = map[string][]byte{}
	for _, key := range mem.Keys() {
		f.Objects[key] = mem.Bytes(key)
	}
	lineage := func(_ *harness, p *clusterfixture.Partition) string { return p.LeaderEpochs }
	return newStandOver(t, &f, 8<<10, lineage, func(c *rangeio.Client) layout.Reader { return native.New(c, "") })
}

func (s *harness) anyPartition(rnd *rand.Rand) *clusterfixture.Partition {
	for {
		all := s.fixture.Partitions()
		if p := all[rnd.IntN(len(all))]; p.LatestTiered > p.Start {
			return p
		}
	}
}

// reply is what came of a question. body is records as text, batches or bytes of a file.
type reply struct {
	body []byte
	end  fetch.EndReason
	next int64
	err  error
}

// question asks the same thing each time; with from ≥ 0, only for what is from that offset on.
type question struct {
	what string
	ask  func(from int64) reply
}

// asked asks a store that is well. What was learned of a wrong version of an object may cost one more read, and so may
// batches that are in the cache for others.
func (q *question) asked(before string) reply {
	a := q.ask(-1)
	for range 3 {
		store, ok := errors.AsType[*rangeio.Error](a.err)
		if a.err == nil || before != "wrong range" && !(ok && store.Kind == rangeio.Changed) {
			break
		}
		a = q.ask(-1)
	}
	return a
}

func (s *harness) anyQuestion(t *testing.T, p *clusterfixture.Partition, rnd *rand.Rand) question {
	isolation := []string{"read_committed", "read_uncommitted"}[rnd.IntN(2)]
	from := p.Start + rnd.Int64N(p.LatestTiered-p.Start)
	r := request(p, from, isolation)
	r.MaxBytes = 1 + rnd.Int64N(300_000)
	if rnd.IntN(2) == 0 {
		r.EndOffset = from + 1 + rnd.Int64N(p.LatestTiered+1-from)
	}
	records := s.fixture.Expected(t, p.Name(), "read_uncommitted")
	ts := records[rnd.IntN(len(records))].Timestamp
	if rnd.IntN(4) == 0 {
		r.Start, r.Timestamp = fetch.FromTimestamp, ts
	}
	what := fmt.Sprintf("%s %+v", p.Name(), r)
	stream := func(read func(*fetch.Stream) ([]byte, error)) func(int64) reply {
		return func(from int64) (a reply) {
			r := r
			if from >= 0 {
				r.Start, r.Offset = fetch.FromOffset, from
			}
			st, err := s.Open(context.Background(), &r)
			if err != nil {
				return reply{err: err}
			}
			defer st.Close()
			for a.err == nil {
				var more []byte
				more, a.err = read(st)
				a.body = append(a.body, more...)
			}
			if errors.Is(a.err, io.EOF) {
				a.err = nil
			}
			a.end, _ = st.End()
			a.next = st.NextOffset()
			return a
		}
	}
	switch rnd.IntN(5) {
	case 0:
		return question{"time " + what, func(int64) reply {
			at, err := s.OffsetForTime(context.Background(), p.Topic.Name, p.Topic.ID, p.Number, ts, isolations[isolation], 0)
			if err != nil {
				return reply{err: err}
			}
			return reply{body: fmt.Appendf(nil, "%+v", at)}
		}}
	case 1:
		all := s.view(t, p).Segments(false)
		seg := all[rnd.IntN(len(all))]
		if seg.Size > 0 {
			lo := rnd.Int64N(seg.Size)
			hi := lo + rnd.Int64N(seg.Size-lo+1)
			return question{fmt.Sprintf("bytes [%d, %d) of segment %d of %s", lo, hi, seg.BaseOffset, p.Name()), func(int64) (a reply) {
				f, err := s.OpenFile(context.Background(), p.Topic.Name, p.Topic.ID, p.Number, seg.ID.String(), "log", 0)
				if err != nil {
					return reply{err: err}
				}
				fs := f.Range(lo, hi)
				defer fs.Close()
				var run fetch.Run
				defer run.Release()
				for {
					if err := fs.Next(context.Background(), &run); errors.Is(err, io.EOF) {
						return a
					} else if err != nil {
						a.err = err
						return a
					}
					a.body = append(a.body, run.Bytes()...)
				}
			}}
		}
	case 2, 3:
		return question{"raw " + what, stream(func(st *fetch.Stream) ([]byte, error) {
			var run fetch.Run
			defer run.Release()
			err := st.NextRun(context.Background(), &run)
			return bytes.Clone(run.Bytes()), err
		})}
	}
	return question{"records " + what, stream(func(st *fetch.Stream) ([]byte, error) {
		var rec segment.Record
		if err := st.NextRecord(context.Background(), &rec); err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, "%d %d %q %q %v\n", rec.Offset, rec.Timestamp, rec.Key, rec.Value, rec.Headers), nil
	})}
}

// try asks once under a fault and once after it. hit says that the fault was met, served that the answer was right
// nevertheless.
func (s *harness) try(t *testing.T, p *clusterfixture.Partition, q question, what string, rnd *rand.Rand) (hit, served bool) {
	t.Helper()
	truth := q.asked(what)
	if truth.err != nil {
		t.Fatalf("%s: %v", q.what, truth.err)
	}
	s.forget(t, p)
	var hits atomic.Int64
	end := faults[what](s, p, rnd, func() { hits.Add(1) })
	got := q.ask(-1)
	end()
	time.Sleep(time.Minute) // loads that met the fault have ended
	switch {
	case got.err != nil:
		e, ok := errors.AsType[*fetch.Error](got.err)
		if !ok || !slices.Contains([]fetch.Kind{fetch.Damaged, fetch.Missing, fetch.Refused, fetch.Unreachable, fetch.TimedOut}, e.Kind) {
			t.Errorf("%s under %s: %v", q.what, what, got.err)
		}
		if !bytes.HasPrefix(truth.body, got.body) {
			t.Errorf("%s under %s: something else before %v", q.what, what, got.err)
		}
	// Time ran out, or of a damaged snapshot nothing is proven: then it says so.
	case (got.end == fetch.EndLimit || got.end == fetch.EndUndecided) && got.next < truth.next:
		s.forget(t, p)
		rest := q.ask(got.next)
		if !bytes.HasPrefix(truth.body, got.body) || rest.err != nil || rest.next < truth.next ||
			!bytes.HasPrefix(append(got.body, rest.body...), truth.body) && !strings.HasPrefix(q.what, "raw") {
			t.Errorf("%s under %s: it ended at %d, and went on to %d (want %d) with another answer", q.what, what, got.next, rest.next, truth.next)
		}
	case !bytes.Equal(got.body, truth.body) || got.end != truth.end || got.next != truth.next:
		t.Errorf("%s under %s: %d bytes, an end at %d for %v; want %d, %d, %v",
			q.what, what, len(got.body), got.next, got.end, len(truth.body), truth.next, truth.end)
	default:
		served = true
	}
	after := q.asked(what)
	if after.err != nil || !bytes.Equal(after.body, truth.body) || after.end != truth.end || after.next != truth.next {
		t.Errorf("%s after %s: %d bytes instead of %d, %v", q.what, what, len(after.body), len(truth.body), after.err)
	}
	return hits.Load() > 0, served
}

// forget empties the caches of a partition.
func (s *harness) forget(t *testing.T, p *clusterfixture.Partition) {
	for _, seg := range s.view(t, p).Segments(true) {
		s.path.Drop(seg)
	}
}

// faults are what a store may do to a partition's objects. hit is to be called whenever it does; end makes the store
// well again.
var faults = map[string]func(s *harness, p *clusterfixture.Partition, rnd *rand.Rand, hit func()) (end func()){
	"latency": injected(func(rnd *rand.Rand) faultstore.Fault {
		wait := time.Duration(rnd.Int64N(int64(20 * time.Second)))
		return faultstore.Fault{Do: func() { time.Sleep(wait) }}
	}),
	"silence": injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{CutAfter: -1, Hang: true} }),
	"silence later": injected(func(rnd *rand.Rand) faultstore.Fault {
		return faultstore.Fault{CutAfter: 1 + rnd.Int64N(5000), Hang: true}
	}),
	"503 slow down": injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Kind: rangeio.Throttled} }),
	"500":           injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Kind: rangeio.Unavailable} }),
	"forbidden":     injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Kind: rangeio.Forbidden} }),
	"no bucket":     injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Kind: rangeio.NoBucket} }),
	"missing":       injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Kind: rangeio.NotFound} }),
	"changed":       injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Kind: rangeio.Changed} }),
	"shorter":       injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Kind: rangeio.BadRange} }),
	"nonsense":      injected(func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Kind: rangeio.BadAnswer} }),
	"reset":         injected(func(rnd *rand.Rand) faultstore.Fault { return faultstore.Fault{CutAfter: rnd.Int64N(9000) - 1} }),
	"truncated":     injected(func(rnd *rand.Rand) faultstore.Fault { return faultstore.Fault{EndAfter: rnd.Int64N(9000) - 1} }),
	"wrong size": injected(func(rnd *rand.Rand) faultstore.Fault {
		return faultstore.Fault{SizeOff: 1 + rnd.Int64N(100) - 200*rnd.Int64N(2)}
	}),
	"another version":  injected(func(rnd *rand.Rand) faultstore.Fault { return faultstore.Fault{ETag: fmt.Sprint(rnd.Int64())} }),
	"wrong range":      wrongRange,
	"damaged object":   damagedObject,
	"another's object": anothersObject,
}

// injected makes the partition's objects meet a fault, some times or always.
func injected(fault func(*rand.Rand) faultstore.Fault) func(*harness, *clusterfixture.Partition, *rand.Rand, func()) func() {
	return func(s *harness, p *clusterfixture.Partition, rnd *rand.Rand, hit func()) func() {
		f := fault(rnd)
		do := f.Do
		f.Do = func() {
			hit()
			if do != nil {
				do()
			}
		}
		rule := faultstore.Rule{Op: faultstore.Get, Skip: max(0, rnd.IntN(5)-2), Times: rnd.IntN(4), Fault: f}
		if rnd.IntN(2) == 0 {
			rule.Key, rule.Skip = faultstore.Suffix(".log"), 0
		}
		return s.store.Inject(rule)
	}
}

// wrongRange gives other bytes of a log than were asked for, as many, and claims nothing about it.
func wrongRange(s *harness, _ *clusterfixture.Partition, rnd *rand.Rand, hit func()) func() {
	var remove []func()
	for _, key := range slices.Sorted(maps.Keys(s.fixture.Objects)) {
		object := s.fixture.Objects[key]
		if !strings.HasSuffix(key, ".log") || len(object) < 2 {
			continue
		}
		shift := 1 + rnd.Int64N(int64(len(object))-1)
		remove = append(remove, s.store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(key), Fault: faultstore.Fault{
			Do: hit, Content: func(off int64, b []byte) {
				for i := range b {
					b[i] = object[(off+int64(i)+shift)%int64(len(object))]
				}
			}}}))
	}
	return func() {
		for _, r := range remove {
			r()
		}
	}
}

// damagedObject flips bits of a partition's logs, one in each; where a checksum covers them, of its other objects as
// well. Bytes that nobody can vouch for are spared: leader epochs, and base offsets beside a gap (docs/limits.md).
func damagedObject(s *harness, p *clusterfixture.Partition, rnd *rand.Rand, hit func()) func() {
	_, isNative := s.layout.(*native.Layout)
	times := rnd.IntN(2)
	var remove []func()
	for _, key := range slices.Sorted(maps.Keys(s.fixture.Objects)) {
		object := s.fixture.Objects[key]
		if len(object) == 0 || !strings.HasSuffix(key, ".log") && !(isNative && strings.HasSuffix(key, ".meta")) || !strings.Contains(key, p.Topic.ID.String()) {
			continue
		}
		at := int64(rnd.IntN(len(object)))
		for strings.HasSuffix(key, ".log") && unvouched(object, at) {
			at = int64(rnd.IntN(len(object)))
		}
		bit := byte(1 << rnd.IntN(8))
		remove = append(remove, s.store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(key), Times: times, Fault: faultstore.Fault{
			Content: func(off int64, b []byte) {
				if i := at - off; i >= 0 && i < int64(len(b)) {
					hit()
					b[i] ^= bit
				}
			}}}))
	}
	return func() {
		for _, r := range remove {
			r()
		}
	}
}

// unvouched says that nothing covers the byte at a log position. Of what is no log, everything is covered.
func unvouched(log []byte, at int64) bool {
	behind := int64(-1)
	for b, err := range segment.Batches(log) {
		if err != nil {
			return false
		}
		h := &b.Header
		gap := behind >= 0 && h.BaseOffset != behind
		if in := at - b.Position; in >= 0 && in < h.Size() {
			next := int64(len(log)) == b.Position+h.Size()
			if !next {
				if n, err := segment.ParseHeader(log[b.Position+h.Size():], 1<<40); err == nil {
					next = n.BaseOffset == h.LastOffset()+1
				}
			}
			return in >= 12 && in < 16 || in < 8 && (gap || !next)
		}
		behind = h.LastOffset() + 1
	}
	return false
}

// anothersObject puts the log of one segment in the place of each other one of its partition.
func anothersObject(s *harness, p *clusterfixture.Partition, rnd *rand.Rand, hit func()) func() {
	logs := map[string][]string{} // by folder, which is a partition's in every layout
	for _, key := range slices.Sorted(maps.Keys(s.fixture.Objects)) {
		if strings.HasSuffix(key, ".log") && strings.Contains(key, p.Topic.ID.String()) {
			logs[path.Dir(key)] = append(logs[path.Dir(key)], key)
		}
	}
	var remove []func()
	for _, folder := range slices.Sorted(maps.Keys(logs)) {
		other := s.fixture.Objects[logs[folder][rnd.IntN(len(logs[folder]))]]
		for _, key := range logs[folder] {
			if bytes.Equal(s.fixture.Objects[key], other) {
				continue
			}
			remove = append(remove, s.store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(key), Fault: faultstore.Fault{
				Content: func(off int64, b []byte) {
					hit()
					for i := range b {
						b[i] = 0
						if at := off + int64(i); at < int64(len(other)) {
							b[i] = other[at]
						}
					}
				}}}))
		}
	}
	return func() {
		for _, r := range remove {
			r()
		}
	}
}
