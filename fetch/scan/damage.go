package scan

import (
	"context"
	"errors"
	"math"
	"slices"

	"coldtap/cache"
	"coldtap/segment"
)

// suspects are the chunks that a batch which fails may have been read from.
type suspects struct {
	recent    []recent // chunks that the batch at pos may lie in, and the header behind it
	rereads   []reread // chunks of the log that were in doubt
	from      int64    // the damaged batch behind which the scanner looks, MaxInt64 = none
	doubted   int64    // position of the batch that was to be read once more, -1 = none
	undecided bool     // what came of it
}

// recent is a chunk that was loaded lately.
type recent struct {
	chunk    *cache.Chunk // not held
	from, to int64        // log positions
}

// reread is a chunk that was taken out of the cache, and how often.
type reread struct {
	from  int64
	times int
}

func (d *suspects) clear() {
	clear(d.recent)
	*d = suspects{recent: d.recent[:0], rereads: d.rereads[:0], from: math.MaxInt64, doubted: -1}
}

// note remembers a chunk that was just loaded, and forgets those that lie before the batch at pos, or before the
// damaged one behind which the scanner looks.
func (d *suspects) note(p *pin, pos int64) {
	kept := d.recent[:0]
	for _, r := range d.recent {
		if r.to > min(pos, d.from) && r.chunk != p.chunk {
			kept = append(kept, r)
		}
	}
	d.recent = append(kept, recent{p.chunk, p.from, p.to})
}

func (d *suspects) countReread(from int64) {
	for i := range d.rereads {
		if d.rereads[i].from == from {
			d.rereads[i].times++
			return
		}
	}
	d.rereads = append(d.rereads, reread{from, 1})
}

// rereadEnough says that all chunks of the batch at pos have come from the store again as often as a search behind
// damage may have them: without that, damage over many small batches of one chunk would load the chunk once for each.
func (d *suspects) rereadEnough(pos int64) bool {
	for _, r := range d.recent {
		enough := func(x reread) bool { return x.from == r.from && x.times >= maxRereads }
		if r.to > pos && !slices.ContainsFunc(d.rereads, enough) {
			return false
		}
	}
	return true
}

// forget takes the chunks that the batch at pos was read from, as far as they begin below end, out of the cache. Chunks
// loaded since by others stay: a hundred readers of one damaged chunk ask the store for it once more, not a hundred
// times.
func (s *Scanner) forget(end int64) {
	s.unpin()
	d := &s.suspects
	kept := d.recent[:0]
	for _, r := range d.recent {
		if r.to > s.pos && r.from < end {
			s.source.Drop(r.chunk)
			d.countReread(r.from)
		} else {
			kept = append(kept, r)
		}
	}
	d.recent = kept
	s.behindOffset.at, s.streamed = -1, streamed{at: -1}
}

// readAgain says whether damage in doubt is to be decided by reading the batch at pos once more, from the store.
func (s *Scanner) readAgain() bool {
	if s.suspects.doubted == s.pos {
		return false
	}
	s.forget(math.MaxInt64)
	s.suspects.doubted, s.suspects.undecided = s.pos, true
	return true
}

// decide ends the doubt about the batch at pos, if it was read once more.
func (s *Scanner) decide(count *int64) {
	if d := &s.suspects; d.undecided && d.doubted == s.pos {
		d.undecided = false
		*count++
	}
}

// confirm notes damage at pos: a second read gave no better bytes, or the store has none.
func (s *Scanner) confirm(e *Error) {
	s.decide(&s.Stats.StillDamaged)
	if e.past == 0 { // else the layout, which could not make log bytes of them, has logged it
		s.logger.Warn("damaged log bytes", "segment", s.log.ID.String(), "position", s.pos, "error", e)
	}
}

// accept notes that the batch at pos is sound.
func (s *Scanner) accept() { s.decide(&s.Stats.Healed) }

// repair decides what an error of reading the batch at pos means: ErrAgain when the scanner goes on, there or
// elsewhere.
func (s *Scanner) repair(ctx context.Context, err error) error {
	e := s.fault(err)
	switch {
	case e == nil:
		return err
	case e.Kind == TooLarge, e.Kind == Damaged && !e.doubt && e.past == 0 && s.proven == s.pos:
		// The checksum is right, so the batch ends where it says.
		e.NextOffset = s.header.LastOffset() + 1
		return e
	case e.Kind == Damaged:
		return s.repairDamage(ctx, e)
	}
	return e
}

