package offload

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"

	"coldtap/internal/readlimit"
	"coldtap/segment"
)

// producers is the state of each producer at an offset: all that a producer snapshot holds, where transactions has only
// what decides visibility. It follows
// org.apache.kafka.storage.internals.log.ProducerAppendInfo for logs that the cleaner has not touched.
//
// A broker leaves out producers that were idle for producer.id.expiration.ms by its clock. Here they stay, with their
// time, and a broker that loads the snapshot drops them by the same rule.
type producers map[int64]segment.ProducerState

// producersLimit is how many a snapshot below snapshotLimit can hold.
const producersLimit = snapshotLimit / 46

// producersAt loads the snapshot at a segment's base. Without one, only the very first segment has a known state: none.
func (p *localLog) producersAt(base int64) (producers, error) {
	_, states, err := p.readSnapshot(base)
	switch {
	case errors.Is(err, fs.ErrNotExist) && base == 0:
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, readlimit.ErrTooLarge):
		return nil, damaged(segment.FileName(base, ".snapshot"), "%v: no snapshot can be made for the end", err)
	case err != nil:
		return nil, err
	}
	known := make(producers, len(states))
	for _, s := range states {
		known[s.ProducerID] = s
	}
	return known, nil
}

// apply moves the state over a batch that transactions accepted.
func (p producers) apply(b *batch) error {
	if b.ProducerID < 0 {
		return nil
	}
	s, ok := p[b.ProducerID]
	if !ok {
		if len(p) >= producersLimit {
			return errors.New("more producers than a snapshot may hold")
		}
		s = segment.ProducerState{
			ProducerID: b.ProducerID, Epoch: -1, LastSequence: -1, LastOffset: -1, Timestamp: -1, CoordinatorEpoch: -1, TxnFirstOffset: -1,
		}
	}
	if b.IsControl() {
		kind, coordinator, ok, err := segment.ParseControl(b.Bytes)
		if err != nil {
			return err
		}
		if !ok || kind != segment.ControlAbort && kind != segment.ControlCommit {
			return nil
		}
		s = inEpoch(s, b.ProducerEpoch)
		s.CoordinatorEpoch, s.TxnFirstOffset = coordinator, -1
	} else {
		s = inEpoch(s, b.ProducerEpoch)
		s.LastSequence, s.LastOffset, s.OffsetDelta = lastSequence(&b.Header), b.LastOffset(), b.LastOffsetDelta
		if b.IsTransactional() && s.TxnFirstOffset < 0 {
			s.TxnFirstOffset = b.BaseOffset
		}
	}
	s.Timestamp = b.MaxTimestamp
	p[b.ProducerID] = s
	return nil
}

// inEpoch is the state when a producer goes on in an epoch: in a new one, its batches are forgotten.
func inEpoch(s segment.ProducerState, epoch int16) segment.ProducerState {
	if s.Epoch != epoch {
		s.Epoch, s.LastSequence, s.LastOffset, s.OffsetDelta = epoch, -1, -1, 0
	}
	return s
}

// lastSequence is the sequence number of a batch's last record; they wrap around to 0.
func lastSequence(h *segment.Header) int32 {
	if h.BaseSequence < 0 {
		return -1
	}
	return int32((int64(h.BaseSequence) + int64(h.LastOffsetDelta)) & math.MaxInt32)
}

// states lists the producers by id.
func (p producers) states() []segment.ProducerState {
	states := make([]segment.ProducerState, 0, len(p))
	for _, id := range slices.Sorted(maps.Keys(p)) {
		states = append(states, p[id])
	}
	return states
}
