package fetch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/internal/sample"
	"coldtap/internal/testing/testkit"
	"coldtap/segment"
	"coldtap/tier"
)

var sampleFiles = sync.OnceValues(sample.Files)

// tiered is the closed part of a partition of the sample.
type tiered struct {
	segments []stored
	end      int64
}

// closed gives the closed segments of a partition directory, with what the offloader would leave: the complete lists of
// aborted transactions, the active segment's markers included, and whether a log is dense.
func closed(tb testing.TB, dir string) tiered {
	tb.Helper()
	files, err := sampleFiles()
	if err != nil {
		tb.Fatal(err)
	}
	var bases []int64
	var aborted []segment.AbortedTxn
	for name, b := range files {
		name, ok := strings.CutPrefix(name, dir+"/")
		if !ok {
			continue
		}
		base, suffix, ok := segment.ParseFileName(name)
		switch {
		case ok && suffix == ".log":
			bases = append(bases, base)
		case ok && suffix == ".txnindex":
			txns, err := segment.ParseTxnIndex(b, base)
			if err != nil {
				tb.Fatal(err)
			}
			aborted = append(aborted, txns...)
		}
	}
	slices.Sort(bases)
	var t tiered
	for i, base := range bases[:len(bases)-1] {
		next := bases[i+1]
		file := func(base int64, suffix string) []byte { return files[dir+"/"+segment.FileName(base, suffix)] }
		x := stored{base: base, end: next - 1, log: file(base, ".log"), files: segment.Files{
			OffsetIndex: file(base, ".index"), TimeIndex: file(base, ".timeindex"), TxnIndex: file(base, ".txnindex"),
			Snapshot: file(next, ".snapshot"), Decided: true}}
		for _, a := range aborted {
			if a.FirstOffset < next && a.LastOffset >= base {
				x.files.Aborted = append(x.files.Aborted, a)
			}
		}
		slices.SortFunc(x.files.Aborted, func(a, b segment.AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
		_, x.files.Dense = layOut(tb, &tier.Segment{BaseOffset: base, EndOffset: next - 1}, x.log)
		t.segments = append(t.segments, x)
		t.end = next
	}
	return t
}

func (s *harness) addAll(t tiered) {
	s.topic("t", 0)
	for _, x := range t.segments {
		s.add(x)
	}
}

func isolationNamed(name string) Isolation {
	if name == "read_committed" {
		return ReadCommitted
	}
	return ReadUncommitted
}

var isolations = []string{"read_committed", "read_uncommitted"}

// expected is what Kafka's consumer read, below the tiered end.
func (t tiered) expected(tb testing.TB, dir, isolation string) []testkit.Record {
	all := testkit.Expected(tb, dir, isolation)
	n, _ := slices.BinarySearchFunc(all, t.end, func(r testkit.Record, o int64) int { return int(r.Offset - o) })
	return all[:n]
}

// compare tells how a record differs from the consumer's.
func compare(got *segment.Record, want *testkit.Record) error {
	same := func(b, w []byte) bool { return bytes.Equal(b, w) && (b == nil) == (w == nil) }
	switch {
	case got.Offset != want.Offset:
		return fmt.Errorf("offset %d, want %d", got.Offset, want.Offset)
	case got.Timestamp != want.Timestamp, (got.TimestampType == segment.LogAppendTime) != want.AppendTime:
		return fmt.Errorf("offset %d: timestamp %d %v, want %d", got.Offset, got.Timestamp, got.TimestampType, want.Timestamp)
	case got.LeaderEpoch != want.LeaderEpoch:
		return fmt.Errorf("offset %d: leader epoch %d, want %d", got.Offset, got.LeaderEpoch, want.LeaderEpoch)
	case !same(got.Key, want.Key):
		return fmt.Errorf("offset %d: key %q, want %q", got.Offset, got.Key, want.Key)
	case len(got.Headers) != len(want.Headers):
		return fmt.Errorf("offset %d: %d headers, want %d", got.Offset, len(got.Headers), len(want.Headers))
	}
	if want.ValueSHA256 != "" {
		if sum := sha256.Sum256(got.Value); int64(len(got.Value)) != want.ValueLength || hex.EncodeToString(sum[:]) != want.ValueSHA256 {
			return fmt.Errorf("offset %d: value of %d bytes differs", got.Offset, len(got.Value))
		}
	} else if !same(got.Value, want.Value) {
		return fmt.Errorf("offset %d: value %q, want %q", got.Offset, got.Value, want.Value)
	}
	for i, h := range got.Headers {
		if string(h.Key) != want.Headers[i].Key || !same(h.Value, want.Headers[i].Value) {
			return fmt.Errorf("offset %d: header %d %q=%q, want %v", got.Offset, i, h.Key, h.Value, want.Headers[i])
		}
	}
	return nil
}

// readAll follows NextOffset from request r on until the answer does not end for a limit, and compares with want.
func (s *harness) readAll(r Request, want []testkit.Record) *answer {
	s.tb.Helper()
	i := 0
	for {
		a := s.records(&r, func(rec *segment.Record) {
			if i >= len(want) {
				s.tb.Fatalf("a record too many: offset %d", rec.Offset)
			}
			if err := compare(rec, &want[i]); err != nil {
				s.tb.Fatal(err)
			}
			i++
		})
		if a.err != nil {
			s.tb.Fatal(a.err)
		}
		if a.end != EndLimit {
			if i != len(want) {
				s.tb.Fatalf("%d records, want %d: %v", i, len(want), a)
			}
			return a
		}
		if a.next <= r.Offset {
			s.tb.Fatalf("no progress at %d: %v", r.Offset, a)
		}
		r.Start, r.Offset = FromOffset, a.next
	}
}

func TestSampleEqualsConsumer(t *testing.T) {
	shapes := []shape{{chunk: 4 << 10, memory: 16 << 10, window: 1}, {chunk: 16 << 10}, {chunk: 1 << 20}}
	for _, dir := range sample.Partitions {
		tier := closed(t, dir)
		for _, sh := range shapes {
			s := newHarness(t, sh)
			s.addAll(tier)
			for _, isolation := range isolations {
				name := fmt.Sprintf("%s/%s/%d", dir, isolation, sh.chunk)
				t.Run(name, func(t *testing.T) {
					s.tb = t
					want := tier.expected(t, dir, isolation)
					whole := *from(0)
					whole.Isolation = isolationNamed(isolation)
					a := s.readAll(whole, want)
					if a.end != EndTier || a.next != tier.end {
						t.Errorf("ended %v at %d, want the tier's end %d", a.end, a.next, tier.end)
					}
					rng := rand.New(rand.NewPCG(7, uint64(sh.chunk)))
					for range subranges {
						r := whole
						r.Offset = rng.Int64N(tier.end)
						r.EndOffset = r.Offset + rng.Int64N(tier.end-r.Offset+1)
						r.MaxBytes = rng.Int64N(6000)
						r.MaxRecords = rng.Int64N(40)
						lo, _ := slices.BinarySearchFunc(want, r.Offset, byOffset)
						hi, _ := slices.BinarySearchFunc(want, r.EndOffset, byOffset)
						a := s.readAll(r, want[lo:hi])
						if a.end == EndRange && a.next != r.EndOffset {
							t.Errorf("range end %d gave next %d", r.EndOffset, a.next)
						}
					}
				})
				s.tb = t
			}
		}
	}
}

func byOffset(r testkit.Record, o int64) int { return int(r.Offset - o) }

// Raw answers hold what the consumer read, and following them in small steps gives each batch once.
func TestSampleRaw(t *testing.T) {
	for _, dir := range sample.Partitions {
		tier := closed(t, dir)
		for _, sh := range []shape{{chunk: 4 << 10, memory: 16 << 10}, {chunk: 64 << 10}} {
			s := newHarness(t, sh)
			s.addAll(tier)
			for _, isolation := range isolations {
				want := tier.expected(t, dir, isolation)
				r := *from(0)
				r.Isolation = isolationNamed(isolation)
				whole := s.raw(&r)
				var got []int64
				for _, w := range want {
					got = append(got, w.Offset)
				}
				if whole.err != nil || !slices.Equal(whole.offsets, got) || whole.end != EndTier {
					t.Fatalf("%s %s: %d records, want %d; %v %v", dir, isolation, len(whole.offsets), len(got), whole.end, whole.err)
				}
				r.MaxBytes = rawStep
				var pieces []byte
				for {
					a := s.raw(&r)
					if a.err != nil {
						t.Fatal(a.err)
					}
					pieces = append(pieces, joined(a.batches...)...)
					if a.end != EndLimit {
						break
					}
					if a.next <= r.Offset {
						t.Fatalf("no progress at %d", r.Offset)
					}
					r.Offset = a.next
				}
				if !bytes.Equal(pieces, joined(whole.batches...)) {
					t.Errorf("%s %s: small steps give other bytes", dir, isolation)
				}
			}
		}
	}
}

// Same requests give identical bytes whatever chunk length, read-ahead and cache are.
func TestMetamorphic(t *testing.T) {
	tier := closed(t, "txn-1")
	shapes := []shape{{chunk: 61}, {chunk: 777, memory: 4 * 777}, {chunk: 4 << 10, window: 1}, {chunk: 4 << 10, window: 9}, {chunk: 100 << 10}}
	rng := rand.New(rand.NewPCG(3, 4))
	var requests []Request
	for range 40 {
		r := *from(rng.Int64N(tier.end))
		r.Isolation = Isolation(rng.IntN(2))
		r.MaxBytes = rng.Int64N(60_000)
		if rng.IntN(2) == 0 {
			r.EndOffset = r.Offset + rng.Int64N(200)
		}
		if rng.IntN(3) == 0 {
			r.MaxRecords = 1 + rng.Int64N(50)
		}
		requests = append(requests, r)
	}
	var first []string
	for _, sh := range shapes {
		s := newHarness(t, sh)
		s.addAll(tier)
		var all []string
		for _, r := range requests {
			a, b := s.raw(&r), s.records(&r)
			all = append(all, fmt.Sprintf("%v %x %v", a, sha256.Sum256(joined(a.batches...)), b))
		}
		if first == nil {
			first = all
		}
		for i := range all {
			if all[i] != first[i] {
				t.Errorf("chunks of %d, request %+v:\n%s\n%s", sh.chunk, requests[i], first[i], all[i])
			}
		}
	}
}

func TestSampleOffsetsForTime(t *testing.T) {
	for _, dir := range sample.Partitions {
		tier := closed(t, dir)
		s := newHarness(t, shape{chunk: 8 << 10})
		s.addAll(tier)
		for _, isolation := range isolations {
			want := tier.expected(t, dir, isolation)
			times := []int64{-1, 0, 1, 1 << 60}
			for i := 0; i < len(want); i += 1 + len(want)/40 {
				times = append(times, want[i].Timestamp-1, want[i].Timestamp, want[i].Timestamp+1)
			}
			for _, ts := range times {
				expect := noOffset
				if i := slices.IndexFunc(want, func(r testkit.Record) bool { return r.Timestamp >= ts }); i >= 0 {
					expect = TimedOffset{Offset: want[i].Offset, Timestamp: want[i].Timestamp, LeaderEpoch: want[i].LeaderEpoch}
				}
				got, err := s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, ts, isolationNamed(isolation), 0)
				if err != nil || got != expect {
					t.Errorf("%s %s: at %d: %+v %v, want %+v", dir, isolation, ts, got, err, expect)
				}
			}
		}
	}
}

// A read from one time to another gives the records from the first at or after the one up to, but not including, the
// first at or after the other.
func TestSampleTimeRanges(t *testing.T) {
	for _, dir := range []string{"plain-0", "txn-1", "codecs-0"} {
		tier := closed(t, dir)
		s := newHarness(t, shape{chunk: 8 << 10})
		s.addAll(tier)
		rng := rand.New(rand.NewPCG(1, 2))
		for _, isolation := range isolations {
			want := tier.expected(t, dir, isolation)
			for range 30 {
				r := *from(0)
				r.Isolation = isolationNamed(isolation)
				r.Start, r.Timestamp = FromTimestamp, want[rng.IntN(len(want))].Timestamp
				r.EndTimestamp = max(r.Timestamp, want[rng.IntN(len(want))].Timestamp+rng.Int64N(3))
				lo := slices.IndexFunc(want, func(x testkit.Record) bool { return x.Timestamp >= r.Timestamp })
				hi := lo + slices.IndexFunc(want[lo:], func(x testkit.Record) bool { return x.Timestamp >= r.EndTimestamp })
				if hi < lo {
					hi = len(want)
				}
				a := s.readAll(r, want[lo:hi])
				if hi < len(want) && (a.end != EndRange || a.next > want[hi].Offset) {
					t.Errorf("%s %s %d..%d: %v, want to end before %d", dir, isolation, r.Timestamp, r.EndTimestamp, a, want[hi].Offset)
				}
				raw := s.raw(&r)
				if raw.err != nil || raw.end != a.end || raw.next != a.next || len(raw.offsets) < hi-lo {
					t.Errorf("%s %s %d..%d: raw %v, records %v", dir, isolation, r.Timestamp, r.EndTimestamp, raw, a)
				}
			}
		}
	}
}
