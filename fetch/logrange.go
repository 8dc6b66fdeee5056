package fetch

import (
	"context"
	"errors"
	"sort"

	"coldtap/cache"
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
	second   bool  // its second piece is owed
}

// nextLog is Next for the log.
func (fs *FileStream) nextLog(ctx context.Context, run *Run) error {
	c, w := &fs.cur, &fs.walk
	if !w.placed {
		if err := fs.place(ctx); err != nil {
			return err
		}
	}
	if w.second {
		w.second = false
		c.cur.release()
		c.cur, c.next = c.next, pin{}
		fs.handOut(ctx, run)
		return nil
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
			if err := fs.repair(err); err != nil {
				return err
			}
			continue
		}
		if w.checked <= fs.pos {
			continue
		}
		switch {
		case !w.body.chunk:
			// The run takes over the memory.
			begin := w.checked - int64(len(c.assembled))
			end := min(w.checked, fs.to)
			run.bytes, run.budget, run.reserved = c.assembled[fs.pos-begin:end-begin:end-begin], c.memory.from, int64(cap(c.assembled))
			c.memory.move(run.reserved)
			c.assembled = nil
			fs.pos = end
		case w.body.second != nil && fs.pos < c.cur.to:
			end := min(c.cur.to, fs.to)
			run.set(&c.cur, fs.pos, end)
			fs.pos = end
			w.second = end < fs.to
		case w.body.second != nil:
			c.cur.release()
			c.cur, c.next = c.next, pin{}
			fs.handOut(ctx, run)
		default:
			fs.handOut(ctx, run)
		}
		return nil
	}
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
	c.seq.partition, c.seq.urgency, c.seq.logs = fs.file.seg.Partition, cache.Interactive, fs.file.svc.cfg.Logs
	w.entry = -1
	if fs.pos > 0 {
		p := fs.wait.begin(ctx)
		entry, _, err := fs.file.svc.cfg.Indexes.Get(p, fs.file.seg)
		err = fs.wait.end(p, nil, err)
		switch {
		case err == nil:
			w.offsets, c.dense = entry.Offsets, entry.Files.Dense
			w.entry = sort.Search(w.offsets.Len(), func(i int) bool {
				_, pos := w.offsets.Entry(i)
				return pos > fs.pos
			}) - 1
		case kindOf(err) != Missing: // without an index the walk is long, and right all the same
			return err
		}
	}
	w.placed = true
	return fs.begin(nil)
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
	b, err := c.batch(ctx, &h, false)
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
		if b, err = c.batch(ctx, &h, false); err != nil {
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
func (fs *FileStream) repair(err error) error {
	c, w := &fs.cur, &fs.walk
	next := int64(-1)
	if w.last >= 0 {
		next = w.last + 1
	}
	err = c.fault(err, next)
	if kindOf(err) == Damaged && w.locating {
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
	if c.readAgain(err) {
		return nil
	}
	return err
}
