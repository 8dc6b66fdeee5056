package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchOf makes a batch of leader epoch 6 as a broker keeps it.
func batchOf(t testing.TB, base int64, codec kgo.CompressionCodec, values ...[]byte) []byte {
	t.Helper()
	var records []byte
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: v}
		size := len(r.AppendTo(nil)) - 1 // the length of a length of 0 is 1
		r.Length = int32(size)
		records = r.AppendTo(records)
	}
	compressor, err := kgo.DefaultCompressor(codec)
	if err != nil {
		t.Fatal(err)
	}
	var attributes int16
	if compressor != nil {
		packed, kind := compressor.Compress(new(bytes.Buffer), records)
		records, attributes = slices.Clone(packed), int16(kind)
	}
	b := kmsg.RecordBatch{
		FirstOffset: base, PartitionLeaderEpoch: 6, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(len(values) - 1),
		FirstTimestamp: 1000, MaxTimestamp: 1000, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(values)), Records: records,
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	return sealed(raw)
}

// sealed sets a batch's checksum right.
func sealed(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// flipped is a batch of which the last byte is another one.
func flipped(raw []byte) []byte {
	raw = slices.Clone(raw)
	raw[len(raw)-1] ^= 1
	return raw
}

// TestBatchesThatCannotBeRead are asked for again, and passed over where it is known what follows.
func TestBatchesThatCannotBeRead(t *testing.T) {
	v := []byte("v")
	first, second, third := batchOf(t, 0, kgo.NoCompression(), v, v), batchOf(t, 2, kgo.NoCompression(), v, v, v), batchOf(t, 7, kgo.NoCompression(), v)
	// A damaged header field under a right checksum is as good as a wrong checksum here.
	long := slices.Clone(second)
	binary.BigEndian.PutUint32(long[23:], 500)
	torn := slices.Clone(second)
	torn[61]++
	torn = sealed(torn)
	for _, c := range []struct {
		name    string
		log     [][]byte
		at      position
		next    position
		records int
		skipped int
		fails   bool
	}{
		{"none", [][]byte{first, second, third}, position{0, -1, false}, position{8, 6, false}, 6, 0, false},
		{"the second, for the first time", [][]byte{first, flipped(second), third}, position{0, -1, false}, position{2, 6, true}, 2, 0, false},
		{"the second, again", [][]byte{flipped(second), third}, position{2, 6, true}, position{8, 6, false}, 1, 1, false},
		{"the second, and it was the answer's fault", [][]byte{second, third}, position{2, 6, true}, position{8, 6, false}, 4, 0, false},
		{"the second, and then the third", [][]byte{flipped(second), flipped(third)}, position{2, 6, true}, position{7, 6, true}, 0, 1, false},
		{"the last", [][]byte{flipped(second)}, position{2, 6, true}, position{5, 6, false}, 0, 1, false},
		{"records that are none", [][]byte{torn, third}, position{2, 6, true}, position{8, 6, false}, 1, 1, false},
		{"it says that it is longer, and what follows knows better", [][]byte{long, third}, position{2, 6, true}, position{8, 6, false}, 1, 1, false},
		{"it says that it goes beyond the end", [][]byte{long}, position{2, 6, true}, position{2, 6, true}, 0, 0, true},
		{"what follows begins before it", [][]byte{flipped(second), first}, position{2, 6, true}, position{2, 6, true}, 0, 0, true},
		{"what follows is none", [][]byte{flipped(second), make([]byte, 80)}, position{2, 6, true}, position{2, 6, true}, 0, 0, true},
		{"no batch at all", [][]byte{first, make([]byte, 80)}, position{0, -1, false}, position{2, 6, false}, 2, 0, true},
		{"cut", [][]byte{first, second[:70]}, position{0, -1, false}, position{2, 6, false}, 2, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEntries(new(sync.Mutex))
			defer e.close()
			records, skipped := 0, 0
			next, err := e.each(&portion{end: 8, bytes: slices.Concat(c.log...)}, c.at,
				func(*segment.Record) error { records++; return nil }, func(*unreadable) { skipped++ })
			if next != c.next || records != c.records || skipped != c.skipped || err != nil != c.fails {
				t.Errorf("%+v after %d records, %d skipped, %v", next, records, skipped, err)
			}
		})
	}
	enough := errors.New("enough")
	e := newEntries(new(sync.Mutex))
	defer e.close()
	if next, err := e.each(&portion{end: 8, bytes: first}, position{}, func(*segment.Record) error { return enough }, nil); err != enough || next != (position{}) {
		t.Errorf("%+v, %v", next, err)
	}
}

