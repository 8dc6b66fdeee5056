package segment

import (
	"encoding/binary"
	"math"
)

// Codec is the compression of a batch's records.
type Codec uint8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// String gives the name that Kafka's compression.type uses.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return "unknown"
}

// TimestampType says whether the producer or the broker set a record's timestamp.
type TimestampType uint8

const (
	CreateTime TimestampType = iota
	LogAppendTime
)

// String gives Kafka's name of the type.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// EntryPrefix is how many bytes ParseHeader needs to learn an entry's size and magic; HeaderSize is the v2 header.
const (
	EntryPrefix = 17
	HeaderSize  = 61
)

const (
	lengthEnd = 12 // offset and length fields, which Length does not count

	// What an entry of each magic takes at least, offset and length fields included.
	minSizeV0 = lengthEnd + 14
	minSizeV1 = lengthEnd + 22

	attributeCodec         = 0x07
	attributeTransactional = 0x10
	attributeControl       = 0x20
	attributeDeleteHorizon = 0x40
)

// Header is the fixed part of a batch, or of a message of magic 0 or 1, which has no batches: there BaseOffset is the
// stored offset, which is the LAST offset of the entry (the first one of a compressed entry is known only after
// decompression), LastOffsetDelta is 0, and LeaderEpoch, ProducerID, ProducerEpoch and BaseSequence are -1. Timestamps
// are -1 for magic 0. Count is 1, or -1 for a compressed message, where only decompression tells it.
//
// BaseTimestamp is not the time of the first record: it may be a delete horizon or, in an emptied batch, -1.
type Header struct {
	BaseOffset      int64
	Length          int32 // bytes after the length field; total = Length + 12
	LeaderEpoch     int32 // outside the CRC
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64 // milliseconds
	MaxTimestamp    int64 // milliseconds
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32 // records in the batch; compaction makes it less than LastOffsetDelta+1, down to 0
}

var errShortHeader = &Error{Kind: Truncated, Op: "batch header", Position: 0, Detail: "header cut short"}

// ParseHeader reads the header at the start of b, which may end before the batch does. A v2 header takes HeaderSize
// bytes, magic 1 takes 34 and magic 0 takes 26; with fewer the error is Truncated, and from EntryPrefix bytes on
// BaseOffset, Length and Magic are set nevertheless. limit bounds the total size in bytes (TooLarge above it).
//
// What it accepts is safe to do arithmetic with: the size is at least that of the magic, offsets are not negative and
// do not overflow, and Count fits the offsets. The codec is not looked at: that is the Decoder's business.
func ParseHeader(b []byte, limit int64) (h Header, err error) {
	if len(b) < EntryPrefix {
		return h, errShortHeader
	}
	h.BaseOffset = int64(binary.BigEndian.Uint64(b))
	h.Length = int32(binary.BigEndian.Uint32(b[8:]))
	h.Magic = int8(b[16])
	// The length comes first: in a zero-filled tail it is the field that gives the damage away.
	if h.Length < minSizeV0-lengthEnd {
		return h, corrupt("batch header", 8, "length %d at offset %d", h.Length, h.BaseOffset)
	}
	if h.Magic < 0 || h.Magic > 2 {
		return h, fail(Unsupported, "batch header", 16, "magic %d at offset %d", h.Magic, h.BaseOffset)
	}
	if h.BaseOffset < 0 {
		return h, corrupt("batch header", 0, "offset %d", h.BaseOffset)
	}
	if h.Size() > limit {
		return h, fail(TooLarge, "batch header", 8, "%d bytes at offset %d, limit %d", h.Size(), h.BaseOffset, limit)
	}
	if h.Magic < 2 {
		err = h.parseLegacy(b)
		return h, err
	}
	if h.Length < HeaderSize-lengthEnd {
		return h, corrupt("batch header", 8, "length %d at offset %d", h.Length, h.BaseOffset)
	}
	if len(b) < HeaderSize {
		return h, errShortHeader
	}
	b = b[:HeaderSize]
	h.LeaderEpoch = int32(binary.BigEndian.Uint32(b[12:]))
	h.CRC = binary.BigEndian.Uint32(b[17:])
	h.Attributes = int16(binary.BigEndian.Uint16(b[21:]))
	h.LastOffsetDelta = int32(binary.BigEndian.Uint32(b[23:]))
	h.BaseTimestamp = int64(binary.BigEndian.Uint64(b[27:]))
	h.MaxTimestamp = int64(binary.BigEndian.Uint64(b[35:]))
	h.ProducerID = int64(binary.BigEndian.Uint64(b[43:]))
	h.ProducerEpoch = int16(binary.BigEndian.Uint16(b[51:]))
	h.BaseSequence = int32(binary.BigEndian.Uint32(b[53:]))
	h.Count = int32(binary.BigEndian.Uint32(b[57:]))
	if h.LastOffsetDelta < 0 || h.BaseOffset > math.MaxInt64-1-int64(h.LastOffsetDelta) {
		return h, corrupt("batch header", 23, "last offset delta %d at offset %d", h.LastOffsetDelta, h.BaseOffset)
	}
	// Offsets within a batch differ, so more records than offsets is a lie.
	if h.Count < 0 || int64(h.Count) > int64(h.LastOffsetDelta)+1 {
		return h, corrupt("batch header", 57, "%d records in offsets %d to %d", h.Count, h.BaseOffset, h.LastOffset())
	}
	return h, nil
}

