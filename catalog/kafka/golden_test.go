package kafka

import (
	"encoding/hex"
	"reflect"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// What Kafka's own classes made of the records beside them.
const (
	goldenStarted   = "010000076f72646572730102030405060708090a0b0c0d0e0f1000000003001112131415161718191a1b1c1d1e1f20000000000000000064000000000000015e000000010000018bcfe569f40000018bcfe56be8030000000500000000000000640000000006000000000000012c0000100000000000"
	goldenTxnEmpty  = "010000076f72646572730102030405060708090a0b0c0d0e0f1000000003001112131415161718191a1b1c1d1e1f20000000000000000064000000000000015e000000010000018bcfe569f40000018bcfe56be8030000000500000000000000640000000006000000000000012c0000100000000001000101"
	goldenFinished  = "010100076f72646572730102030405060708090a0b0c0d0e0f1000000003001112131415161718191a1b1c1d1e1f2000000000010000018bcfe56fd0000100"
	goldenCustom    = "010100076f72646572730102030405060708090a0b0c0d0e0f1000000003001112131415161718191a1b1c1d1e1f2000000000010000018bcfe56fd003cafe0100"
	goldenPartition = "010200076f72646572730102030405060708090a0b0c0d0e0f100000000300000000010000018bcfe573b80000"
	goldenSnapshot  = "0103001112131415161718191a1b1c1d1e1f200000000000000064000000000000015e000000010000018bcfe569f40000018bcfe56be8030000000500000000000000640000000006000000000000012c0000100000000100"
)

var (
	ordersID  = segment.UUID{0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10}
	segmentID = segment.UUID{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20}
	orders3   = tier.PartitionID{Topic: ordersID, Partition: 3}
)

func ordersSegment() tier.Segment {
	return tier.Segment{
		ID: segmentID, Partition: orders3, Topic: "orders", BaseOffset: 100, EndOffset: 350, BrokerID: 1,
		MaxTimestamp: 1_700_000_000_500, EventTime: 1_700_000_001_000, Size: 1 << 20,
		Epochs: []segment.EpochStart{{Epoch: 5, StartOffset: 100}, {Epoch: 6, StartOffset: 300}},
	}
}

func ordersUpdate(state tier.State, custom []byte) *Update {
	return &Update{"orders", tier.SegmentUpdated{Partition: orders3, ID: segmentID, BrokerID: 1, At: 1_700_000_002_000,
		State: state, Custom: custom}}
}

// golden pairs each vector with its record.
func golden() []struct {
	name, hex string
	record    Record
} {
	txnEmpty, snapshot := ordersSegment(), ordersSegment()
	txnEmpty.TxnIndexEmpty = true
	snapshot.Topic, snapshot.Partition, snapshot.State = "", tier.PartitionID{}, tier.CopyFinished
	return []struct {
		name, hex string
		record    Record
	}{
		{"A18 segment", goldenStarted, &Segment{ordersSegment()}},
		{"A19 segment without transaction index", goldenTxnEmpty, &Segment{txnEmpty}},
		{"A20 update", goldenFinished, ordersUpdate(tier.CopyFinished, nil)},
		{"A21 update with custom metadata", goldenCustom, ordersUpdate(tier.CopyFinished, []byte{0xca, 0xfe})},
		{"A22 partition delete", goldenPartition, &PartitionDelete{"orders", orders3, 1, 1_700_000_003_000, DeleteMarked}},
		{"A23 snapshot", goldenSnapshot, &Snapshot{snapshot}},
	}
}

func TestGoldenVectors(t *testing.T) {
	for _, g := range golden() {
		t.Run(g.name, func(t *testing.T) {
			value := unhex(t, g.hex)
			got, err := Decode(value)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, g.record) {
				t.Errorf("decoded\n%+v, want\n%+v", got, g.record)
			}
			back, err := appendRecord([]byte("before"), g.record)
			if err != nil {
				t.Fatal(err)
			}
			if want := "before" + string(value); string(back) != want {
				t.Errorf("encoded\n%x, want\n%x", back, want)
			}
		})
	}
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
