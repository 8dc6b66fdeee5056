package native

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"coldtap/segment"
	"coldtap/tier"
)

const (
	// MaxMeta is the largest .meta object, in bytes. The indexes of a 1 GiB log are 5 MiB at Kafka's default interval.
	MaxMeta = 64 << 20
	// MaxAborted is the longest list of aborted transactions.
	MaxAborted = 1_000_000

	maxEpochs = 100_000
)

// FileSum is the size and SHA-256 of one stored file.
type FileSum struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex, lower case
}

// PackedFile is a small file in a .meta object; Offset counts from the end of the manifest.
type PackedFile struct {
	Offset int64 `json:"offset"`
	FileSum
}

// PackedFiles are the small files of a segment; nil = the segment has no such file (which is not the same as an empty
// one).
type PackedFiles struct {
	OffsetIndex  *PackedFile `json:"index,omitempty"`
	TimeIndex    *PackedFile `json:"timeindex,omitempty"`
	TxnIndex     *PackedFile `json:"txnindex,omitempty"`
	Snapshot     *PackedFile `json:"snapshot,omitempty"`
	LeaderEpochs *PackedFile `json:"leader_epoch_checkpoint,omitempty"`
}

// Manifest is the beginning of a .meta object. It holds all that the metadata holds of the segment, so that the bucket
// can be read without metadata, and the metadata be rebuilt.
type Manifest struct {
	ClusterID    string       `json:"cluster_id"`
	Topic        string       `json:"topic"`
	TopicID      segment.UUID `json:"topic_id"`
	Partition    int32        `json:"partition"`
	SegmentID    segment.UUID `json:"segment_id"`
	BaseOffset   int64        `json:"base_offset"`
	EndOffset    int64        `json:"end_offset"`    // inclusive
	LeaderEpochs EpochList    `json:"leader_epochs"` // those in the segment, ascending, never empty
	MaxTimestamp int64        `json:"max_timestamp"` // ms
	EventTime    int64        `json:"event_time"`    // ms, when the copy began
	BrokerID     int32        `json:"broker_id"`
	Log          FileSum      `json:"log"`
	// Files, Aborted, Decided and Dense are set from segment.Files when a .meta is encoded.
	Files   PackedFiles `json:"files"`
	Aborted AbortedList `json:"aborted"`
	Decided bool        `json:"decided"`
	Dense   bool        `json:"dense"` // false, or absent as in older objects: not known
}

func newManifest(clusterID string, seg *tier.Segment, logSHA256 string) *Manifest {
	return &Manifest{
		ClusterID: clusterID, Topic: seg.Topic, TopicID: seg.Partition.Topic, Partition: seg.Partition.Partition,
		SegmentID: seg.ID, BaseOffset: seg.BaseOffset, EndOffset: seg.EndOffset, LeaderEpochs: seg.Epochs,
		MaxTimestamp: seg.MaxTimestamp, EventTime: seg.EventTime, BrokerID: seg.BrokerID,
		Log: FileSum{Size: seg.Size, SHA256: logSHA256},
	}
}

// Describes says why the manifest is not that of seg. The topic's name is not compared: the id is its identity.
func (m *Manifest) Describes(seg *tier.Segment) error {
	switch {
	case m.TopicID != seg.Partition.Topic || m.Partition != seg.Partition.Partition || m.SegmentID != seg.ID:
		return fmt.Errorf("belongs to segment %v of partition %d of topic %v", m.SegmentID, m.Partition, m.TopicID)
	case m.BaseOffset != seg.BaseOffset || m.EndOffset != seg.EndOffset:
		return fmt.Errorf("covers offsets %d to %d, the metadata says %d to %d",
			m.BaseOffset, m.EndOffset, seg.BaseOffset, seg.EndOffset)
	case m.Log.Size != seg.Size:
		return fmt.Errorf("names a log of %d bytes, the metadata says %d", m.Log.Size, seg.Size)
	}
	return nil
}

// hasNoAborts says that the manifest proves the segment to be without a transaction index, or with an empty one: then a
// read that looks for ABORT markers of earlier segments passes it over (tier.Segment.TxnIndexEmpty). A checksum that is
// not the one of no bytes, or a senseless list of aborted transactions, proves nothing. Whether the index itself is
// intact does not matter: one that has bytes is not empty, damaged or not.
func (m *Manifest) hasNoAborts() bool {
	return (m.Files.TxnIndex == nil || m.Files.TxnIndex.FileSum == sumOf(nil)) && m.Aborted.check() == nil
}

