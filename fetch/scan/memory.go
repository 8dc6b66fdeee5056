package scan

import (
	"context"
	"errors"

	"coldtap/internal/budget"
)

// callersShare is what a scanner leaves of the decode memory: its caller may hold up to 64 KiB of it while it waits for
// the scanner (the buffer of an ndjson answer), and one that wants all of the rest would wait for its own caller.
const callersShare = 128 << 10

var errDecodeMemory = errors.New("decode memory is in use")

// Memory is what one scanner holds of the decode memory, for batches that have to be joined and for their decoder. It
// is a segment.Budget that refuses instead of waiting, because its user may hold a chunk.
type Memory struct {
	From  *budget.Budget
	Share *budget.Share // of From, whose bytes it holds
	Small bool          // little may come from what From keeps for small reservations: it is held while an answer is made

	// Acquire waits for n bytes of Share. It is called with neither a chunk nor decode memory held, else two scanners
	// could wait for each other.
	Acquire func(ctx context.Context, share *budget.Share, n int64) error

	held    int64 // reserved in From
	reserve int64 // of held, as a small reservation
	used    int64 // of held
	want    int64 // what the refused reservation would have made of used
	keeping bool  // held was waited for: keep what is released until trim
}

// smallGrant is how much one scanner takes of the reserve for small reservations: a batch of the usual size,
// decompressed.
const smallGrant = 256 << 10

// most is what one scanner may come to hold. More is not worth waiting for: it never comes.
func (m *Memory) most() int64 {
	size := m.From.Large()
	return size - min(callersShare, size/8)
}

// hopeless says that what Reserve last refused can't be had, however long one waits.
func (m *Memory) hopeless() bool { return m.want > m.most() }

// Held is how many bytes are held now.
func (m *Memory) Held() int64 { return m.held }

// Reserve takes n bytes if that needs no waiting.
func (m *Memory) Reserve(n int64) error {
	if more := m.used + n - m.held; more > 0 {
		switch {
		case m.used+n > m.most():
			m.want = m.used + n
			return errDecodeMemory
		case m.Share.TryAcquire(more):
		case m.Small && m.reserve+more <= smallGrant && m.From.Small().TryAcquire(more):
			m.reserve += more
		default:
			m.want = m.used + n
			return errDecodeMemory
		}
		m.held += more
	}
	m.used += n
	return nil
}

// lastStep is how many bytes Reserve could still have given when it last refused, before anything was released.
func (m *Memory) lastStep() int64 { return m.most() - m.used }

// Release gives n bytes back.
func (m *Memory) Release(n int64) {
	m.used -= n
	if !m.keeping {
		m.trim()
	}
}

// trim returns what is held but not used.
func (m *Memory) trim() {
	m.keeping = false
	if spare := m.held - m.used; spare > 0 {
		small := min(spare, m.reserve)
		m.From.Small().Release(small)
		m.Share.Release(spare - small)
		m.held -= spare
		m.reserve -= small
	}
}

// handOver takes n used bytes out of the account: who gets them releases them to the share.
func (m *Memory) handOver(n int64) {
	m.used -= n
	m.held -= n
}

// wait reserves what Reserve last refused, which must not be hopeless. Nothing may be held.
func (m *Memory) wait(ctx context.Context) error {
	if err := m.Acquire(ctx, m.Share, m.want); err != nil {
		return err
	}
	m.held, m.keeping = m.want, true
	return nil
}
