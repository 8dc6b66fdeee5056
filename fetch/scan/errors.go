package scan

import (
	"errors"
	"fmt"

	"coldtap/segment"
)

// Kind classifies an Error.
type Kind uint8

const (
	Damaged  Kind = iota + 1 // the log contradicts its checksums or itself
	TooLarge                 // a sound batch that can't be joined or decoded in the decode memory
	Changed                  // the store gives other bytes of a batch than those that were checked
	Lost                     // only of a Source: what the store has can't be made into log bytes
)

// Error says what is wrong with a batch. Only Changed may go away when the same is asked again.
type Error struct {
	Kind       Kind
	Detail     string
	Position   int64 // of the batch in the log, or of the bytes that are lost
	NextOffset int64 // where a reader goes on behind the batch; -1 = not known
	Err        error

	doubt bool  // of Damaged: seen in bytes that no checksum has confirmed
	past  int64 // of Damaged: log position below which bytes cannot be had from the store at all, 0 = they can
}

// Error gives the detail, where it is, and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (position %d): %v", e.Detail, e.Position, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// fault makes an *Error of what reading the batch at pos ended with; nil when the bytes are not what is wrong. Damage
// is in doubt while it shows in bytes that no checksum has confirmed: other bytes may come of another read.
func (s *Scanner) fault(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	bytes, ok := err.(*segment.Error) // not one that a Source's error has as its cause
	if !ok {
		return nil
	}
	if bytes.Kind == segment.TooLarge && s.proven == s.pos {
		return s.tooLarge(err)
	}
	e := s.failure(Damaged, err, "damaged batch")
	e.doubt = s.proven != s.pos
	if bytes.Kind == segment.TooLarge {
		e.Detail = "damaged: a batch reaches beyond the log"
	}
	return e
}

// failure makes an error about the batch at pos.
func (s *Scanner) failure(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...), Position: s.pos, NextOffset: -1, Err: cause}
}

// doubtful reports damage of the batch at pos that another read of the same bytes may not show.
func (s *Scanner) doubtful(format string, args ...any) *Error {
	e := s.failure(Damaged, nil, format, args...)
	e.doubt = true
	return e
}

// tooLarge reports a sound batch for whose records there never is memory enough.
func (s *Scanner) tooLarge(cause error) *Error {
	return s.failure(TooLarge, cause, "the batch is too large to decode here: it takes more than the %d bytes that one answer may have "+
		"of limits.decode_memory (%d bytes)", s.Memory.most(), s.Memory.From.Size())
}