// check refuses what is true of no segment. The list of aborted transactions has a check of its own.
func (m *Manifest) check() error {
	if err := checkPartition(m.Topic, tier.PartitionID{Topic: m.TopicID, Partition: m.Partition}); err != nil {
		return err
	}
	switch {
	case m.SegmentID.IsZero():
		return errors.New("no segment id")
	case m.BaseOffset < 0 || m.EndOffset < m.BaseOffset:
		return fmt.Errorf("offsets from %d to %d", m.BaseOffset, m.EndOffset)
	case m.Log.Size < 0:
		return fmt.Errorf("a log of %d bytes", m.Log.Size)
	case !isSHA256(m.Log.SHA256):
		return errors.New("checksum of the log is no SHA-256")
	}
	return m.LeaderEpochs.check(m.EndOffset)
}

func isSHA256(s string) bool {
	var sum [32]byte
	if len(s) != hex.EncodedLen(len(sum)) {
		return false
	}
	_, err := hex.Decode(sum[:], []byte(s))
	return err == nil
}

// EpochList is a list of leader epochs, in JSON [[epoch, start offset], …].
type EpochList []segment.EpochStart

func (l EpochList) check(endOffset int64) error {
	if len(l) == 0 {
		return errors.New("no leader epoch")
	}
	for i, e := range l {
		if e.Epoch < 0 || e.StartOffset < 0 || e.StartOffset > endOffset ||
			i > 0 && (e.Epoch <= l[i-1].Epoch || e.StartOffset < l[i-1].StartOffset) {
			return fmt.Errorf("leader epoch %d from offset %d is out of order", e.Epoch, e.StartOffset)
		}
	}
	return nil
}

func (l EpochList) MarshalJSON() ([]byte, error) {
	return appendRows(len(l), func(i int) []int64 { return []int64{int64(l[i].Epoch), l[i].StartOffset} }), nil
}

func (l *EpochList) UnmarshalJSON(b []byte) error {
	*l = nil
	return parseRows(b, 2, maxEpochs, func(row []int64) error {
		epoch := int32(row[0])
		if int64(epoch) != row[0] {
			return fmt.Errorf("leader epoch %d", row[0])
		}
		*l = append(*l, segment.EpochStart{Epoch: epoch, StartOffset: row[1]})
		return nil
	})
}

// AbortedList is a list of aborted transactions ordered by first offset, in JSON
// [[producer id, first offset, last offset, last stable offset], …].
type AbortedList []segment.AbortedTxn

func (l AbortedList) check() error {
	if len(l) > MaxAborted {
		return fmt.Errorf("%d aborted transactions, at most %d are allowed", len(l), MaxAborted)
	}
	for i, t := range l {
		if t.FirstOffset < 0 || t.LastOffset < t.FirstOffset || i > 0 && t.FirstOffset < l[i-1].FirstOffset {
			return fmt.Errorf("aborted transaction %d of producer %d, offsets %d to %d, is out of order",
				i, t.ProducerID, t.FirstOffset, t.LastOffset)
		}
	}
	return nil
}

func (l AbortedList) MarshalJSON() ([]byte, error) {
	row := make([]int64, 4)
	return appendRows(len(l), func(i int) []int64 {
		row[0], row[1], row[2], row[3] = l[i].ProducerID, l[i].FirstOffset, l[i].LastOffset, l[i].LastStableOffset
		return row
	}), nil
}

func (l *AbortedList) UnmarshalJSON(b []byte) error {
	*l = nil
	return parseRows(b, 4, MaxAborted, func(row []int64) error {
		*l = append(*l, segment.AbortedTxn{
			ProducerID: row[0], FirstOffset: row[1], LastOffset: row[2], LastStableOffset: row[3],
		})
		return nil
	})
}

func appendRows(n int, row func(i int) []int64) []byte {
	b := []byte{'['}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		for j, v := range row(i) {
			if j == 0 {
				b = append(b, '[')
			} else {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, v, 10)
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

// parseRows reads what appendRows wrote, and only that. It exists because encoding/json makes a slice element out of
// any value, even a wrong one, before it complains: 64 MiB of "0," would become 1 GiB of rows.
func parseRows(b []byte, width, limit int, row func([]int64) error) error {
	malformed := errors.New("malformed list of numbers")
	pos := 0
	skip := func(c byte) bool {
		if pos < len(b) && b[pos] == c {
			pos++
			return true
		}
		return false
	}
	values := make([]int64, width)
	if !skip('[') {
		return malformed
	}
	for n := 0; !skip(']'); n++ {
		if n == limit {
			return fmt.Errorf("a list of more than %d entries", limit)
		}
		if n > 0 && !skip(',') {
			return malformed
		}
		for i := range values {
			if i == 0 && !skip('[') || i > 0 && !skip(',') {
				return malformed
			}
			begin := pos
			for pos < len(b) && (b[pos] == '-' || b[pos] >= '0' && b[pos] <= '9') {
				pos++
			}
			v, err := strconv.ParseInt(string(b[begin:pos]), 10, 64)
			if err != nil {
				return malformed
			}
			values[i] = v
		}
		if !skip(']') {
			return malformed
		}
		if err := row(values); err != nil {
			return err
		}
	}
	if pos != len(b) {
		return malformed
	}
	return nil
}