// repairDamage decides about damage at pos: ErrAgain when the scanner goes on, at the same batch or behind it.
func (s *Scanner) repairDamage(ctx context.Context, e *Error) error {
	if e.doubt {
		// Below the target it need not be read once more: the batch behind is proof enough.
		h, err := s.readHeader(ctx)
		if err == nil && s.below(&h) {
			to, ok, err := s.behind(ctx, e, segment.OffsetIndex{}, nil)
			if err != nil {
				return err
			}
			if ok && s.reaches(&to) {
				s.logger.Warn("log bytes that fail their checks were stepped over, below the offset that is asked for",
					"segment", s.log.ID.String(), "position", e.Position, "error", e)
				return s.stepOver(&to)
			}
		}
	}
	if s.locating {
		s.Stats.Fallbacks++
		at := s.pos
		s.back()
		s.logger.Warn("offset index gave a wrong position", "segment", s.log.ID.String(), "offset", s.target.offset,
			"position", at, "instead", s.pos)
		return ErrAgain
	}
	if e.doubt && s.readAgain() {
		return ErrAgain
	}
	index, err := s.source.Offsets(ctx)
	if err != nil {
		return err
	}
	var times *timeProof
	if s.target.time < math.MaxInt64 {
		times = &timeProof{before: s.target.time}
	}
	to, ok, err := s.behind(ctx, e, index, times)
	if err != nil {
		return err
	}
	e.NextOffset = s.log.Last + 1
	end := s.pos + 1
	if ok {
		e.NextOffset, end = to.header.BaseOffset, max(end, to.pos)
	}
	s.confirm(e)
	if ok && (s.reaches(&to) || to.adjoins && times.holds(&to.header)) {
		return s.stepOver(&to)
	}
	// Nothing damaged is left in the cache, so that a later request finds an object that was repaired.
	s.forget(end)
	return e
}

// reaches says that a batch behind damage begins at or below the target: all that is damaged lies below it then.
func (s *Scanner) reaches(to *soundBatch) bool {
	if s.byPosition() {
		return to.pos <= s.target.position
	}
	return to.header.BaseOffset <= s.target.offset
}

// stepOver goes on at a batch behind damage.
func (s *Scanner) stepOver(to *soundBatch) error {
	s.pos, s.joinedAt, s.parsed = to.pos, -1, false
	s.last = -1
	if to.adjoins {
		s.last = to.header.BaseOffset - 1
	}
	s.locating = false
	s.Stats.SteppedOver++
	return ErrAgain
}

// timeProof is what lets a search by time step over damaged batches: they hold no record at or after the time. A header
// whose checksum fails is no proof of that alone. But damage lies in one place, so either the header's largest
// timestamp is right or the timestamps of the records are; with LogAppendTime there is but one, and timestamps that
// ascend.
// nil: no time is searched.
type timeProof struct {
	before   int64
	may      bool // one of the batches may hold such a record
	appended bool // one of them has but one timestamp
}

// look notes what a damaged batch, at pos, says.
func (p *timeProof) look(ctx context.Context, s *Scanner, h *segment.Header) (err error) {
	if p != nil && !p.may && h.LastOffset() >= s.target.offset {
		p.appended = p.appended || h.TimestampType() == segment.LogAppendTime
		p.may, err = s.mayHold(ctx, h, p.before)
	}
	return err
}

// holds says that all batches that were looked at, the last of which ends where next begins, lie before the time.
func (p *timeProof) holds(next *segment.Header) bool {
	return p != nil && !p.may && (!p.appended || next.TimestampType() == segment.LogAppendTime && next.MaxTimestamp < p.before)
}

// mayHold says whether the damaged batch at pos may hold a record at or after a time.
func (s *Scanner) mayHold(ctx context.Context, h *segment.Header, time int64) (bool, error) {
	if h.Magic < 2 || h.MaxTimestamp >= time || h.Count == 0 && h.Size() > segment.HeaderSize || !s.joinable(h) {
		return true, nil
	}
	raw, err := s.unchecked(ctx, h)
	if err != nil {
		return false, err
	}
	s.needDecoder()
	defer s.CloseDecoder()
	err = s.decoder.Open(raw)
	var rec segment.Record
	for more := true; err == nil && more; {
		if more, err = s.decoder.Next(&rec); more && rec.Timestamp >= time {
			return true, nil
		}
	}
	return overBudget(err), nil
}

// damagedBytes says that an error is about bytes, which are no sound batch: others are no reason to give bytes up.
func damagedBytes(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind == Damaged
	}
	_, ok := err.(*segment.Error) // not one that a Source's error has as its cause
	return ok
}
