package clusterfixture_test

import (
	"testing"

	"coldtap/fetch"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/testkit"
	"coldtap/segment"
)

// TestBoundsAreTheBrokers compares with the leaders' answers to ListOffsets for -2 (earliest), -4 (earliest local) and
// -5 (latest tiered).
func TestBoundsAreTheBrokers(t *testing.T) {
	s := newHarness(t, clusterKnown)
	asked := 0
	for _, row := range s.fixture.ListOffsets {
		p := s.fixture.Cluster.Topics[row.Topic].Partitions[row.Partition]
		info, err := s.Partition(p.Topic.Name, segment.UUID{}, p.Number)
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		switch row.Query {
		case -2:
			got = info.Start
		case -4:
			got = info.LocalStart
		case -5:
			got = info.TieredEnd - 1
			if info.TieredEnd == info.Start {
				got = -1
			}
		default:
			continue
		}
		asked++
		if got != row.Offset {
			t.Errorf("%s: %d for query %d, the broker's is %d", p.Name(), got, row.Query, row.Offset)
		}
	}
	if asked != 26*2*3 {
		t.Errorf("%d questions", asked)
	}
}

// TestOffsetsByTimeAreFirstRecordsAtOrAfter asks for the times that the brokers were asked for. The answer is what a
// scan of the consumer's records finds; the broker's is the same, but for markers of transactions, which it takes for
// records.
func TestOffsetsByTimeAreFirstRecordsAtOrAfter(t *testing.T) {
	s := newHarness(t, clusterKnown)
	asked, markers := 0, 0
	for _, row := range s.fixture.ListOffsets {
		if row.Query < 0 {
			continue
		}
		p := s.fixture.Cluster.Topics[row.Topic].Partitions[row.Partition]
		end := p.LatestTiered + 1
		if at, ok := undecided[p.Name()]; ok && row.Isolation == "read_committed" {
			end = at
		}
		all := s.fixture.Expected(t, p.Name(), row.Isolation)
		want := scan(all[:upTo(all, end)], row.Query)
		got, err := s.OffsetForTime(t.Context(), p.Topic.Name, p.Topic.ID, p.Number, row.Query, isolations[row.Isolation], 0)
		if err != nil {
			t.Fatalf("%s at %d: %v", p.Name(), row.Query, err)
		}
		if got != want {
			t.Errorf("%s at %d with %s: %+v, want %+v", p.Name(), row.Query, row.Isolation, got, want)
		}
		asked++
		switch {
		case row.Offset < 0 || row.Offset >= end:
			if got.Offset >= 0 && row.Offset >= 0 {
				t.Errorf("%s at %d: %d, but the broker goes on to %d", p.Name(), row.Query, got.Offset, row.Offset)
			}
		case row.Offset == got.Offset && row.Timestamp == got.Timestamp:
		case isRecord(all, row.Offset):
			t.Errorf("%s at %d: %d, the broker's is the record %d", p.Name(), row.Query, got.Offset, row.Offset)
		default:
			markers++ // or, with read_committed, an aborted record: brokers filter neither
		}
	}
	if asked < 500 || markers == 0 {
		t.Errorf("%d questions, %d answered with markers", asked, markers)
	}
}

// scan finds the first record at or after a time.
func scan(records []testkit.Record, ts int64) fetch.TimedOffset {
	for _, r := range records {
		if r.Timestamp >= ts {
			return fetch.TimedOffset{Offset: r.Offset, Timestamp: r.Timestamp, LeaderEpoch: r.LeaderEpoch}
		}
	}
	return fetch.TimedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
}

func isRecord(records []testkit.Record, offset int64) bool {
	i := upTo(records, offset)
	return i < len(records) && records[i].Offset == offset
}

// TestUndecidedIsWhatOnlyTheBrokersKnow shows why undecided holds what it holds: the leader lists an aborted
// transaction there of which no readable segment's transaction index knows.
func TestUndecidedIsWhatOnlyTheBrokersKnow(t *testing.T) {
	s := newHarness(t, clusterKnown)
	for _, p := range s.fixture.Partitions() {
		first := int64(-1)
		known := s.tieredAborts(t, p)
		for _, row := range s.fixture.Fetches {
			if row.Topic != p.Topic.Name || row.Partition != p.Number {
				continue
			}
			for _, a := range row.Aborted {
				if !known[a] && a[1] <= p.LatestTiered && (first < 0 || a[1] < first) {
					first = a[1]
				}
			}
		}
		at, ok := undecided[p.Name()]
		if !ok {
			at = -1
		}
		if first != at {
			t.Errorf("%s: undecided from %d on, want %d", p.Name(), first, at)
		}
	}
}

// tieredAborts is what the transaction indexes of a partition's readable segments say.
func (s *harness) tieredAborts(t *testing.T, p *clusterfixture.Partition) map[clusterfixture.Abort]bool {
	aborts := map[clusterfixture.Abort]bool{}
	for _, seg := range s.view(t, p).Segments(false) {
		txns, err := segment.ParseTxnIndex(s.fixture.Objects[key(p, seg, ".txnindex")], seg.BaseOffset)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range txns {
			aborts[clusterfixture.Abort{a.ProducerID, a.FirstOffset}] = true
		}
	}
	return aborts
}
