package offload

import (
	"encoding/binary"
	"fmt"
	"math"

	"coldtap/segment"
)

// indexInterval is how many bytes of log lie between two entries of a rebuilt index: Kafka's default of
// index.interval.bytes, which its own recovery uses for a topic without its own setting.
const indexInterval = 4096

// uncovered is how much log may follow the last entry of an offset index before it is taken for one that a crash cut
// short: a reader would scan that much. Brokers write an entry per append, and a follower's append has at most
// replica.fetch.response.max.bytes, 10 MiB by default.
const uncovered = 16 << 20

// indexes checks a segment's offset and time index against the batches of its log, and rebuilds both on the way: per
// batch, as Kafka's own recovery does (org.apache.kafka.storage.internals.log.LogSegment.recover). A rebuilt one is
// used only when the broker's file is missing or wrong.
type indexes struct {
	base int64

	offsets     segment.OffsetIndex
	offsetAt    int    // the next entry to check
	offsetFault string // why the broker's offset index cannot be used; empty while it can
	times       segment.TimeIndex
	timeAt      int
	timeFault   string

	newOffsets, newTimes []byte
	lastEntry            int64 // position of the newest entry of newOffsets
	lastTime             int64 // timestamp of the newest entry of newTimes

	maxTimestamp int64 // the largest so far, -1 = none
	maxOffset    int64 // the last offset of the first batch that has it
}

// newIndexes starts with the broker's files. A nil raw file is one that could not be read, and fault says why.
func newIndexes(base, logSize int64, offsets []byte, offsetsErr error, times []byte, timesErr error) *indexes {
	x := &indexes{base: base, maxTimestamp: -1, lastTime: -1}
	if offsetsErr == nil {
		x.offsets, offsetsErr = segment.ParseOffsetIndex(offsets, base, logSize)
	}
	if offsetsErr != nil {
		x.offsetFault = offsetsErr.Error()
	}
	if timesErr == nil {
		x.times, timesErr = segment.ParseTimeIndex(times, base)
	}
	if timesErr != nil {
		x.timeFault = timesErr.Error()
	}
	return x
}

// checkBatch checks the entries up to the next batch, and adds it to the rebuilt indexes.
func (x *indexes) checkBatch(b *batch) {
	last := b.LastOffset()
	x.checkOffsets(b.Position, last)
	x.checkTimes(last)
	if b.MaxTimestamp > x.maxTimestamp {
		x.maxTimestamp, x.maxOffset = b.MaxTimestamp, last
	}
	// A relative offset has 31 bits; a reader of what lies beyond starts from the last entry that fits.
	if b.Position-x.lastEntry > indexInterval && last-x.base <= math.MaxInt32 {
		x.newOffsets = binary.BigEndian.AppendUint32(x.newOffsets, uint32(last-x.base))
		x.newOffsets = binary.BigEndian.AppendUint32(x.newOffsets, uint32(b.Position))
		x.lastEntry = b.Position
		x.addTime()
	}
}

// checkOffsets checks the entries whose position is reached. An entry names the last offset of what was appended at its
// position, one batch or several, so that its offset may be above the batch's but never below it: a reader would start
// behind what it looks for.
func (x *indexes) checkOffsets(pos, last int64) {
	for x.offsetFault == "" && x.offsetAt < x.offsets.Len() {
		offset, position := x.offsets.Entry(x.offsetAt)
		if position > pos {
			return
		}
		if position < pos {
			x.offsetFault = fmt.Sprintf("entry %d points at byte %d, where no batch begins", x.offsetAt, position)
			return
		}
		if offset < last {
			x.offsetFault = fmt.Sprintf("entry %d has offset %d for a batch that ends at %d", x.offsetAt, offset, last)
			return
		}
		x.offsetAt++
	}
}

// checkTimes checks the entries whose offset is reached. A reader that looks for an entry's timestamp starts at its
// offset, so that all batches before must be older.
func (x *indexes) checkTimes(last int64) {
	for x.timeFault == "" && x.timeAt < x.times.Len() {
		timestamp, offset := x.times.Entry(x.timeAt)
		if offset > last {
			return
		}
		if x.maxTimestamp >= timestamp {
			x.timeFault = fmt.Sprintf("entry %d has timestamp %d at offset %d, behind a batch of %d",
				x.timeAt, timestamp, offset, x.maxTimestamp)
			return
		}
		x.timeAt++
	}
}

func (x *indexes) addTime() {
	if x.maxTimestamp <= x.lastTime || x.maxOffset-x.base > math.MaxInt32 {
		return
	}
	x.newTimes = binary.BigEndian.AppendUint64(x.newTimes, uint64(x.maxTimestamp))
	x.newTimes = binary.BigEndian.AppendUint32(x.newTimes, uint32(x.maxOffset-x.base))
	x.lastTime = x.maxTimestamp
}

// finish checks the entries behind the last batch.
func (x *indexes) finish(logSize, lastOffset int64) {
	x.addTime()
	if n := x.offsets.Len(); x.offsetFault == "" {
		covered := int64(0)
		if n > 0 {
			var offset int64
			if offset, covered = x.offsets.Entry(n - 1); offset > lastOffset {
				x.offsetFault = fmt.Sprintf("entry %d has offset %d, the log ends at %d", n-1, offset, lastOffset)
			}
		}
		switch {
		case x.offsetFault != "":
		case x.offsetAt < n:
			_, position := x.offsets.Entry(x.offsetAt)
			x.offsetFault = fmt.Sprintf("entry %d points at byte %d, where no batch begins", x.offsetAt, position)
		case logSize-covered > uncovered && x.lastEntry-covered > uncovered:
			x.offsetFault = fmt.Sprintf("ends at byte %d of %d", covered, logSize)
		}
	}
	if x.timeFault == "" && x.timeAt < x.times.Len() {
		_, offset := x.times.Entry(x.timeAt)
		x.timeFault = fmt.Sprintf("entry %d has offset %d, the log ends at %d", x.timeAt, offset, lastOffset)
	}
}
