package segment

import (
	"encoding/binary"
	"math"
	"sort"
)

const offsetEntrySize = 8

// OffsetIndex is a validated .index: sparse pairs of an offset and the position in the log where the batch that ends at
// that offset starts. On a follower of an old broker the position may be that of an earlier batch. The zero value has
// no entries. For concurrent use.
type OffsetIndex struct {
	entries []byte
	base    int64
}

// ParseOffsetIndex validates an offset index against the segment's base offset and the size of its log. It keeps raw,
// without a copy, so raw must not change. Files are preallocated, so a zero tail is cut. Corrupt: a length that is no
// multiple of 8, offsets or positions that do not ascend, an offset below base, a position at or beyond logSize.
func ParseOffsetIndex(raw []byte, base, logSize int64) (OffsetIndex, error) {
	if err := checkIndex("offset index", raw, offsetEntrySize, base); err != nil {
		return OffsetIndex{}, err
	}
	x := OffsetIndex{entries: cutZeroTail(raw, offsetEntrySize), base: base}
	lastOffset, lastPosition := base-1, int64(-1)
	for i := range x.Len() {
		offset, position := x.Entry(i)
		if offset <= lastOffset || position <= lastPosition || position >= logSize {
			return OffsetIndex{}, corrupt("offset index", int64(i*offsetEntrySize),
				"offset %d at position %d follows offset %d at position %d in a log of %d bytes",
				offset, position, lastOffset, lastPosition, logSize)
		}
		lastOffset, lastPosition = offset, position
	}
	return x, nil
}

// checkIndex refuses what Entry could not read.
func checkIndex(op string, raw []byte, entry int, base int64) error {
	if len(raw)%entry != 0 {
		return corrupt(op, int64(len(raw)/entry*entry), "%d bytes, not a multiple of %d", len(raw), entry)
	}
	if base < 0 || base > math.MaxInt64-math.MaxInt32-1 {
		return corrupt(op, -1, "base offset %d", base)
	}
	return nil
}

// cutZeroTail cuts the entries at the end that are all zeros. A real entry of zeros, which only the first can be, goes
// with them: it says no more than an empty index does.
func cutZeroTail(raw []byte, entry int) []byte {
	end := len(raw)
	for end > 0 && raw[end-1] == 0 {
		end--
	}
	return raw[:(end+entry-1)/entry*entry]
}

// Len is the number of entries.
func (x OffsetIndex) Len() int { return len(x.entries) / offsetEntrySize }

// Entry gives entry i, 0 ≤ i < Len: the LAST offset of what starts at position.
func (x OffsetIndex) Entry(i int) (offset, position int64) {
	e := x.entries[i*offsetEntrySize:][:offsetEntrySize]
	return x.base + int64(int32(binary.BigEndian.Uint32(e))), int64(int32(binary.BigEndian.Uint32(e[4:])))
}

// Lookup gives the greatest entry with offset ≤ target, or (base, 0): reading from position on meets every batch that
// holds target or more.
func (x OffsetIndex) Lookup(target int64) (offset, position int64) {
	i := sort.Search(x.Len(), func(i int) bool {
		offset, _ := x.Entry(i)
		return offset > target
	})
	if i == 0 {
		return x.base, 0
	}
	return x.Entry(i - 1)
}

// UpperBound gives the first entry with position ≥ pos; ok false when none. Its offset is not less than that of any
// record that starts below pos.
func (x OffsetIndex) UpperBound(pos int64) (offset int64, position int64, ok bool) {
	i := sort.Search(x.Len(), func(i int) bool {
		_, position := x.Entry(i)
		return position >= pos
	})
	if i == x.Len() {
		return 0, 0, false
	}
	offset, position = x.Entry(i)
	return offset, position, true
}
