//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// provable gives the offset up to which read_committed can be proven from the tier alone: where the first transaction
// begins whose marker lies behind the tier's end.
func (st *harness) provable(tr *truth) int64 {
	end := tr.bounds.tieredEnd
	for _, txn := range st.topic(tr.topic).pens[tr.partition].transactions {
		if txn.marker >= tr.bounds.tieredEnd {
			end = min(end, txn.first)
		}
	}
	return end
}

// tierEnd gives where coldtap's answers end under an isolation level, and the reason that they give.
func (st *harness) tierEnd(tr *truth, isolation string) (end int64, reason string) {
	if isolation == "read_committed" {
		if end = st.provable(tr); end < tr.bounds.tieredEnd {
			return end, "undecided"
		}
	}
	return tr.bounds.tieredEnd, "tier"
}

// checkWhole compares all records of a partition's tier, read with answers of maxBytes.
func (st *harness) checkWhole(t *testing.T, read reader, tr *truth, isolation string, maxBytes int) answer {
	t.Helper()
	end, reason := st.tierEnd(tr, isolation)
	a, err := read.follow(tr.topic, tr.partition, isolation, tr.bounds.logStart, maxBytes)
	if err != nil {
		t.Errorf("%s %s by %d bytes: %v", tr, isolation, maxBytes, err)
		return a
	}
	if d := differ(a.records, between(tr.records[isolation], tr.bounds.logStart, end)); d != "" {
		t.Errorf("%s %s by %d bytes: %s", tr, isolation, maxBytes, d)
	}
	if a.end != reason || a.next != end || a.end == "undecided" && a.decided != end {
		t.Errorf("%s %s by %d bytes ends with %q at %d (decided %d), want %q at %d", tr, isolation, maxBytes, a.end, a.next, a.decided, reason, end)
	}
	return a
}

// checkReads compares the records from many starts and in answers of many sizes, and the hand-over: coldtap's records
// and then the stock consumer's from where coldtap says must be what the stock consumer alone read, without a gap and
// without a repeat.
func (st *harness) checkReads(t *testing.T, g *gateway, tr *truth) {
	t.Helper()
	for _, isolation := range isolations {
		for _, maxBytes := range []int{1, 3000, 9000} { // one batch, about three, about a segment
			st.checkWhole(t, g.read, tr, isolation, maxBytes)
		}
		all := tr.records[isolation]
		end, _ := st.tierEnd(tr, isolation)
		a := st.checkWhole(t, g.read, tr, isolation, 1<<20)
		if !a.atBroker {
			t.Errorf("%s %s: nobody is named to go on at %d", tr, isolation, a.next)
		}
		rest, err := st.stock.consume(tr.topic, tr.partition, isolation, a.next)
		if err != nil {
			t.Errorf("%s %s goes on at %d: %v", tr, isolation, a.next, err)
		}
		if d := differ(append(a.records, rest...), all); d != "" {
			t.Errorf("%s %s handed over at %d: %s", tr, isolation, a.next, d)
		}
		// From the borders of segments, and into their middles.
		bases := append(st.storedBases(tr.topic, tr.partition), tr.bounds.tieredEnd)
		for i, base := range bases {
			for _, from := range []int64{base - 1, base, base + 1, (base + bases[max(0, i-1)]) / 2} {
				if from < tr.bounds.logStart || from > end {
					continue
				}
				a, err := g.read(tr.topic, tr.partition, isolation, from, 5000)
				if err != nil {
					t.Errorf("%s %s from %d: %v", tr, isolation, from, err)
				} else if d := differ(a.records, between(all, from, a.next)); d != "" || a.next <= from && from < end {
					t.Errorf("%s %s from %d to %d: %s", tr, isolation, from, a.next, d)
				}
			}
		}
	}
}

// checkLostTail reads what is left of a log whose tail was lost after it was tiered: the records of the lost leader,
// which are in the store and in the metadata as any other, must not come, and the hand-over must be whole.
func (st *harness) checkLostTail(t *testing.T, g *gateway) {
	tr, err := st.truth(lostTail, 0)
	if err != nil {
		t.Fatal(err)
	}
	bases := st.storedBases(lostTail, 0)
	if last := bases[len(bases)-1]; last <= tr.bounds.highWatermark {
		t.Fatalf("the store ends with a segment of %d, and the log at %d: nothing was lost", last, tr.bounds.highWatermark)
	}
	for _, isolation := range isolations {
		a, err := reader(g.read).follow(lostTail, 0, isolation, tr.bounds.logStart, 1<<20)
		if err != nil || a.end != "tier" || len(a.records) == 0 {
			t.Errorf("%s %s: %d records, ends with %q at %d, %v", tr, isolation, len(a.records), a.end, a.next, err)
		}
		rest, err := st.stock.consume(lostTail, 0, isolation, a.next)
		if err != nil {
			t.Errorf("%s %s goes on at %d: %v", tr, isolation, a.next, err)
		}
		if d := differ(append(a.records, rest...), tr.records[isolation]); d != "" {
			t.Errorf("%s %s handed over at %d: %s", tr, isolation, a.next, d)
		}
		t.Logf("%s: the tier ends at %d, the brokers say %d", tr, a.next, tr.bounds.tieredEnd)
	}
}

