package aiven

import (
	"context"
	"errors"
	"fmt"

	"coldtap/internal/flight"
	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"
)

// ReadLog fills dst with log bytes [off, off+len(dst)), all from the version of the object that was read first. Another
// version is *rangeio.Error with Kind Changed: bytes that the caller keeps of this segment are then worthless, and the
// next read begins with the version it finds.
//
// It takes one GET for all stored chunks that are not open, and more only when they need more memory together than
// Options.Memory. A chunk that cannot be opened, or that alone needs more, is *layout.Error. dst holds garbage after an
// error. It may wait for memory while other reads use it.
func (l *Layout) ReadLog(ctx context.Context, seg *tier.Segment, dst []byte, off int64) (readcost.Cost, error) {
	if err := checkSegment(seg); err != nil {
		return readcost.Cost{}, err
	}
	if off < 0 || off > seg.Size || int64(len(dst)) > seg.Size-off {
		return readcost.Cost{}, &layout.Error{Object: mainPath(seg) + SuffixLog,
			Err: fmt.Errorf("%d bytes at %d are not in a log of %d", len(dst), off, seg.Size)}
	}
	if len(dst) == 0 {
		return readcost.Cost{}, nil
	}
	m, cost, err := l.manifest(ctx, seg)
	if err != nil {
		return cost, err
	}
	r := &logRead{l: l, ctx: ctx, seg: seg, key: seg.Key(), m: m, dst: dst, off: off, cost: cost}
	if m.plain() {
		err = r.get(dst, off)
	} else {
		x := &m.chunks
		err = r.read(int(off/x.chunk), int((off+int64(len(dst))-1)/x.chunk))
	}
	return r.cost, err
}

// manifest gives the segment's manifest, from memory if possible, and never another segment's.
func (l *Layout) manifest(ctx context.Context, seg *tier.Segment) (*manifestEntry, readcost.Cost, error) {
	m, cost, err := l.manifests.get(ctx, seg)
	if err != nil {
		return nil, cost, err
	}
	if err := m.describes(seg); err != nil {
		return nil, cost, &layout.Error{Object: m.lastStem() + SuffixManifest, Err: err}
	}
	return m, cost, nil
}

// logRead is one ReadLog.
type logRead struct {
	l    *Layout
	ctx  context.Context
	seg  *tier.Segment
	key  tier.SegmentKey
	m    *manifestEntry
	dst  []byte
	off  int64
	cost readcost.Cost
}

// part gives what of dst chunk i fills, and which bytes of the chunk that are.
func (r *logRead) part(i int) (dst []byte, skip int64, whole bool) {
	from, to := r.m.chunks.covers(i)
	lo, hi := max(from, r.off), min(to, r.off+int64(len(r.dst)))
	return r.dst[lo-r.off : hi-r.off], lo - from, lo == from && hi == to
}

// read fills dst from chunks first to last. Only the two at the ends can be wanted in part.
func (r *logRead) read(first, last int) error {
	opening := make(map[int]*chunkFlight) // chunks wanted in part that this read opens
	awaited := make(map[int]*chunkFlight) // chunks wanted in part that another read opens
	from, to := first, last
	for _, i := range []int{first, last} {
		dst, skip, whole := r.part(i)
		if whole || opening[i] != nil || from > to {
			continue
		}
		f, begin := r.l.space.copyOrOpen(chunkKey{r.seg.Key(), i}, dst, skip)
		switch {
		case begin:
			opening[i] = f
			continue
		case f != nil:
			awaited[i] = f
		default:
			r.l.metrics.reused.Inc()
		}
		if i == first {
			from++
		} else {
			to--
		}
	}
	result := flight.ErrUnfinished
	defer func() {
		for _, f := range opening {
			r.l.space.opened(f, nil, result)
		}
	}()
	err := r.open(from, to, opening)
	if result = err; err != nil && r.ctx.Err() != nil {
		result = flight.ErrAbandoned
	}
	if err != nil {
		return err
	}
	// Only now, when this read has opened all that others wait for, and holds no memory.
	for i, f := range awaited {
		if _, err := f.Wait(r.ctx); err != nil && err != flight.ErrAbandoned {
			return err
		}
		// The chunk is open, unless it was evicted already or the other read gave up.
		if err := r.read(i, i); err != nil {
			return err
		}
	}
	return nil
}

