package segment

import (
	"encoding/binary"
	"sort"
)

const timeEntrySize = 12

// TimeIndex is a validated .timeindex: each entry says that the largest timestamp up to an offset, inclusive, is its
// timestamp. It may be empty though the segment is not. Timestamps of records are in no order, so the index gives a
// place to start, never an answer. The zero value has no entries. For concurrent use.
type TimeIndex struct {
	entries []byte
	base    int64
}

// ParseTimeIndex validates a time index against the segment's base offset. It keeps raw, without a copy, and cuts a
// zero tail. Corrupt: a length that is no multiple of 12, timestamps that do not ascend or are negative, offsets that
// descend or are below base.
func ParseTimeIndex(raw []byte, base int64) (TimeIndex, error) {
	if err := checkIndex("time index", raw, timeEntrySize, base); err != nil {
		return TimeIndex{}, err
	}
	x := TimeIndex{entries: cutZeroTail(raw, timeEntrySize), base: base}
	lastTimestamp, lastOffset := int64(-1), base
	for i := range x.Len() {
		timestamp, offset := x.Entry(i)
		if timestamp <= lastTimestamp || offset < lastOffset {
			return TimeIndex{}, corrupt("time index", int64(i*timeEntrySize),
				"timestamp %d at offset %d follows timestamp %d at offset %d", timestamp, offset, lastTimestamp, lastOffset)
		}
		lastTimestamp, lastOffset = timestamp, offset
	}
	return x, nil
}

// Len is the number of entries.
func (x TimeIndex) Len() int { return len(x.entries) / timeEntrySize }

// Entry gives entry i, 0 ≤ i < Len: a timestamp in milliseconds, and the last offset of the batch that first reached
// it (of the record itself, in segments of old brokers).
func (x TimeIndex) Entry(i int) (timestamp, offset int64) {
	e := x.entries[i*timeEntrySize:][:timeEntrySize]
	return int64(binary.BigEndian.Uint64(e)), x.base + int64(int32(binary.BigEndian.Uint32(e[8:])))
}

// Lookup gives the last entry with timestamp ≤ ts, or (-1, base): no record below offset is later than timestamp.
func (x TimeIndex) Lookup(ts int64) (timestamp, offset int64) {
	i := sort.Search(x.Len(), func(i int) bool {
		timestamp, _ := x.Entry(i)
		return timestamp > ts
	})
	if i == 0 {
		return -1, x.base
	}
	return x.Entry(i - 1)
}
