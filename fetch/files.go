package fetch

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"coldtap/fetch/scan"
	"coldtap/readerpool"
	"coldtap/segment"
	"coldtap/tier"
)

// File is one file of a segment, for byte ranges. It may be used concurrently.
type File struct {
	svc     *Service
	seg     *tier.Segment
	name    string
	size    int64
	raw     []byte        // of a small file
	timeout time.Duration // of a wait
}

// smallFiles gives the small files by the names that listings show.
var smallFiles = map[string]func(*segment.Files) []byte{
	fileOffsets:  func(x *segment.Files) []byte { return x.OffsetIndex },
	fileTimes:    func(x *segment.Files) []byte { return x.TimeIndex },
	fileTxns:     func(x *segment.Files) []byte { return x.TxnIndex },
	fileSnapshot: func(x *segment.Files) []byte { return x.Snapshot },
	fileEpochs:   func(x *segment.Files) []byte { return x.LeaderEpochs },
}

// OpenFile finds a readable segment, by its id or by its base offset in decimal, and one of its files: log, index,
// timeindex, txnindex, snapshot or leader-epoch-checkpoint. It reads nothing for the log. timeout bounds how long this
// call, and each call of FileStream.Next, waits for pool, store and memory; 0 = no limit. Errors are *Error.
func (s *Service) OpenFile(ctx context.Context, topic string, id segment.UUID, partition int32, seg, file string,
	timeout time.Duration) (*File, error) {
	_, t, p, err := s.find(topic, id, partition)
	if err != nil {
		return nil, err
	}
	found, ok := findSegment(p, seg)
	if !ok {
		return nil, failure(SegmentUnknown, nil, "partition %d of topic %q has no readable segment %q", partition, t.Name, seg)
	}
	f := &File{svc: s, seg: found, name: file, size: found.Size, timeout: timeout}
	small, ok := smallFiles[file]
	unknown := failure(SegmentUnknown, nil, "segment %s has no file %q", found.ID, file)
	switch {
	case file == fileLog:
		return f, nil
	case !ok:
		return nil, unknown
	}
	var w waiter
	w.reset(timeout, true)
	wait := w.start(ctx)
	entry, _, err := s.cfg.Indexes.Get(wait, found)
	if err := w.done(wait, nil, err); err != nil {
		return nil, f.explain(ctx, &w, err)
	}
	f.raw = small(entry.Files)
	if f.raw == nil {
		if file == fileTxns && entry.TxnErr != nil {
			return nil, txnFault(entry.TxnErr, found)
		}
		if slices.Contains(entry.Files.IndexDamaged, file) {
			e := failure(Damaged, entry.TxnErr, "file %q is damaged", file)
			e.Segment = found.ID
			return nil, e
		}
		return nil, unknown
	}
	f.size = int64(len(f.raw))
	return f, nil
}

// findSegment finds a readable segment by its id or its base offset. Of several with one base, the longest is meant: a
// sealed segment that grew was copied again.
func findSegment(p *tier.Partition, name string) (found *tier.Segment, ok bool) {
	is := func(*tier.Segment) bool { return false }
	if id, err := segment.ParseUUID(name); err == nil {
		is = func(s *tier.Segment) bool { return s.ID == id }
	} else if base, err := strconv.ParseInt(name, 10, 64); err == nil {
		is = func(s *tier.Segment) bool { return s.BaseOffset == base }
	}
	for _, s := range p.Segments(false) {
		if is(s) && (found == nil || s.EndOffset > found.EndOffset) {
			found = s
		}
	}
	return found, found != nil
}

// Size is the file's length in bytes.
func (f *File) Size() int64 { return f.size }

// ETag is a strong validator, quoted: a segment's files never change.
func (f *File) ETag() string {
	return `"` + f.seg.ID.String() + "-" + f.name + "-" + strconv.FormatInt(f.size, 10) + `"`
}

// explain tells a file that was deleted meanwhile from one that is missing.
func (f *File) explain(ctx context.Context, w *waiter, err error) error {
	if !errors.Is(err, errGone) && kindOf(err) != Missing {
		return err
	}
	if !errors.Is(err, errGone) {
		if err := f.svc.refresh(ctx, w, f.seg.Partition); err != nil {
			return err
		}
		if p, ok := f.svc.cfg.Source.Snapshot().Partition(f.seg.Partition); ok && p.Readable(f.seg.ID) {
			return err
		}
	}
	e := failure(SegmentUnknown, err, "the segment was deleted")
	e.Segment = f.seg.ID
	return e
}

