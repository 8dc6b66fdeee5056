package fetch

import (
	"context"
	"errors"
	"sort"

	"coldtap/readerpool"
	"coldtap/segment"
	"coldtap/tier"
)

// logRange is a FileStream's walk over the batches that cover its range of a log, from the last indexed position before
// it on. Positions are of the log.
type logRange struct {
	placed   bool
	offsets  segment.OffsetIndex
	entry    int   // the entry that the walk began at, -1 = the log's first byte
	locating bool  // no batch has confirmed that position yet
	fellBack bool  // it is the entry before the right one
	last     int64 // last offset of the batch before, -1 = none seen
	checked  int64 // what lies below, from the walk's begin on, is sound
	body     body  // of the batch that was examined
	owed     bool  // pieces of it are
}

// nextLog is Next for the log.
func (fs *FileStream) nextLog(ctx context.Context, run *Run) error {
	c, w := &fs.cur, &fs.walk
	if !w.placed {
		if err := fs.place(ctx); err != nil {
			return err
		}
	}
	if w.owed {
		return fs.nextPiece(ctx, run)
	}
	for {
		if w.checked <= fs.pos && fs.ended() {
			if err := fs.holdTail(ctx); err != nil {
				return err
			}
			end := min(c.cur.to, fs.to)
			run.set(&c.cur, fs.pos, end)
			fs.pos = end
			return nil
		}
		if err := fs.examine(ctx, false); err != nil {
			if err := fs.repair(ctx, err); err != nil {
				return err
			}
			continue
		}
		if w.checked <= fs.pos {
			continue
		}
		switch {
		case w.body.second != nil, w.body.pieces:
			return fs.nextPiece(ctx, run)
		case !w.body.chunk:
			// The run takes over the memory.
			begin := w.checked - int64(len(c.assembled))
			end := min(w.checked, fs.to)
			run.bytes, run.share, run.reserved = c.assembled[fs.pos-begin:end-begin:end-begin], c.memory.share, int64(cap(c.assembled))
			c.memory.move(run.reserved)
			c.assembled = nil
			fs.pos = end
		default:
			fs.handOut(ctx, run)
		}
		return nil
	}
}

// nextPiece hands out what lies in one chunk of a batch that spreads over several, and what follows on the last piece.
func (fs *FileStream) nextPiece(ctx context.Context, run *Run) error {
	c, w := &fs.cur, &fs.walk
	to, err := c.piece(ctx, &w.body, fs.pos, w.checked)
	if err != nil {
		return err
	}
	if w.owed = false; to == w.checked {
		fs.handOut(ctx, run)
		return nil
	}
	to = min(to, fs.to)
	run.set(&c.cur, fs.pos, to)
	fs.pos, w.owed = to, to < fs.to
	return nil
}

// handOut makes the run what lies, from pos on, in the chunk at hand: the rest of the batch that was examined, and as
// many whole batches behind it as the range still takes.
func (fs *FileStream) handOut(ctx context.Context, run *Run) {
	for fs.walk.checked < fs.to && !fs.ended() && fs.examine(ctx, true) == nil {
	}
	end := min(fs.walk.checked, fs.to)
	run.set(&fs.cur.cur, fs.pos, end)
	fs.pos = end
}

// ended says that what follows is no data: a preallocated log may have a tail of zeros.
func (fs *FileStream) ended() bool { return fs.walk.last == fs.file.seg.EndOffset }

// holdTail makes the cursor hold the chunk of pos, behind the last batch.
func (fs *FileStream) holdTail(ctx context.Context) error {
	fs.cur.pos = fs.pos
	fs.cur.seq.budget = fs.to - fs.pos
	return fs.cur.hold(ctx, fs.pos)
}

// place puts the cursor where the walk begins.
func (fs *FileStream) place(ctx context.Context) error {
	c, w := &fs.cur, &fs.walk
	c.seq.partition, c.seq.lane, c.seq.logs = fs.file.seg.Partition, readerpool.Interactive, fs.file.svc.cfg.Logs
	w.entry = -1
	if fs.pos > 0 {
		if err := fs.loadIndex(ctx); err != nil {
			return err
		}
		w.entry = sort.Search(w.offsets.Len(), func(i int) bool {
			_, pos := w.offsets.Entry(i)
			return pos > fs.pos
		}) - 1
	}
	w.placed = true
	return fs.begin(nil)
}