// TestLargeBatchesTakeTurns: only one of those who read side by side holds one, and it takes nothing more until it
// rests.
func TestLargeBatchesTakeTurns(t *testing.T) {
	large := batchOf(t, 0, kgo.ZstdCompression(), make([]byte, answerValues))
	small := batchOf(t, 1, kgo.ZstdCompression(), []byte("v"))
	tooLarge := batchOf(t, 2, kgo.ZstdCompression(), make([]byte, batchBytes+1))
	turn := new(sync.Mutex)
	e := newEntries(turn)
	defer e.close()
	read := func(at int64, log []byte) (next position) {
		t.Helper()
		next, err := e.each(&portion{end: 3, bytes: log}, position{offset: at}, func(*segment.Record) error { return nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	free := func() bool {
		if !turn.TryLock() {
			return false
		}
		turn.Unlock()
		return true
	}
	if next := read(1, small); next.offset != 2 || !free() || e.full() {
		t.Errorf("a small one: %+v, the turn is free: %v", next, free())
	}
	if next := read(0, slices.Concat(large, small)); next.offset != 1 || free() || !e.full() {
		t.Errorf("a large one: %+v, the turn is free: %v", next, free())
	}
	e.release()
	if !free() || e.full() {
		t.Error("it does not rest")
	}
	if next := read(2, tooLarge); next != (position{2, 0, true}) {
		t.Errorf("one that is too large: %+v", next)
	}
	e.release()
}

// TestABadBatchCostsItselfOnly, to a Follower and to a Walk.
func TestABadBatchCostsItselfOnly(t *testing.T) {
	s := newHarness(t, 1)
	for n := range byte(3) {
		s.write(t, 1, finished(n, orders3, int64(n)*100, int64(n)*100+99)...)
	}
	value := func(r Record) []byte {
		v, err := appendRecord(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var log [][]byte
	for n := range byte(3) {
		pair := finished(n, orders3, int64(n)*100, int64(n)*100+99)
		log = append(log, batchOf(t, 2*int64(n), kgo.SnappyCompression(), value(pair[0]), value(pair[1])))
	}
	log[1] = flipped(log[1])
	asked := 0
	s.serve = func(req *kmsg.FetchRequest) kmsg.Response {
		at := req.Topics[0].Partitions[0].FetchOffset
		if at >= 6 {
			return nil
		}
		if at == 2 {
			asked++
		}
		return answering(req, func(p *kmsg.FetchResponseTopicPartition) {
			p.HighWatermark, p.RecordBatches = 6, slices.Concat(log[at/2:]...)
		})
	}
	f := s.open(t, Options{})
	ready(t, f)
	if p, _ := f.Snapshot().Partition(orders3); len(p.Segments(true)) != 2 {
		t.Errorf("%v", p.Segments(true))
	}
	if st := f.Status(); st.Trouble != nil || st.Records != 4 || asked != 1 {
		t.Errorf("%+v, it was asked for %d times", st, asked)
	}
	var offsets []int64
	var bad []Entry
	if err := Walk(t.Context(), s.dial(t), "", func(e Entry) error {
		if offsets = append(offsets, e.Offset); e.Err != nil {
			bad = append(bad, e)
		}
		return nil
	}); err != nil || !slices.Equal(offsets, []int64{0, 1, 2, 4, 5}) || len(bad) != 1 || bad[0].Err.Kind != BadBatch || bad[0].Size != len(log[1]) {
		t.Errorf("%v and %+v, %v", offsets, bad, err)
	}
	// What is no batch at all stops the partition, and says so.
	log[1] = make([]byte, 100)
	g := s.open(t, Options{})
	until(t, g, func() bool { return g.Status().Trouble != nil })
	if err := g.Status().Trouble.Error(); !strings.Contains(err, "partition 0 cannot be read beyond offset 2") {
		t.Error(err)
	}
}

// answering makes a Fetch answer, the same for each partition that is asked for.
func answering(req *kmsg.FetchRequest, change func(*kmsg.FetchResponseTopicPartition)) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewFetchResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			sp := kmsg.NewFetchResponseTopicPartition()
			sp.Partition = rp.Partition
			change(&sp)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

// FuzzEntries: whatever an answer holds, the position moves forward, and beyond the end only behind batches that were
// read.
func FuzzEntries(f *testing.F) {
	v := []byte("v")
	first, second := batchOf(f, 0, kgo.NoCompression(), v, v), batchOf(f, 2, kgo.SnappyCompression(), v, v, v)
	f.Add(slices.Concat(first, second), int64(0), int64(5), false)
	f.Add(slices.Concat(flipped(second), batchOf(f, 7, kgo.ZstdCompression(), v)), int64(2), int64(8), true)
	f.Add(slices.Concat(flipped(second), first), int64(2), int64(8), true)
	f.Fuzz(func(t *testing.T, log []byte, from, end int64, failed bool) {
		if from < 0 || end < from || end > 1<<62 {
			return
		}
		e := newEntries(new(sync.Mutex))
		defer e.close()
		at := position{offset: from, epoch: -1, failedOnce: failed}
		skipped, last := 0, from-1
		next, err := e.each(&portion{end: end, bytes: log}, at, func(r *segment.Record) error {
			if r.Offset < from || r.Offset < last {
				t.Fatalf("offset %d after %d", r.Offset, last)
			}
			last = r.Offset
			return nil
		}, func(*unreadable) { skipped++ })
		if next.offset < from || next.epoch < -1 || skipped > 1 || skipped == 1 && !failed || err != nil && skipped == 1 && next == at {
			t.Fatalf("from %+v to %+v, %d skipped, %v", at, next, skipped, err)
		}
	})
}
