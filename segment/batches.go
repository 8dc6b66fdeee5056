package segment

import "iter"

// Batch is one entry of a log.
type Batch struct {
	Header   Header
	Position int64  // of the first byte, in the log
	Bytes    []byte // the whole entry, a view
}

// Batches walks the entries of a log, or of a piece that starts at an entry, by header arithmetic alone: no CRC is
// checked and nothing is decompressed. It ends after the last whole entry, or with one error: Truncated for a cut
// entry, Corrupt for bytes that are none (a zero-filled tail is Corrupt). Batch.Position is right beside an error.
func Batches(log []byte) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for at := int64(0); at < int64(len(log)); {
			b := Batch{Position: at}
			rest := log[at:]
			var err error
			// maxEntrySize accepts every length, so that a cut entry is no error of ParseHeader; it is found below.
			if b.Header, err = ParseHeader(rest, maxEntrySize); err == nil && b.Header.Size() > int64(len(rest)) {
				err = fail(Truncated, "batch", at, "%d bytes of %d at offset %d",
					len(rest), b.Header.Size(), b.Header.BaseOffset)
			}
			if err != nil {
				yield(b, err)
				return
			}
			b.Bytes = rest[:b.Header.Size():b.Header.Size()]
			if !yield(b, nil) {
				return
			}
			at += b.Header.Size()
		}
	}
}

// maxEntrySize is what the largest length field can claim, for callers whose bytes are the limit.
const maxEntrySize = 1<<31 - 1 + lengthEnd