// loadIndex fills in what the segment's small files tell. Without them the walk is long, and right all the same.
func (fs *FileStream) loadIndex(ctx context.Context) error {
	p := fs.wait.begin(ctx)
	entry, _, err := fs.file.svc.cfg.Indexes.Get(p, fs.file.seg)
	switch err = fs.wait.end(p, nil, err); {
	case err == nil:
		fs.walk.offsets, fs.cur.dense = entry.Offsets, entry.Files.Dense
	case kindOf(err) != Missing:
		return err
	}
	return nil
}

// begin starts the walk at its entry.
func (fs *FileStream) begin(snap *tier.Snapshot) error {
	w, pos := &fs.walk, int64(0)
	if w.entry >= 0 {
		_, pos = w.offsets.Entry(w.entry)
	}
	w.locating, w.last, w.checked = pos > 0, -1, pos
	return fs.cur.enter(fs.file.seg, snap, pos, fs.to)
}

// errNotHere: the next batch does not lie wholly in the chunk at hand.
var errNotHere = errors.New("the next batch leaves the chunk")

// examine checks the batch at the cursor and steps behind it. With stay it fails instead of asking for another chunk.
func (fs *FileStream) examine(ctx context.Context, stay bool) error {
	c, w := &fs.cur, &fs.walk
	if stay && !c.headerInside() {
		return errNotHere
	}
	c.seq.budget = fs.to - c.pos
	h, err := c.header(ctx)
	if err != nil {
		return err
	}
	if e := c.contradicts(&h, w.last); e != nil {
		return e
	}
	if stay && c.pos+h.Size() > c.cur.to {
		return errNotHere
	}
	follows := c.follows(&h, w.last)
	if stay && !follows && !c.glanceInside(c.pos+h.Size()) {
		return errNotHere
	}
	want := toSend
	if c.pos+h.Size() <= fs.pos {
		want = toPass
	}
	b, err := c.batch(ctx, &h, want)
	if err != nil {
		return err
	}
	if !follows {
		proven, err := c.neighbours(ctx, &h, w.last)
		if err != nil {
			return err
		}
		if !proven && w.locating && !w.fellBack {
			// With a batch before it, this one is in order or is not.
			w.entry--
			w.fellBack = true
			return fs.begin(c.snap)
		}
		if b, err = c.batch(ctx, &h, want); err != nil {
			return err
		}
	}
	c.accept()
	w.locating, w.body = false, b
	w.last = h.LastOffset()
	c.pos += h.Size()
	c.joined = -1
	w.checked = c.pos
	return nil
}

// repair decides what a fault of examine means: nil when the walk goes on.
func (fs *FileStream) repair(ctx context.Context, err error) error {
	c, w := &fs.cur, &fs.walk
	err = c.fault(err)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != Damaged {
		return err
	}
	if e.doubt {
		// Below the range it need not be read once more: the batch behind is proof enough.
		h, err := c.header(ctx)
		if err == nil && c.pos+h.Size() <= fs.pos {
			to, ok, err := c.behind(ctx, e, w.last, segment.OffsetIndex{}, nil)
			if err != nil {
				return err
			}
			if ok && to.pos <= fs.pos {
				fs.stepOver(&to)
				return nil
			}
		}
	}
	if w.locating {
		// First the index is in doubt: the entry before, then the log's first byte.
		w.entry--
		if w.fellBack {
			w.entry = -1
		}
		w.fellBack = true
		fs.file.svc.metrics.fallbacks.Inc()
		fs.file.svc.cfg.Logger.Warn("offset index gave a wrong position", "segment", c.seg.ID.String(), "position", c.pos)
		return fs.begin(c.snap)
	}
	if e.doubt && c.readAgain() {
		return nil
	}
	if err := fs.loadIndex(ctx); err != nil {
		return err
	}
	to, ok, err := c.behind(ctx, e, w.last, w.offsets, nil)
	if err != nil {
		return err
	}
	e.NextOffset = c.seg.EndOffset + 1
	end := c.pos + 1
	if ok {
		e.NextOffset, end = to.header.BaseOffset, max(end, to.pos)
	}
	c.confirm(e)
	if ok && to.pos <= fs.pos {
		fs.stepOver(&to)
		return nil
	}
	c.forget(end)
	return e
}

// stepOver goes on at a batch behind damage that lies below the range.
func (fs *FileStream) stepOver(to *landing) {
	c, w := &fs.cur, &fs.walk
	c.pos, c.joined, w.checked, w.last, w.locating = to.pos, -1, to.pos, -1, false
	if to.adjoins {
		w.last = to.header.BaseOffset - 1
	}
}
