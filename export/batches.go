package export

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"coldtap/segment"
)

const (
	// maxBatch bounds a stored batch. Kafka's own bound is a segment, but brokers' message.max.bytes is a few MiB.
	maxBatch = 256 << 20
	// maxDecoded bounds a decompressed batch.
	maxDecoded = 1 << 30
)

// batchReader cuts a body into batches and checks each one's CRC. Memory follows the bytes that come, not a length that
// a header claims.
type batchReader struct {
	from *bufio.Reader
	buf  bytes.Buffer
}

// next gives the next batch, valid until the next call. io.EOF: the body ended behind a whole batch;
// io.ErrUnexpectedEOF, or another error of the body: within one; *segment.Error: these bytes are no batch.
func (r *batchReader) next() (b segment.Batch, err error) {
	start, err := r.from.Peek(segment.HeaderSize)
	if len(start) == 0 {
		return b, err
	}
	if b.Header, err = segment.ParseHeader(start, maxBatch); err != nil {
		if e, ok := errors.AsType[*segment.Error](err); ok && e.Kind == segment.Truncated {
			return b, io.ErrUnexpectedEOF
		}
		return b, err
	}
	r.buf.Reset()
	if _, err := io.CopyN(&r.buf, r.from, b.Header.Size()); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return b, err
	}
	b.Bytes = r.buf.Bytes()
	return b, segment.VerifyCRC(&b.Header, b.Bytes)
}