// checkBorders asks where there is nothing, and for the bounds themselves.
func (st *harness) checkBorders(t *testing.T, g *gateway, tr *truth) {
	t.Helper()
	b := tr.bounds
	var o struct {
		Beginning  *int64 `json:"beginning_offset"`
		End        *int64 `json:"end_offset"`
		LocalStart *int64 `json:"local_log_start_offset"`
		TieredEnd  *int64 `json:"tiered_end_offset"`
		LastStable *int64 `json:"last_stable_offset"`
	}
	if err := g.get(partitionPath(tr.topic, tr.partition)+"/offsets", &o); err != nil {
		t.Errorf("%s: %v", tr, err)
	} else if got, want := told(o.Beginning, o.LocalStart, o.TieredEnd, o.LastStable, o.End), told(&b.logStart, &b.localStart, &b.tieredEnd, &b.lastStable, &b.highWatermark); got != want {
		t.Errorf("%s: start, local start, tiered end, last stable and end are %s, want %s", tr, got, want)
	}
	for _, isolation := range isolations {
		// Below the start, and above everything.
		for _, from := range []int64{b.logStart - 1, 0, b.highWatermark + 1000} {
			if from < 0 || from >= b.logStart && from <= b.highWatermark {
				continue
			}
			a, err := g.read(tr.topic, tr.partition, isolation, from, 1<<20)
			p, ok := err.(*problem)
			if !ok || p.Code != 41601 {
				t.Errorf("%s %s from %d: %q at %d, %v, want 41601", tr, isolation, from, a.end, a.next, err)
			} else if got, want := told(p.LogStart, p.LocalStart, p.TieredEnd), told(&b.logStart, &b.localStart, &b.tieredEnd); got != want {
				t.Errorf("%s %s from %d: start, local start and tiered end are %s, want %s", tr, isolation, from, got, want)
			}
		}
		// At the tier's end, and in what only the brokers hold.
		for _, from := range []int64{b.tieredEnd, (b.tieredEnd + b.highWatermark) / 2, b.highWatermark} {
			a, err := g.read(tr.topic, tr.partition, isolation, from, 1<<20)
			if err != nil || len(a.records) > 0 || a.next != from || !a.atBroker || a.end != "tier" {
				t.Errorf("%s %s from %d: %d records, %q at %d (at the broker: %v), %v", tr, isolation, from, len(a.records), a.end, a.next, a.atBroker, err)
			}
		}
	}
}

// told shows offsets, of which some may not be known.
func told(offsets ...*int64) string {
	var b strings.Builder
	for _, o := range offsets {
		if o == nil {
			b.WriteString(" null")
		} else {
			fmt.Fprintf(&b, " %d", *o)
		}
	}
	return b.String()
}

// checkTimes asks for a grid of timestamps. Coldtap names the first record that a consumer would be given, within what
// it can prove; a broker's ListOffsets may name a marker or an aborted record, and otherwise must agree.
func (st *harness) checkTimes(t *testing.T, g *gateway, tr *truth) {
	t.Helper()
	for _, isolation := range isolations {
		end, _ := st.tierEnd(tr, isolation)
		records := between(tr.records[isolation], tr.bounds.logStart, end)
		for i, at := range tr.gridTimes {
			want := found{-1, -1, -1}
			if n := slices.IndexFunc(records, func(r record) bool { return r.Timestamp >= at }); n >= 0 {
				want = found{records[n].Offset, records[n].Timestamp, records[n].LeaderEpoch}
			}
			got, err := g.foundAt(tr.topic, tr.partition, isolation, at)
			if err != nil || got.Offset != want.Offset || want.Offset >= 0 && got != want {
				t.Errorf("%s %s at time %d: %+v %v, want %+v", tr, isolation, at, got, err, want)
			}
			if want.Offset >= 0 {
				var list struct {
					Data []struct{ Offset int64 }
				}
				path := fmt.Sprintf("%s/records?timestamp=%d&isolation_level=%s&max_records=1", partitionPath(tr.topic, tr.partition), at, isolation)
				if err := g.get(path, &list); err != nil || len(list.Data) != 1 || list.Data[0].Offset != want.Offset {
					t.Errorf("%s %s read from time %d: %+v %v, want offset %d", tr, isolation, at, list.Data, err, want.Offset)
				}
			}
			broker := tr.grid[i]
			named := slices.ContainsFunc(records, func(r record) bool { return r.Offset == broker.Offset })
			if isolation == "read_committed" && named && got != broker {
				t.Errorf("%s at time %d: %+v, the broker says %+v", tr, at, got, broker)
			}
			if isolation == "read_committed" && got.Offset >= 0 && (broker.Offset < 0 || broker.Offset > got.Offset) {
				t.Errorf("%s at time %d: %+v, the broker says %+v", tr, at, got, broker)
			}
		}
	}
}

