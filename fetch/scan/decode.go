package scan

import (
	"context"
	"errors"

	"coldtap/segment"
)

// reserve takes decode memory, letting go of everything else first if that needs waiting.
func (s *Scanner) reserve(ctx context.Context, n int64) error {
	if s.Memory.Reserve(n) == nil {
		return nil
	}
	// What an earlier batch left behind goes first.
	s.unpin()
	s.CloseDecoder()
	if s.Memory.Reserve(n) == nil {
		return nil
	}
	if err := s.waitForMemory(ctx); err != nil {
		return err
	}
	err := s.Memory.Reserve(n)
	s.Memory.trim()
	return err
}

// waitForMemory waits for the decode memory that was last refused, with nothing held: chunks, the joined batch and the
// decoder's buffer are let go.
func (s *Scanner) waitForMemory(ctx context.Context) error {
	s.Release()
	if s.Memory.hopeless() {
		return s.tooLarge(nil)
	}
	return s.Memory.wait(ctx)
}

// CloseDecoder gives back what the decoder keeps. What Record gave last is no longer valid.
func (s *Scanner) CloseDecoder() {
	if s.decoder != nil {
		s.decoder.Close()
	}
	s.decoder = s.usual
}

// needDecoder makes the decoder: a range of a file mostly decodes nothing.
func (s *Scanner) needDecoder() {
	if s.usual == nil {
		s.usual = segment.NewDecoder(s.Memory.From.Size()/2, &s.Memory)
		s.decoder = s.usual
	}
}

// Open starts to decode the batch that Check found sound: Record gives its records, which are views of what the scanner
// holds. Errors are those of Check; TooLarge when there never is memory enough, and Damaged when the records cannot be
// decoded although their checksum is right.
func (s *Scanner) Open(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return s.repair(ctx, err)
	}
	return nil
}

func (s *Scanner) open(ctx context.Context) error {
	if s.decoder != s.usual {
		s.CloseDecoder()
	}
	s.needDecoder()
	for fresh := false; ; {
		b, err := s.batch(ctx, ToDecode)
		if err != nil {
			return err
		}
		err = s.decoder.Open(b.first)
		switch {
		case !overBudget(err):
			s.Memory.trim()
			return err
		case !s.Memory.hopeless():
			if err := s.waitForMemory(ctx); err != nil {
				return err
			}
		case !fresh:
			// What an earlier batch left behind goes first.
			fresh = true
			s.CloseDecoder()
		case s.decoder == s.usual && s.Memory.lastStep() > 0:
			// The buffer doubles, and here the next step is too wide. A bound that the old and the new buffer fit under
			// together makes it narrower.
			limit := s.Memory.lastStep()
			s.CloseDecoder()
			s.decoder = segment.NewDecoder(limit, &s.Memory)
		default:
			return s.tooLarge(err)
		}
	}
}

// Record gives the next record of the open batch; false behind the last one. restarted says that decode memory had to
// be waited for, so that records come again from the batch's first one on, beginning with the next call. Errors are
// those of Open.
func (s *Scanner) Record(ctx context.Context, rec *segment.Record) (more, restarted bool, err error) {
	more, err = s.decoder.Next(rec)
	if err == nil {
		return more, false, nil
	}
	if overBudget(err) {
		if err = s.waitForMemory(ctx); err == nil {
			if err = s.open(ctx); err == nil {
				return false, true, nil
			}
		}
	}
	return false, false, s.repair(ctx, err)
}

// Rewind makes Record begin with the first record of the open batch again.
func (s *Scanner) Rewind() { s.decoder.Rewind() }

// overBudget says that a decoder stopped for want of decode memory only.
func overBudget(err error) bool {
	e, ok := errors.AsType[*segment.Error](err)
	return ok && e.Kind == segment.OverBudget
}
