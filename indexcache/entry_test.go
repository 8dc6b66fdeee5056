package indexcache

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// offsetIndex makes a .index of pairs of relative offset and position.
func offsetIndex(pairs ...uint32) []byte {
	b := []byte{}
	for _, v := range pairs {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// timeIndex makes a .timeindex of pairs of timestamp and relative offset.
func timeIndex(pairs ...uint64) []byte {
	b := []byte{}
	for i := 0; i < len(pairs); i += 2 {
		b = binary.BigEndian.AppendUint64(b, pairs[i])
		b = binary.BigEndian.AppendUint32(b, uint32(pairs[i+1]))
	}
	return b
}

// testSegment has offsets base to base+99 in a log of 100,000 bytes.
func testSegment(n byte, base int64) *tier.Segment {
	return &tier.Segment{
		ID: segment.UUID{n, 1}, Partition: tier.PartitionID{Topic: segment.UUID{9}}, Topic: "topic",
		BaseOffset: base, EndOffset: base + 99, Size: 100_000,
	}
}

func TestDamageCostsWhatItMust(t *testing.T) {
	good := offsetIndex(10, 4_096, 50, 40_000)
	goodTimes := timeIndex(1_000, 10, 2_000, 50)
	zeroTail := make([]byte, 1<<20)
	aborted := []segment.AbortedTxn{{ProducerID: 7, FirstOffset: 1_010, LastOffset: 1_020, LastStableOffset: 1_021}}
	txnIndex := segment.AppendTxnIndex(nil, aborted...)

	tests := []struct {
		name         string
		files        segment.Files
		wantPosition int64 // where a read of offset 1,060 starts
		wantTime     int64 // offset where a search for timestamp 2,500 starts
		wantDamaged  []string
		wantAborted  []segment.AbortedTxn
		wantTxnErr   bool
	}{
		{"sound", segment.Files{OffsetIndex: good, TimeIndex: goodTimes, TxnIndex: txnIndex}, 40_000, 1_050, nil, aborted, false},
		{"no files", segment.Files{}, 0, 1_000, nil, nil, false},
		{"files of zero bytes", segment.Files{OffsetIndex: []byte{}, TimeIndex: []byte{}, TxnIndex: []byte{}}, 0, 1_000, nil, nil, false},
		{"zero tail", segment.Files{
			OffsetIndex: append(slices.Clone(good), zeroTail...), TimeIndex: append(slices.Clone(goodTimes), zeroTail[:1_200]...),
		}, 40_000, 1_050, nil, nil, false},
		{"position beyond the log", segment.Files{OffsetIndex: offsetIndex(50, 999_999), TimeIndex: goodTimes},
			0, 1_050, []string{"index"}, nil, false},
		{"offsets beyond the segment", segment.Files{OffsetIndex: offsetIndex(100, 50), TimeIndex: timeIndex(1, 100)},
			0, 1_000, []string{"index", "timeindex"}, nil, false},
		{"entries for the segment's last offset", segment.Files{OffsetIndex: offsetIndex(10, 4_096, 99, 90_000), TimeIndex: timeIndex(1, 99)},
			4_096, 1_099, nil, nil, false},
		{"13 random bytes", segment.Files{OffsetIndex: []byte("random bytes!"), TimeIndex: []byte("random bytes!")},
			0, 1_000, []string{"index", "timeindex"}, nil, false},
		{"dropped by the layout", segment.Files{IndexDamaged: []string{"index"}, TimeIndex: goodTimes},
			0, 1_050, []string{"index"}, nil, false},
		{"transaction index cut off", segment.Files{OffsetIndex: good, TxnIndex: txnIndex[:33]},
			40_000, 1_000, []string{"txnindex"}, nil, true},
		{"transaction index of a later version", segment.Files{OffsetIndex: good, TxnIndex: append([]byte{0, 9}, txnIndex[2:]...)},
			40_000, 1_000, []string{"txnindex"}, nil, true},
		{"transactions that the layout gave up", segment.Files{OffsetIndex: good, TxnDamaged: true, Decided: true, Aborted: aborted},
			40_000, 1_000, []string{"txnindex"}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEntry(testSegment(1, 1_000), &tt.files)
			if _, position := e.Offsets.Lookup(1_060); position != tt.wantPosition {
				t.Errorf("a read starts at %d, want %d", position, tt.wantPosition)
			}
			if offset, _ := e.Offsets.Lookup(1_000); offset != 1_000 {
				t.Errorf("the segment seems to begin at offset %d", offset)
			}
			if _, offset := e.Times.Lookup(2_500); offset != tt.wantTime {
				t.Errorf("a search by time starts at offset %d, want %d", offset, tt.wantTime)
			}
			if !slices.Equal(e.damaged, tt.wantDamaged) {
				t.Errorf("damaged: %v, want %v", e.damaged, tt.wantDamaged)
			}
			if !slices.Equal(e.Aborted, tt.wantAborted) {
				t.Errorf("aborted: %v, want %v", e.Aborted, tt.wantAborted)
			}
			var damaged *Error
			if got := errors.As(e.TxnErr, &damaged) && damaged.Kind == Damaged; got != tt.wantTxnErr {
				t.Errorf("read_committed error: %v", e.TxnErr)
			}
			if tt.wantTxnErr && e.Decided {
				t.Error("damaged transactions pass for decided")
			}
		})
	}
}

func TestAbortedTransactionsAreOrdered(t *testing.T) {
	a := segment.AbortedTxn{ProducerID: 1, FirstOffset: 10, LastOffset: 90, LastStableOffset: 91}
	b := segment.AbortedTxn{ProducerID: 2, FirstOffset: 20, LastOffset: 30, LastStableOffset: 10}
	c := segment.AbortedTxn{ProducerID: 3, FirstOffset: 20, LastOffset: 30, LastStableOffset: 10}
	unordered := []segment.AbortedTxn{c, b, a, b}
	want := []segment.AbortedTxn{a, b, c}

	e := newEntry(testSegment(1, 0), &segment.Files{Decided: true, Aborted: unordered})
	if !e.Decided || !slices.Equal(e.Aborted, want) {
		t.Errorf("decided %v, aborted %v, want %v", e.Decided, e.Aborted, want)
	}
	if unordered[0] != c {
		t.Error("the loaded list was changed")
	}
	ordered := []segment.AbortedTxn{a, b, c}
	if e = newEntry(testSegment(1, 0), &segment.Files{Decided: true, Aborted: ordered}); !slices.Equal(e.Aborted, want) {
		t.Errorf("aborted %v, want %v", e.Aborted, want)
	}
	twice := []segment.AbortedTxn{a, b, b, c}
	if e = newEntry(testSegment(1, 0), &segment.Files{Decided: true, Aborted: twice}); !slices.Equal(e.Aborted, want) {
		t.Errorf("with one of them twice: aborted %v, want %v", e.Aborted, want)
	}
	// A transaction index is ordered by the marker's offset instead.
	e = newEntry(testSegment(1, 0), &segment.Files{TxnIndex: segment.AppendTxnIndex(nil, b, a)})
	if e.Decided || !slices.Equal(e.Aborted, []segment.AbortedTxn{a, b}) {
		t.Errorf("decided %v, aborted %v", e.Decided, e.Aborted)
	}
}

func TestCostCoversWhatIsHeld(t *testing.T) {
	files := &segment.Files{OffsetIndex: make([]byte, 800), TxnIndex: segment.AppendTxnIndex(nil, make([]segment.AbortedTxn, 1)...)}
	if got := newEntry(testSegment(1, 0), files).cost(); got < 800+34+32 {
		t.Errorf("cost %d", got)
	}
	shared := &segment.Files{Decided: true, Aborted: make([]segment.AbortedTxn, 1)}
	if got, want := newEntry(testSegment(1, 0), shared).cost(), int64(entryOverhead+32); got != want {
		t.Errorf("a shared list costs %d, want %d", got, want)
	}
	sorted := &segment.Files{Decided: true, Aborted: []segment.AbortedTxn{{FirstOffset: 3}, {FirstOffset: 2}, {FirstOffset: 1}}}
	if got, want := newEntry(testSegment(1, 0), sorted).cost(), int64(entryOverhead+2*3*32); got != want {
		t.Errorf("a list that was sorted costs %d, want %d", got, want)
	}
	unused := &segment.Files{TxnDamaged: true, Aborted: make([]segment.AbortedTxn, 1)}
	if got, want := newEntry(testSegment(1, 0), unused).cost(), int64(entryOverhead+32); got != want {
		t.Errorf("a list that cannot be believed costs %d, want %d", got, want)
	}
}

func FuzzEntry(f *testing.F) {
	f.Add(offsetIndex(10, 4_096), timeIndex(1_000, 10), segment.AppendTxnIndex(nil, segment.AbortedTxn{FirstOffset: 1_001, LastOffset: 1_002}))
	f.Add([]byte("random bytes!"), []byte{}, []byte{0})
	f.Fuzz(func(t *testing.T, offsets, times, txns []byte) {
		seg := testSegment(1, 1_000)
		e := newEntry(seg, &segment.Files{OffsetIndex: offsets, TimeIndex: times, TxnIndex: txns})
		for _, target := range []int64{0, 1_000, 1_050, 1_099, 1 << 40} {
			offset, position := e.Offsets.Lookup(target)
			if position < 0 || position >= seg.Size || offset < seg.BaseOffset || offset > seg.EndOffset {
				t.Fatalf("offset %d is sent to offset %d, position %d", target, offset, position)
			}
			if _, offset := e.Times.Lookup(target); offset < seg.BaseOffset || offset > seg.EndOffset {
				t.Fatalf("timestamp %d is sent to offset %d", target, offset)
			}
		}
	})
}