// Range streams bytes [from, to) as runs, chunk by chunk and without a copy; what lies outside the file is cut off. The
// caller must Close the stream. The bytes are as stored. Of the log no byte of a batch is handed out before the batch's
// checksum has been checked, whatever part of it is asked for, so a batch at the range's edge is read whole; what
// follows the last batch has no checksum. The batches that lead from the index's entry to the range are checked too.
func (f *File) Range(from, to int64) *FileStream {
	fs := &FileStream{file: f, pos: min(max(from, 0), f.size), to: min(to, f.size)}
	cfg := &f.svc.cfg
	fs.wait.reset(f.timeout, true)
	fs.planner.cfg, fs.planner.wait, fs.planner.lane = cfg, &fs.wait, readerpool.Interactive
	fs.chunks.cfg, fs.chunks.wait, fs.chunks.plan = cfg, &fs.wait, &fs.planner
	fs.scan.Memory.From, fs.scan.Memory.Share, fs.scan.Memory.Acquire = cfg.Decode, cfg.Decode.Streams(), fs.chunks.acquire
	fs.scan.Reset(&fs.chunks, cfg.Logger)
	return fs
}

// FileStream yields a range of a file. Not for concurrent use.
type FileStream struct {
	file    *File
	planner planner
	chunks  chunks
	scan    scan.Scanner // of the log
	wait    waiter
	placed  bool  // the scanner stands in the log
	owed    int64 // where the batch ends that is handed out in part, 0 = none
	pos     int64 // of the next byte to hand out
	to      int64
	err     error
}

// Next gives the next run, releasing the one it is given. io.EOF at the end; other errors are *Error.
func (fs *FileStream) Next(ctx context.Context, run *Run) error {
	run.Release()
	if fs.err != nil {
		return fs.err
	}
	if fs.pos >= fs.to {
		return io.EOF
	}
	if fs.file.raw != nil {
		run.bytes = fs.file.raw[fs.pos:fs.to:fs.to]
		fs.pos = fs.to
	} else if err := fs.nextLog(ctx, run); err != nil {
		fs.err = fs.file.explain(ctx, &fs.wait, scanFault(err, fs.file.seg))
		fs.Close()
		return fs.err
	}
	fs.wait.progressed()
	fs.file.svc.metrics.fileBytes.Add(float64(len(run.bytes)))
	return nil
}

// nextLog is Next for the log.
func (fs *FileStream) nextLog(ctx context.Context, run *Run) error {
	s := &fs.scan
	if !fs.placed {
		if err := fs.openLog(ctx); err != nil {
			return err
		}
	}
	for run.bytes == nil {
		var err error
		fs.chunks.pos, fs.chunks.room = s.Position(), fs.to-s.Position()
		if fs.owed == 0 {
			err = fs.checkBatch(ctx)
		}
		switch {
		case err == nil && fs.owed <= fs.pos:
			s.Advance()
			fs.owed = 0
		case err == io.EOF: // no data any more: a preallocated log may have a tail of zeros
			fs.chunks.pos, fs.chunks.room = fs.pos, fs.to-fs.pos
			err = fs.handOut(ctx, run)
		case err == nil:
			err = fs.handOut(ctx, run)
		}
		if err == scan.ErrAgain {
			fs.owed = 0
		} else if err != nil {
			return err
		}
	}
	return nil
}

// openLog places the scanner before the range. Without the small files the way is long, and right all the same.
func (fs *FileStream) openLog(ctx context.Context) error {
	seg := fs.file.seg
	log := fs.planner.describe(seg)
	if fs.pos > 0 {
		entry, err := fs.planner.index(ctx, seg)
		if err != nil && kindOf(err) != Missing {
			return err
		}
		if err == nil {
			log.Dense, log.Offsets = entry.Files.Dense, entry.Offsets
		}
	}
	fs.placed = true
	fs.scan.SeekPosition(log, fs.pos)
	return fs.chunks.startAt(seg, nil, fs.scan.Position(), fs.to)
}

// checkBatch checks the next batch, which is owed then.
func (fs *FileStream) checkBatch(ctx context.Context) error {
	h, err := fs.scan.Next(ctx)
	if err != nil {
		return err
	}
	want := scan.ToSend
	if fs.scan.Below() {
		want = scan.ToPass
	}
	if err = fs.scan.Check(ctx, want); err == nil {
		fs.owed = fs.scan.Position() + h.Size()
	}
	return err
}

// handOut makes the run what lies in one place, from pos on: of the batch that is owed and, where it ends in a chunk,
// of as many whole batches behind it as the range takes. Behind the last batch of the log it is all of the chunk.
func (fs *FileStream) handOut(ctx context.Context, run *Run) error {
	s := &fs.scan
	piece, err := s.Piece(ctx, fs.pos)
	if err != nil {
		return err
	}
	end := fs.pos + int64(len(piece.Bytes))
	if fs.owed > 0 && fs.owed <= end {
		s.Advance()
		for piece.Chunk != nil && s.Position() < fs.to && s.InSameChunk() && s.CheckHere() == nil {
			s.Advance()
		}
		end, fs.owed = s.Position(), 0
	}
	end = min(end, fs.to)
	run.set(piece, s.Memory.Share, end-fs.pos)
	fs.pos = end
	return nil
}

// Close gives everything back; runs that were handed out stay valid until their own Release.
func (fs *FileStream) Close() {
	fs.scan.Close()
	fs.file.svc.metrics.scanned(&fs.scan.Stats)
	fs.scan.Stats = scan.Stats{}
	fs.chunks.close()
	fs.pos = fs.to
}
