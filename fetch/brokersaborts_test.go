package fetch

import (
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/segment"
	"coldtap/tier"
)

// TestAbortedListsAgainstTheBrokers compares the aborted transactions that decide about an answer with the list in the
// leader's own answer, for every read_committed one that came from the tier. The broker's list may hold more: it is
// made for the bytes up to the next index entry. Ours must be within it, and have every transaction of it with an
// offset in a batch that was returned.
func TestAbortedListsAgainstTheBrokers(t *testing.T) {
	s, f := newClusterHarness(t, shape{chunk: 8 << 10, memory: 1 << 20})
	all := s.abortsOf(t, f)
	rows, listed, ours, more, unproven := 0, 0, 0, 0, 0
	for i, row := range f.Fetches {
		if !row.Remote || row.ErrorCode != 0 || row.Isolation != "read_committed" {
			continue
		}
		rows++
		p := f.Cluster.Topics[row.Topic].Partitions[row.Partition]
		first, last := row.FirstBaseOffset, s.lastReturned(t, p, &row)
		got, decidedEnd := s.abortsBehind(t, &row, last)
		// What overlaps the returned batches, by either list.
		within := func(a segment.AbortedTxn) bool { return a.FirstOffset <= last && a.LastOffset >= first }
		theirs := map[clusterfixture.Abort]bool{}
		for _, a := range row.Aborted {
			theirs[a] = true
		}
		listed += len(theirs)
		have := map[clusterfixture.Abort]bool{}
		for _, a := range got {
			if !within(a) {
				continue
			}
			key := clusterfixture.Abort{a.ProducerID, a.FirstOffset}
			have[key] = true
			if !theirs[key] {
				t.Errorf("row %d, %s at %d: %+v is not in the broker's list %v", i, p.Name(), row.Offset, a, row.Aborted)
			}
		}
		ours += len(have)
		for a := range theirs {
			known, ok := all[p.Name()][a]
			switch {
			case have[a]:
			case !ok && a[1] >= decidedEnd:
				unproven++ // its marker lies only in the brokers' part of the log, and the answer ends before it
			case !ok:
				t.Errorf("row %d, %s at %d: nobody knows where %v ends", i, p.Name(), row.Offset, a)
			case within(known):
				t.Errorf("row %d, %s at %d: %+v is in the broker's list %v and not in %+v", i, p.Name(), row.Offset, known, row.Aborted, got)
			default:
				more++
			}
		}
	}
	if rows != 1302 || listed != 240 || ours != 234 || more != 1 || unproven != 5 {
		t.Errorf("%d answers with %d aborted transactions: %d of ours overlap what was returned; of theirs %d don't, and %d are not decided in the tier",
			rows, listed, ours, more, unproven)
	}
}

// abortsOf gives every aborted transaction that a readable segment's index knows, by partition.
func (s *harness) abortsOf(t *testing.T, f *clusterfixture.Fixture) map[string]map[clusterfixture.Abort]segment.AbortedTxn {
	all := map[string]map[clusterfixture.Abort]segment.AbortedTxn{}
	for _, p := range f.Partitions() {
		known := map[clusterfixture.Abort]segment.AbortedTxn{}
		for _, seg := range s.readable(tier.PartitionID{Topic: p.Topic.ID, Partition: p.Number}) {
			txns, err := segment.ParseTxnIndex(s.logs[seg.ID].files.TxnIndex, seg.BaseOffset)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range txns {
				known[clusterfixture.Abort{a.ProducerID, a.FirstOffset}] = a
			}
		}
		all[p.Name()] = known
	}
	return all
}

// lastReturned is the last offset of the last whole batch of the broker's answer.
func (s *harness) lastReturned(t *testing.T, p *clusterfixture.Partition, row *clusterfixture.Fetch) int64 {
	part, _ := s.tier.Snapshot().Partition(tier.PartitionID{Topic: p.Topic.ID, Partition: p.Number})
	// The first batch may reach below the log's start.
	seg, ok := part.Find(max(row.FirstBaseOffset, p.Start))
	if !ok {
		t.Fatalf("%s: no segment holds %d", p.Name(), row.FirstBaseOffset)
	}
	left := row.CompleteBatches
	for b, err := range segment.Batches(s.logs[seg.ID].log) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Header.BaseOffset >= row.FirstBaseOffset {
			if left--; left == 0 {
				return b.Header.LastOffset()
			}
		}
	}
	t.Fatalf("%s: %d batches are missing from %d on", p.Name(), left, row.FirstBaseOffset)
	return 0
}

// abortsBehind reads what the broker returned, and gives the aborted transactions that decided about it, and how far
// they do.
func (s *harness) abortsBehind(t *testing.T, row *clusterfixture.Fetch, last int64) (list []segment.AbortedTxn, decidedEnd int64) {
	st, err := s.Open(t.Context(), &Request{Topic: row.Topic, Partition: row.Partition, Offset: row.Offset, EndOffset: last + 1, EndTimestamp: -1,
		MaxBytes: 1 << 40, Isolation: ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	seen := map[segment.AbortedTxn]bool{}
	note := func() {
		for _, a := range st.filter.aborted.list {
			seen[a] = true
		}
	}
	var run Run
	defer run.Release()
	for {
		err := st.NextRun(t.Context(), &run)
		note()
		if errors.Is(err, io.EOF) {
			return slices.Collect(maps.Keys(seen)), st.filter.decidedEnd
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
