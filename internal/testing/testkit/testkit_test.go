package testkit

import "testing"

func TestExpectedCounts(t *testing.T) {
	for _, c := range []struct {
		partition, isolation string
		records              int
	}{
		{"plain-0", "read_committed", 558},
		{"txn-0", "read_committed", 742},
		{"txn-0", "read_uncommitted", 829},
		{"txn-1", "read_committed", 800},
		{"txn-1", "read_uncommitted", 948},
		{"gaps-0", "read_uncommitted", 970},
		{"codecs-0", "read_committed", 1547},
	} {
		if got := len(Expected(t, c.partition, c.isolation)); got != c.records {
			t.Errorf("%s %s: %d records, want %d", c.partition, c.isolation, got, c.records)
		}
	}
}