func (h *Header) parseLegacy(b []byte) error {
	need := minSizeV0
	if h.Magic == 1 {
		need = minSizeV1
	}
	if h.Size() < int64(need) {
		return corrupt("batch header", 8, "length %d of magic %d at offset %d", h.Length, h.Magic, h.BaseOffset)
	}
	if len(b) < need {
		return errShortHeader
	}
	if h.BaseOffset == math.MaxInt64 {
		return corrupt("batch header", 0, "offset %d", h.BaseOffset)
	}
	h.CRC = binary.BigEndian.Uint32(b[12:])
	h.Attributes = int16(b[17])
	h.LeaderEpoch, h.ProducerID, h.ProducerEpoch, h.BaseSequence = -1, -1, -1, -1
	h.BaseTimestamp = -1
	if h.Magic == 1 {
		h.BaseTimestamp = int64(binary.BigEndian.Uint64(b[18:]))
	}
	h.MaxTimestamp = h.BaseTimestamp
	h.Count = 1
	if h.Codec() != None {
		h.Count = -1
	}
	return nil
}

// Size is the whole batch in bytes, header included.
func (h *Header) Size() int64 { return int64(h.Length) + lengthEnd }

// LastOffset is the batch's last offset, which compaction keeps even when its record is gone. The next batch starts
// above it.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// Codec is the compression; values above Zstd are possible and nothing decodes them.
func (h *Header) Codec() Codec { return Codec(h.Attributes & attributeCodec) }

// TimestampType says whether the producer or the broker set the timestamps. With LogAppendTime every record's timestamp
// is MaxTimestamp.
func (h *Header) TimestampType() TimestampType { return TimestampType(h.Attributes >> 3 & 1) }

// IsTransactional tells whether a transaction wrote the batch; false for magic below 2.
func (h *Header) IsTransactional() bool {
	return h.Magic >= 2 && h.Attributes&attributeTransactional != 0
}

// IsControl tells whether the batch holds a marker instead of data; false for magic below 2.
func (h *Header) IsControl() bool { return h.Magic >= 2 && h.Attributes&attributeControl != 0 }

// HasDeleteHorizon tells whether BaseTimestamp is the time after which the batch's tombstones may be dropped; false for
// magic below 2.
func (h *Header) HasDeleteHorizon() bool {
	return h.Magic >= 2 && h.Attributes&attributeDeleteHorizon != 0
}
