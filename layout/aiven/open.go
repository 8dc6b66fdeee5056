package aiven

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// errSeal says that stored bytes are not what was sealed with the segment's data key.
var errSeal = errors.New("fails authentication")

// opener opens stored chunks, at most as many at a time, over all reads, as it has decoders.
type opener struct {
	decoders chan *zstd.Decoder
}

// newDecoder makes a decoder for DecodeAll alone, which uses the output as its window: 0.4 MiB, whatever window a frame
// asks for. The output's capacity is the limit of what it unpacks.
func newDecoder() (*zstd.Decoder, error) {
	// The plugin's frames have one segment, so their window is the chunk: up to 1 GiB.
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(1<<31))
}

func newOpener(parallel int) (*opener, error) {
	o := &opener{decoders: make(chan *zstd.Decoder, parallel)}
	for range parallel {
		z, err := newDecoder()
		if err != nil {
			return nil, err
		}
		o.decoders <- z
	}
	return o, nil
}

// unit is one stored chunk and where it opens to; out has exactly the chunk's length.
type unit struct {
	chunk       int
	stored, out []byte // stored is overwritten
}

// openAll opens units, in parallel while decoders are free. It waits for one, not for more: what others leave is enough
// to go on. On error nothing in any out can be used.
func (o *opener) openAll(ctx context.Context, m *manifestEntry, units []unit) error {
	var z *zstd.Decoder
	select {
	case z = <-o.decoders:
	case <-ctx.Done():
		return ctx.Err()
	}
	var (
		next   atomic.Int64
		failed atomic.Pointer[error]
		rest   sync.WaitGroup
	)
	work := func(z *zstd.Decoder) {
		defer func() { o.decoders <- z }()
		for failed.Load() == nil && ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(units) {
				return
			}
			if err := m.openUnit(z, &units[i]); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		}
	}
	for range len(units) - 1 {
		select {
		case other := <-o.decoders:
			rest.Go(func() { work(other) })
			continue
		default:
		}
		break
	}
	work(z)
	rest.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// openUnit opens one chunk. A panic of a decoder over hostile bytes is an error like another.
func (m *manifestEntry) openUnit(z *zstd.Decoder, u *unit) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("chunk %d: %v", u.chunk, p)
		}
	}()
	b := u.stored
	if m.Encrypted {
		out := u.out[:0:len(u.out)]
		if m.Compressed {
			out = nil // in place, since the decoder needs it only once
		}
		if b, err = unseal(m.aead, m.seal.aad, b, out); err != nil {
			return fmt.Errorf("chunk %d: %w", u.chunk, err)
		}
	}
	if m.Compressed {
		if b, err = unpack(z, b, u.out); err != nil {
			return fmt.Errorf("chunk %d: %w", u.chunk, err)
		}
	}
	if len(b) != len(u.out) || &b[0] != &u.out[0] {
		return fmt.Errorf("chunk %d opens to %d bytes instead of %d", u.chunk, len(b), len(u.out))
	}
	return nil
}

// unseal opens what was sealed into out, or in place when out is nil.
func unseal(aead cipher.AEAD, aad, sealed, out []byte) ([]byte, error) {
	if len(sealed) < sealSize {
		return nil, fmt.Errorf("%w: %d bytes cannot hold nonce and tag", errSeal, len(sealed))
	}
	nonce, text := sealed[:nonceSize], sealed[nonceSize:]
	if out == nil {
		out = text[:0]
	}
	b, err := aead.Open(out, nonce, text, aad)
	if err != nil {
		return nil, errSeal
	}
	return b, nil
}

// unpack decompresses the one frame that a chunk is, and demands that the frame says how long it will get before a byte
// is decompressed, as every frame of the plugin does.
func unpack(z *zstd.Decoder, frame, out []byte) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(frame); err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	if h.Skippable || !h.HasFCS || h.FrameContentSize != uint64(len(out)) || h.DictionaryID != 0 {
		return nil, fmt.Errorf("zstd: frame of %d bytes where %d belong", h.FrameContentSize, len(out))
	}
	// A frame that holds more than it says fails, but where its last block is a stored one the decoder has appended that
	// first, and so made a copy of the chunk for a moment, outside of the workspace.
	b, err := z.DecodeAll(frame, out[:0:len(out)])
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return b, nil
}
