//go:build e2e

package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// checkCases holds what was tiered against what each topic is there for: brokers roll, tier, clean and delete as they
// see fit, and a comparison of a case that did not come about would pass.
func (st *harness) checkCases(t *testing.T, truths []*truth) {
	t.Helper()
	meant := map[string]func(*truth) error{
		"codecs-0":      st.allCodecs,
		"append-time-0": st.allCodecs,
		"big-batches-0": st.allCodecs,
		"transactions-0": func(tr *truth) error {
			if end := st.provable(tr); end != tr.bounds.tieredEnd {
				return fmt.Errorf("undecided from %d on", end)
			}
			bases := st.storedBases(tr.topic, tr.partition)
			return expect(slices.ContainsFunc(st.topic(tr.topic).pens[tr.partition].transactions, func(txn transaction) bool {
				return txn.aborted && segmentOf(bases, txn.first)+2 < segmentOf(bases, txn.marker)
			}), "no abort reaches over four segments")
		},
		"transactions-1": func(tr *truth) error {
			return expect(st.provable(tr) < tr.bounds.tieredEnd, "all is decided")
		},
		"open-transaction-0": func(tr *truth) error {
			return expect(tr.bounds.tieredEnd <= tr.bounds.lastStable && tr.bounds.lastStable < tr.bounds.highWatermark, "no transaction is open")
		},
		"compacted-0": func(tr *truth) error {
			return expect(int64(len(tr.records["read_uncommitted"])) < tr.bounds.tieredEnd*3/4, "hardly anything is missing")
		},
		"timestamps-1": func(tr *truth) error {
			records := tr.records["read_uncommitted"]
			for i := range records[1:] {
				if records[i+1].Timestamp < records[i].Timestamp-time.Hour.Milliseconds() {
					return nil
				}
			}
			return fmt.Errorf("time never goes back")
		},
		"leaders-0": func(tr *truth) error {
			epochs := map[int32]bool{}
			for _, r := range between(tr.records["read_uncommitted"], 0, tr.bounds.tieredEnd) {
				epochs[r.LeaderEpoch] = true
			}
			return expect(len(epochs) >= 5, "%d leader epochs are in the tier", len(epochs))
		},
		"one-record-0": func(tr *truth) error { return expect(tr.bounds.tieredEnd == 1, "it is not one record") },
		"one-record-1": func(tr *truth) error { return expect(tr.bounds.tieredEnd == 0, "it is tiered") },
		"one-record-2": func(tr *truth) error { return expect(tr.bounds.highWatermark == 0, "it is not empty") },
		"deleted-records-0": func(tr *truth) error {
			start := tr.bounds.logStart
			return expect(start > 0 && !slices.Contains(st.storedBases(tr.topic, tr.partition), start), "the start %d is no offset inside a segment", start)
		},
		"retention-0": func(tr *truth) error { return expect(tr.bounds.logStart > 0, "nothing is deleted") },
		"tiering-off-0": func(tr *truth) error {
			return expect(tr.bounds.logStart == tr.bounds.localStart && tr.bounds.logStart > 0, "the tier is not given up")
		},
		"copying-off-0": func(tr *truth) error {
			bases, err := st.localBases(2, tr.topic, tr.partition)
			return expect(err == nil && bases[len(bases)-1] > tr.bounds.tieredEnd, "closed segments are still copied")
		},
	}
	few := []string{"one-record", "tiering-off", "deleted-records", "retention"}
	for _, tr := range truths {
		b := tr.bounds
		n := len(st.storedBases(tr.topic, tr.partition))
		t.Logf("%-20s %2d segments, start %d, local start %d, tiered end %d, stable %d, end %d; %d records, %d committed", tr, n,
			b.logStart, b.localStart, b.tieredEnd, b.lastStable, b.highWatermark, len(tr.records["read_uncommitted"]), len(tr.records["read_committed"]))
		if n < 3 && !slices.Contains(few, tr.topic) {
			t.Errorf("%s: %d segments", tr, n)
		}
		if b.localStart < b.tieredEnd {
			t.Errorf("%s: local segments from %d on are left", tr, b.localStart)
		}
		if check := meant[tr.String()]; check != nil {
			if err := check(tr); err != nil {
				t.Errorf("%s: %v", tr, err)
			}
			delete(meant, tr.String())
		}
	}
	for name := range meant {
		t.Errorf("there is no %s", name)
	}
}

func expect(is bool, otherwise string, args ...any) error {
	if is {
		return nil
	}
	return fmt.Errorf(otherwise, args...)
}

// segmentOf gives the index of the segment that holds an offset.
func segmentOf(bases []int64, offset int64) int {
	after, _ := slices.BinarySearch(bases, offset+1)
	return after - 1
}

// allCodecs looks at the batches' headers in the store (KIP-98: the codec is in the lowest three bits of the
// attributes).
func (st *harness) allCodecs(tr *truth) error {
	codecs := map[byte]bool{}
	for _, file := range st.storedFiles(tr.topic, tr.partition) {
		if filepath.Ext(file) != ".log" {
			continue
		}
		log, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for len(log) > 0 {
			codecs[log[22]&7] = true
			log = log[12+binary.BigEndian.Uint32(log[8:]):]
		}
	}
	return expect(len(codecs) == 5, "%d codecs are in the tier", len(codecs))
}