// checkSegments holds the segments' files against the store's.
func (st *harness) checkSegments(t *testing.T, g *gateway, tr *truth) {
	t.Helper()
	var segments []struct {
		ID         string `json:"id"`
		BaseOffset int64  `json:"base_offset"`
	}
	path := partitionPath(tr.topic, tr.partition) + "/segments"
	if err := g.get(path, &segments); err != nil {
		t.Errorf("%s: %v", tr, err)
		return
	}
	var bases []int64
	all := st.storedFiles(tr.topic, tr.partition)
	listed := 0
	for _, s := range segments {
		bases = append(bases, s.BaseOffset)
		stored := filesOf(all, s.ID)
		listed += len(filesOf(stored, ".log"))
		if len(stored) == 0 {
			t.Errorf("%s: segment %s is not in the store", tr, s.ID)
		}
		for ending, name := range map[string]string{".log": "log", ".index": "index", ".timeindex": "timeindex", ".txnindex": "txnindex", ".snapshot": "snapshot"} {
			at := slices.IndexFunc(stored, func(file string) bool { return filepath.Ext(file) == ending })
			if at < 0 {
				continue // most segments have no transaction index
			}
			want, err := os.ReadFile(stored[at])
			if err != nil {
				t.Fatal(err)
			}
			if len(want) == 0 {
				continue // a cleaned segment's transaction index; its metadata says that there is none
			}
			var got []byte
			if err := g.get(path+"/"+s.ID+"/"+name, &got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s of segment %s: %d bytes, not the %d of the store: %v", tr, name, s.ID, len(got), len(want), err)
			}
		}
	}
	if tr.topic == lostLineage {
		if stored := len(filesOf(all, ".log")); stored <= listed {
			t.Errorf("%s: all %d segments of the store are listed, those of the lost lineage too", tr, stored)
		}
		return
	}
	slices.Sort(bases)
	if want := st.storedBases(tr.topic, tr.partition); !slices.Equal(slices.Compact(bases), want) {
		t.Errorf("%s: segments begin at %d, in the store at %d", tr, bases, want)
	}
}

// filesOf gives those whose names have a segment's id, or an ending, in them.
func filesOf(files []string, part string) (its []string) {
	for _, file := range files {
		if strings.Contains(filepath.Base(file), part) {
			its = append(its, file)
		}
	}
	return its
}

// checkTopics compares what there is: names, ids and bounds. A topic of which nothing was ever tiered is no topic of
// the tier.
func (st *harness) checkTopics(t *testing.T, g *gateway, truths []*truth) {
	t.Helper()
	now, err := st.stock.topics()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := g.get("/topics", &names); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, topic := range st.topics {
		want = append(want, topic.name)
	}
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("topics are %q, want %q", names, want)
	}
	for _, tr := range truths {
		var topic struct {
			ID         string `json:"topic_id"`
			Partitions []struct {
				Partition  int    `json:"partition"`
				Start      *int64 `json:"log_start_offset"`
				LocalStart *int64 `json:"local_log_start_offset"`
				TieredEnd  *int64 `json:"tiered_end_offset"`
			} `json:"partitions"`
		}
		if err := g.get("/topics/"+tr.topic, &topic); err != nil {
			t.Errorf("%s: %v", tr, err)
			continue
		}
		if topic.ID != now[tr.topic].ID {
			t.Errorf("%s has the id %s, want %s", tr.topic, topic.ID, now[tr.topic].ID)
		}
		for _, p := range topic.Partitions {
			if p.Partition != tr.partition {
				continue
			}
			if got, want := told(p.Start, p.LocalStart, p.TieredEnd), told(&tr.bounds.logStart, &tr.bounds.localStart, &tr.bounds.tieredEnd); got != want {
				t.Errorf("%s: start, local start and tiered end are %s, want %s", tr, got, want)
			}
		}
	}
}