// unreadable is the error of chunks that begin with number first.
func (r *logRead) unreadable(first int, err error) error {
	position, _ := r.m.chunks.covers(first)
	return &layout.Error{Object: r.m.lastStem() + SuffixLog, Err: err, Unreadable: true, Position: position}
}

// open fetches chunks first to last and opens them, those in opening into the workspace, where they stay.
func (r *logRead) open(first, last int, opening map[int]*chunkFlight) error {
	if first > last {
		return nil
	}
	x := &r.m.chunks
	from, to := x.span(first, last)
	sizes := []int{int(to - from)}
	for i := first; i <= last; i++ {
		if opening[i] != nil {
			lo, hi := x.covers(i)
			sizes = append(sizes, int(hi-lo))
		}
	}
	if need := bufferBytes(sizes...); need > r.l.space.limit {
		if first == last {
			return r.unreadable(first, fmt.Errorf("stored chunks of %d bytes need %d bytes of memory, %d are allowed",
				x.chunk, need, r.l.space.limit))
		}
		middle := (first + last) / 2
		if err := r.open(first, middle, opening); err != nil {
			return err
		}
		return r.open(middle+1, last, opening)
	}
	buffers, err := r.l.space.acquire(r.ctx, sizes...)
	if err != nil {
		return err
	}
	stored, spare := buffers[0], buffers[1:]
	defer func() { r.l.space.release(append(spare, buffers[0])...) }()
	if err := r.get(stored, from); err != nil {
		return err
	}
	units := make([]unit, 0, last-first+1)
	for i := first; i <= last; i++ {
		lo, hi := x.span(i, i)
		u := unit{chunk: i, stored: stored[lo-from : hi-from : hi-from]}
		if opening[i] != nil {
			u.out, spare = spare[0], spare[1:]
		} else {
			u.out, _, _ = r.part(i)
		}
		units = append(units, u)
	}
	spare = buffers[1:]
	if err := r.l.opener.openAll(r.ctx, r.m, units); err != nil {
		if r.ctx.Err() != nil {
			return err
		}
		r.l.metrics.damaged.Inc()
		return r.unreadable(first, err)
	}
	r.l.metrics.opened.Add(float64(len(units)))
	for _, u := range units {
		if f := opening[u.chunk]; f != nil {
			dst, skip, _ := r.part(u.chunk)
			copy(dst, u.out[skip:])
			r.l.space.opened(f, u.out, nil)
			delete(opening, u.chunk)
			spare = spare[1:]
		}
	}
	return nil
}

// get reads stored bytes of the .log object, which must have the length that the manifest says.
func (r *logRead) get(dst []byte, off int64) error {
	err := tryStems(stems(r.seg, r.m.lastStem(), r.l.prefixesOf(r.seg)), func(stem string) error {
		info, cost, err := r.l.store.ReadRange(r.ctx, stem+SuffixLog, dst, off, r.m.knownVersion(), r.m.StoredSize)
		r.cost.Add(cost)
		if err == nil && !r.m.learnVersion(info.ETag) {
			// Two first reads ran side by side and an overwrite came between them.
			err = &rangeio.Error{Kind: rangeio.Changed, Op: "get", Key: stem + SuffixLog,
				Err: errors.New("object was overwritten meanwhile")}
		}
		if err == nil {
			r.m.learnStem(stem)
		}
		return err
	})
	if rangeio.IsKind(err, rangeio.Changed, rangeio.NotFound) {
		r.l.manifests.forget(r.key)
		r.l.space.drop(r.key)
	}
	return err
}
