package offload

import (
	"slices"
	"strings"
	"testing"

	"coldtap/segment"
)

// move applies batches to a state and gives the transactions that ended.
func move(t *testing.T, txns *transactions, base int64, specs ...batchSpec) (ends []endedTxn) {
	t.Helper()
	for _, s := range specs {
		raw := encode(base, 0, s)
		h, err := segment.ParseHeader(raw, int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		e, err := txns.apply(&batch{LogEntry: segment.LogEntry{Header: h, Bytes: raw}, cleaned: h.Count == 0})
		if err != nil {
			t.Fatal(err)
		}
		if e != nil {
			ends = append(ends, *e)
		}
		base = h.LastOffset() + 1
	}
	return ends
}

func TestTransactionsBeginAndEnd(t *testing.T) {
	data := func(p int64) batchSpec { return batchSpec{producer: p, txn: true} }
	marker := func(p int64, commit bool) batchSpec { return batchSpec{producer: p, control: true, commit: commit} }
	txns := startTransactions(0, false)
	ends := move(t, txns, 0,
		batchSpec{},            // 0: no producer
		batchSpec{producer: 4}, // 1: idempotent only
		marker(5, false),       // 2: nothing to end
		data(6), data(7),       // 3, 4
		batchSpec{producer: 8, txn: true, offsets: 2, count: -1}, // 5, 6: emptied by the cleaner
		marker(7, false), // 7
		data(7),          // 8
		marker(6, true),  // 9
		marker(7, true),  // 10
		marker(7, false), // 11: the coordinator repeats itself
	)
	type end struct {
		producer, first, marker, stable int64
		aborted                         bool
	}
	var got []end
	for _, e := range ends {
		got = append(got, end{e.producer, e.first, e.marker, e.stable, e.aborted})
	}
	want := []end{{7, 4, 7, 3, true}, {6, 3, 9, 8, false}, {7, 8, 10, 11, false}}
	if !slices.Equal(got, want) || len(txns.open) != 0 || txns.stable(12) != 12 {
		t.Errorf("ended %+v, want %+v; open %+v", got, want, txns.open)
	}
}

func TestAgreementWithTheSnapshot(t *testing.T) {
	open := func(pairs ...int64) (states []segment.ProducerState) {
		states = append(states, segment.ProducerState{ProducerID: 1, TxnFirstOffset: -1})
		for i := 0; i < len(pairs); i += 2 {
			states = append(states, segment.ProducerState{ProducerID: pairs[i], TxnFirstOffset: pairs[i+1]})
		}
		return states
	}
	txn := batchSpec{producer: 7, txn: true}
	fromSnapshot := func(pairs ...int64) *transactions { return loadTransactions(100, open(pairs...), false) }
	compacted := func(txns *transactions) *transactions { txns.compacted = true; return txns }
	tests := []struct {
		name  string
		state *transactions
		add   []batchSpec // from offset 100 on
		says  []segment.ProducerState
		fault string
		left  int // open transactions afterwards
	}{
		{"nothing open", fromSnapshot(), nil, open(), "", 0},
		{"the same", fromSnapshot(), []batchSpec{txn}, open(7, 100), "", 1},
		{"inherited", fromSnapshot(7, 50), []batchSpec{txn}, open(7, 50), "", 1},
		{"not known", fromSnapshot(), []batchSpec{txn}, open(), "does not know the open transaction of producer 7", 0},
		{"not known, compacted", compacted(fromSnapshot()), []batchSpec{txn}, open(), "does not know", 0},
		{"begins elsewhere", fromSnapshot(), []batchSpec{txn}, open(7, 99), "begin at offset 99, the log at 100", 0},
		{"begins earlier, compacted", compacted(fromSnapshot()), []batchSpec{txn}, open(7, 99), "", 1},
		{"begins later", compacted(fromSnapshot()), []batchSpec{txn}, open(7, 101), "begin at offset 101", 0},
		{"never began", fromSnapshot(), nil, open(7, 100), "which the log does not have", 0},
		{"began before the log does", startTransactions(100, false), nil, open(7, 50), "", 0},
		{"began in the log", startTransactions(100, false), nil, open(7, 150), "which the log does not have", 0},
		{"goes back before the log begins", startTransactions(100, false), []batchSpec{txn}, open(7, 50), "", 1},
		{"data compacted away", compacted(fromSnapshot()), nil, open(7, 120), "", 0},
		{"ended without a marker", fromSnapshot(7, 50), nil, open(), "which an earlier snapshot names", 0},
		{"marker compacted away, another open", compacted(fromSnapshot(7, 50)), []batchSpec{txn}, open(7, 100), "", 1},
		{"another open, nothing compacted", fromSnapshot(7, 50), []batchSpec{txn}, open(7, 100), "begin at offset 100, the log at 50", 0},
		{"marker compacted away", compacted(fromSnapshot(7, 50)), nil, open(), "", 0},
	}
	for _, tt := range tests {
		move(t, tt.state, 100, tt.add...)
		err := tt.state.checkSnapshot(tt.says)
		if tt.fault == "" {
			if err != nil || len(tt.state.open) != tt.left {
				t.Errorf("%s: %v, open %+v", tt.name, err, tt.state.open)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.fault)
		}
	}
}

// One producer, transaction after transaction, over segment borders: each segment must get the outcome of its own.
func TestOutcomesOfOneProducersTransactions(t *testing.T) {
	l := newLog(t, "a", 0)
	var want []segment.AbortedTxn
	for i := range int64(6) {
		first := l.next
		l.txn(7).roll().data(2)
		if aborted := i%2 == 0; aborted {
			want = append(want, segment.AbortedTxn{ProducerID: 7, FirstOffset: first, LastOffset: l.next, LastStableOffset: l.next + 1})
		}
		l.end(7, i%2 == 1).data(1)
	}
	l.roll().data(1).done()
	w := newFakeTier()
	if report := w.offload(t, w.config(l.dir)); report.Failed() {
		t.Fatalf("report %+v", report)
	}
	var got []segment.AbortedTxn
	for _, s := range w.partition(t, "a", 0).Segments(false) {
		for _, a := range w.files(t, s).Aborted {
			if s.BaseOffset > a.FirstOffset || a.FirstOffset > s.EndOffset {
				t.Errorf("segment %d..%d lists %+v", s.BaseOffset, s.EndOffset, a)
			}
			got = append(got, a)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("aborted %+v, want %+v", got, want)
	}
}

// A transaction whose data lie in every other segment is listed in those, and in no other.
func TestAbortedTransactionIsListedWhereItsDataAre(t *testing.T) {
	l := newLog(t, "a", 0).txn(7).roll().data(2).roll().txn(7).roll().data(1).end(7, false).roll().data(1).done()
	w := newFakeTier()
	w.offload(t, w.config(l.dir))
	for i, s := range w.partition(t, "a", 0).Segments(false) {
		if got, want := len(w.files(t, s).Aborted), []int{1, 0, 1, 0}[i]; got != want {
			t.Errorf("segment %d lists %d, want %d", s.BaseOffset, got, want)
		}
	}
}
