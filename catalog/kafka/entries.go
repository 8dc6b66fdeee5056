package kafka

import (
	"errors"
	"sync"

	"coldtap/segment"
)

const (
	// batchBytes bounds what one batch may decompress to. Batches above lightBytes are opened one at a time, so that
	// memory holds one such batch, and not one for each leader. Brokers' records take some 200 bytes, their batches less
	// than message.max.bytes, 1 MiB.
	batchBytes = 64 << 20
	lightBytes = 4 << 20
	// answerValues is how many bytes of values are used of one answer; the rest is fetched again. Only answers that were
	// compressed a hundredfold have more.
	answerValues = 16 << 20
)

// entries opens the batches of answers, one answer at a time; release ends one. It is one goroutine's.
type entries struct {
	light *segment.Decoder
	large *sync.Mutex      // shared by all entries that are open at a time
	heavy *segment.Decoder // nil unless large is locked
	taken int64            // bytes of values since release
}

func newEntries(large *sync.Mutex) *entries {
	return &entries{light: segment.NewDecoder(lightBytes, nil), large: large}
}

func (e *entries) close() {
	e.release()
	e.light.Close()
}

// release frees what an answer needed; nothing of it may be in use any more.
func (e *entries) release() {
	e.taken = 0
	if e.heavy != nil {
		e.heavy.Close()
		e.heavy = nil
		e.large.Unlock()
	}
}

// full says that no more of this answer is to be read.
func (e *entries) full() bool { return e.taken >= answerValues }

// unreadable is a batch that cannot be read.
type unreadable struct {
	header segment.Header
	size   int
	error
}

func (u *unreadable) Unwrap() error { return u.error }

// each gives fn every record of a portion from at on, but those of control batches. next is the position to go on from:
// behind the last whole batch, whatever is left in it, or at one that cannot be read.
//
// Such a batch is fetched once more, since the fault may be in the answer (position.failedOnce). If it fails again,
// skipped is called with it, and next is behind it if that is known: where the batch after it begins, or, when the
// answer ends with it, where it says itself that it ends, if that is below the partition's end. A damaged number of
// records may make that wrong. Else, and when the bytes are no batch at all, err is what stops the partition.
func (e *entries) each(p *portion, at position, fn func(*segment.Record) error, skipped func(*unreadable)) (next position, err error) {
	next = at
	var bad *unreadable // to be passed over
	for batch, err := range segment.Batches(p.bytes) {
		if err != nil {
			if fault, ok := errors.AsType[*segment.Error](err); ok && fault.Kind == segment.Truncated {
				break // an answer may end in a part of a batch
			}
			if bad != nil {
				return next, bad
			}
			return next, err
		}
		h := &batch.Header
		if bad != nil {
			if h.BaseOffset <= bad.header.BaseOffset || h.BaseOffset < next.offset || h.BaseOffset > p.end {
				return next, bad
			}
			skipped(bad)
			next = position{offset: h.BaseOffset, epoch: next.epoch}
			bad = nil
		}
		if h.LastOffset() < next.offset {
			continue
		}
		if e.full() {
			return next, nil
		}
		refused, fault := e.read(&batch, next.offset, fn)
		switch {
		case refused != nil:
			return next, refused
		case fault == nil:
			next = position{offset: h.LastOffset() + 1, epoch: max(h.LeaderEpoch, -1)}
		case at.failedOnce && next == at:
			bad = &unreadable{*h, len(batch.Bytes), fault}
		default:
			next.failedOnce = true
			return next, nil
		}
	}
	if bad == nil {
		return next, nil
	}
	if h := &bad.header; h.LastOffset() >= p.end || h.LastOffsetDelta < 0 || int64(h.Count) > int64(h.LastOffsetDelta)+1 {
		return next, bad
	}
	skipped(bad)
	return position{offset: bad.header.LastOffset() + 1, epoch: next.epoch}, nil
}

// read gives fn the records of a batch. refused is fn's error, fault the batch's.
func (e *entries) read(batch *segment.Batch, from int64, fn func(*segment.Record) error) (refused, fault error) {
	if err := segment.VerifyCRC(&batch.Header, batch.Bytes); err != nil {
		return nil, err
	}
	if batch.Header.IsControl() {
		return nil, nil
	}
	decoder := e.light
	err := decoder.Open(batch.Bytes)
	if large, ok := errors.AsType[*segment.Error](err); ok && large.Kind == segment.TooLarge {
		if e.heavy == nil {
			e.large.Lock()
			e.heavy = segment.NewDecoder(batchBytes, nil)
		}
		decoder = e.heavy
		err = decoder.Open(batch.Bytes)
	}
	if err != nil {
		return nil, err
	}
	var r segment.Record
	for {
		ok, err := decoder.Next(&r)
		if err != nil || !ok {
			return nil, err
		}
		if r.Offset < from {
			continue
		}
		e.taken += int64(len(r.Value))
		if err := fn(&r); err != nil {
			return err, nil
		}
	}
}
