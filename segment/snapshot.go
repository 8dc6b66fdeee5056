package segment

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	snapshotVersion    = 1
	snapshotCRCEnd     = 2 + 4
	snapshotHeaderSize = snapshotCRCEnd + 4
	snapshotEntrySize  = 46
)

// ProducerState is one entry of a producer snapshot: what the broker remembers of a producer's last batch.
type ProducerState struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // -1 when LastOffset is
	LastOffset       int64 // -1 = no data batch remembered, only a marker
	OffsetDelta      int32 // last minus first offset of that batch
	Timestamp        int64 // milliseconds
	CoordinatorEpoch int32
	TxnFirstOffset   int64 // -1 = no open transaction
}

// ParseSnapshot reads a .snapshot, the state after all records below the offset that its name gives. Entries are in no
// order. Corrupt: a wrong CRC-32C, or bytes that the entry count does not account for. A version other than 1 is
// Unsupported.
func ParseSnapshot(raw []byte) ([]ProducerState, error) {
	if len(raw) < snapshotHeaderSize {
		return nil, fail(Truncated, "producer snapshot", int64(len(raw)), "%d bytes", len(raw))
	}
	c := cursor{b: raw}
	if version := c.int16(); version != snapshotVersion {
		return nil, fail(Unsupported, "producer snapshot", 0, "version %d", version)
	}
	if stored, sum := uint32(c.int32()), crc32.Checksum(raw[snapshotCRCEnd:], castagnoli); stored != sum {
		return nil, corrupt("producer snapshot", 2, "checksum %08x, computed %08x", stored, sum)
	}
	count := int64(c.int32())
	if want := snapshotHeaderSize + count*snapshotEntrySize; want != int64(len(raw)) {
		return nil, corrupt("producer snapshot", snapshotCRCEnd, "%d entries in %d bytes", count, len(raw))
	}
	states := make([]ProducerState, count)
	for i := range states {
		states[i] = ProducerState{
			ProducerID: c.int64(), Epoch: c.int16(), LastSequence: c.int32(), LastOffset: c.int64(),
			OffsetDelta: c.int32(), Timestamp: c.int64(), CoordinatorEpoch: c.int32(), TxnFirstOffset: c.int64(),
		}
	}
	return states, nil
}

// AppendSnapshot appends a whole snapshot file of states.
func AppendSnapshot(dst []byte, states []ProducerState) []byte {
	start := len(dst)
	dst = append(dst, 0, snapshotVersion, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(states)))
	for _, s := range states {
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.ProducerID))
		dst = binary.BigEndian.AppendUint16(dst, uint16(s.Epoch))
		dst = binary.BigEndian.AppendUint32(dst, uint32(s.LastSequence))
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.LastOffset))
		dst = binary.BigEndian.AppendUint32(dst, uint32(s.OffsetDelta))
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.Timestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(s.CoordinatorEpoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.TxnFirstOffset))
	}
	sum := crc32.Checksum(dst[start+snapshotCRCEnd:], castagnoli)
	binary.BigEndian.PutUint32(dst[start+2:], sum)
	return dst
}
