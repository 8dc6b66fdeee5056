package clusterfixture_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"coldtap/fetch"
	"coldtap/internal/testing/testkit"
	"coldtap/segment"
)

// undecided are the partitions in which an aborted or committed transaction's marker lies only in the brokers' part of
// the log, and the first offset of the first such transaction.
var undecided = map[string]int64{"txn-1": 867}

// TestEveryPartitionIsWhatTheConsumerRead reads each partition of the cluster in pages, and compares with what Kafka's
// own consumer read, up to the tiered end or, for read_committed, to where transactions are undecided.
func TestEveryPartitionIsWhatTheConsumerRead(t *testing.T) {
	for name, k := range map[string]knowledge{"lineage of the cluster": clusterKnown, "lineage of the segments": lineageHidden} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, k)
			partitions := s.fixture.Partitions()
			if len(partitions) != 26 {
				t.Fatalf("%d partitions", len(partitions))
			}
			for _, p := range partitions {
				for isolation := range isolations {
					t.Run(p.Name()+"/"+isolation, func(t *testing.T) {
						end, reason := p.LatestTiered+1, fetch.EndTier
						if p.LatestTiered < 0 {
							end = p.Start
						}
						if at, ok := undecided[p.Name()]; ok && isolation == "read_committed" {
							end, reason = at, fetch.EndUndecided
						}
						all := s.fixture.Expected(t, p.Name(), isolation)
						want := all[:upTo(all, end)]
						if p.LatestTiered >= 0 && len(want) == 0 {
							t.Fatal("nothing to compare with")
						}
						for _, pageBytes := range []int64{1, 20_000, 1 << 30} {
							r := request(p, p.Start, isolation)
							r.MaxBytes = pageBytes
							got := s.follow(t, r, want)
							if got.end != reason || got.next != end {
								t.Errorf("pages of %d bytes end at %d for %v (decided %d), want %d for %v",
									pageBytes, got.next, got.end, got.decided, end, reason)
							}
							if reason == fetch.EndUndecided && got.decided != end {
								t.Errorf("decided end %d, want %d", got.decided, end)
							}
						}
					})
				}
			}
		})
	}
}

// TestRandomRangesAreWhatTheConsumerRead starts and ends reads anywhere, with small pages and record counts.
func TestRandomRangesAreWhatTheConsumerRead(t *testing.T) {
	s := newHarness(t, clusterKnown)
	rnd := rand.New(rand.NewPCG(4, 4))
	for _, p := range s.fixture.Partitions() {
		if p.LatestTiered < 0 {
			continue
		}
		for isolation := range isolations {
			t.Run(p.Name()+"/"+isolation, func(t *testing.T) {
				all := s.fixture.Expected(t, p.Name(), isolation)
				last := p.LatestTiered + 1
				if at, ok := undecided[p.Name()]; ok && isolation == "read_committed" {
					last = at
				}
				for range 6 {
					from := p.Start + rnd.Int64N(last-p.Start)
					to := from + rnd.Int64N(last-from+1)
					r := request(p, from, isolation)
					r.EndOffset, r.MaxBytes, r.MaxRecords = to, 1+rnd.Int64N(30_000), rnd.Int64N(1000)
					want := all[upTo(all, from):upTo(all, to)]
					if got := s.follow(t, r, want); got.end != fetch.EndRange || got.next != to {
						t.Errorf("[%d, %d) ends at %d for %v", from, to, got.next, got.end)
					}
				}
			})
		}
	}
}

// upTo counts the records below an offset.
func upTo(records []testkit.Record, offset int64) int {
	n, _ := slices.BinarySearchFunc(records, offset, func(r testkit.Record, o int64) int { return int(r.Offset - o) })
	return n
}

// follow reads from r on until an answer does not end for a limit, and compares every record with want.
func (s *harness) follow(t *testing.T, r fetch.Request, want []testkit.Record) answer {
	t.Helper()
	i := 0
	for {
		got := s.records(t, r, func(rec *segment.Record) {
			if i == len(want) {
				t.Fatalf("a record too many, at offset %d", rec.Offset)
			}
			if err := differs(rec, &want[i]); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
			i++
		})
		if got.end != fetch.EndLimit {
			if i < len(want) {
				t.Errorf("the answer ends at %d for %v; %d records are missing, from offset %d on", got.next, got.end, len(want)-i, want[i].Offset)
			}
			return got
		}
		if got.next <= r.Offset {
			t.Fatalf("no progress beyond %d", r.Offset)
		}
		r.Offset = got.next
	}
}

// differs tells how a record is not the consumer's.
func differs(got *segment.Record, want *testkit.Record) error {
	switch {
	case got.Offset != want.Offset:
		return fmt.Errorf("offset %d, want %d", got.Offset, want.Offset)
	case got.Timestamp != want.Timestamp, (got.TimestampType == segment.LogAppendTime) != want.AppendTime:
		return fmt.Errorf("offset %d: timestamp %d (%v), want %d", got.Offset, got.Timestamp, got.TimestampType, want.Timestamp)
	case got.LeaderEpoch != want.LeaderEpoch:
		return fmt.Errorf("offset %d: leader epoch %d, want %d", got.Offset, got.LeaderEpoch, want.LeaderEpoch)
	case !same(got.Key, want.Key):
		return fmt.Errorf("offset %d: key %q, want %q", got.Offset, got.Key, want.Key)
	case want.ValueSHA256 == "" && !same(got.Value, want.Value):
		return fmt.Errorf("offset %d: value %q, want %q", got.Offset, got.Value, want.Value)
	case want.ValueSHA256 != "" && (int64(len(got.Value)) != want.ValueLength || digest(got.Value) != want.ValueSHA256):
		return fmt.Errorf("offset %d: a value of %d bytes is not the one of %d", got.Offset, len(got.Value), want.ValueLength)
	case len(got.Headers) != len(want.Headers):
		return fmt.Errorf("offset %d: %d headers, want %d", got.Offset, len(got.Headers), len(want.Headers))
	}
	for i, h := range got.Headers {
		if string(h.Key) != want.Headers[i].Key || !same(h.Value, want.Headers[i].Value) {
			return fmt.Errorf("offset %d: header %d is %q=%q, want %v", got.Offset, i, h.Key, h.Value, want.Headers[i])
		}
	}
	return nil
}

// same compares bytes; null is not empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
