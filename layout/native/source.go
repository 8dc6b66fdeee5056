package native

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync"

	"coldtap/rangeio"
)

// ErrSourceChanged says that a log is not, or no longer, the file that its checksum was made of.
var ErrSourceChanged = errors.New("the log file changed while it was copied")

const (
	// checkBlock is the unit of comparison: 32 KiB is what io.Copy reads at a time, so most reads are whole blocks and
	// nothing is read twice. 8 bytes a block make 256 KiB for a log of 1 GiB.
	checkBlock = 32 << 10
	checkRead  = 1 << 20 // bytes per read in the first pass, a multiple of checkBlock
)

// checkedLog is a log whose SHA-256 was right in one pass, and whose blocks are compared with that pass whenever they
// are read. It may be read concurrently, in any order and repeatedly, as clients of object stores do.
type checkedLog struct {
	src    rangeio.Content
	size   int64
	seed   maphash.Seed
	sums   []uint64 // one per block
	blocks sync.Pool

	mu  sync.Mutex
	err error // the first failure; from then on every read fails
}

// checkLog reads the log once and compares it with the caller's sum.
func checkLog(ctx context.Context, src rangeio.Content, size int64, sha256Hex string) (*checkedLog, error) {
	if n := src.Size(); n != size {
		return nil, fmt.Errorf("%w: it has %d bytes, expected are %d", ErrSourceChanged, n, size)
	}
	c := &checkedLog{src: src, size: size, seed: maphash.MakeSeed()}
	c.blocks.New = func() any { return new([checkBlock]byte) }
	sum := sha256.New()
	buf := make([]byte, min(size, checkRead))
	for off := int64(0); off < size; off += checkRead {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := buf[:min(size-off, checkRead)]
		if err := c.readSource(b, off); err != nil {
			return nil, err
		}
		sum.Write(b)
		for i := 0; i < len(b); i += checkBlock {
			c.sums = append(c.sums, maphash.Bytes(c.seed, b[i:min(i+checkBlock, len(b))]))
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != sha256Hex {
		return nil, fmt.Errorf("%w: its SHA-256 is %s, expected is %s", ErrSourceChanged, got, sha256Hex)
	}
	return c, nil
}

// Size implements rangeio.Content.
func (c *checkedLog) Size() int64 { return c.size }

// ReadAt implements io.ReaderAt. It gives no byte that differs from the first pass without an error.
func (c *checkedLog) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if err := c.failure(); err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) && off < c.size {
		n, err := c.readSome(p[done:], off)
		if err != nil {
			return done, c.fail(err)
		}
		done += n
		off += int64(n)
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// failure is the first error of any read, nil when all was well.
func (c *checkedLog) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *checkedLog) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	return c.err
}

// readSome reads whole blocks straight into p if off begins one and p holds it, else a part of one block.
func (c *checkedLog) readSome(p []byte, off int64) (int, error) {
	first, skip := off/checkBlock, int(off%checkBlock)
	whole := int64(len(p)) / checkBlock * checkBlock
	if int64(len(p)) >= c.size-off {
		whole = c.size - off
	}
	if skip == 0 && whole > 0 {
		return int(whole), c.readBlocks(p[:whole], first)
	}
	block := c.blocks.Get().(*[checkBlock]byte)
	defer c.blocks.Put(block)
	b := block[:min(c.size-first*checkBlock, checkBlock)]
	if err := c.readBlocks(b, first); err != nil {
		return 0, err
	}
	return copy(p, b[skip:]), nil
}

// readBlocks fills p, which begins at block first and ends with a block, and compares it.
func (c *checkedLog) readBlocks(p []byte, first int64) error {
	if err := c.readSource(p, first*checkBlock); err != nil {
		return err
	}
	for i := int64(0); len(p) > 0; i++ {
		b := p[:min(len(p), checkBlock)]
		if maphash.Bytes(c.seed, b) != c.sums[first+i] {
			return fmt.Errorf("%w: at byte %d", ErrSourceChanged, (first+i)*checkBlock)
		}
		p = p[len(b):]
	}
	return nil
}

func (c *checkedLog) readSource(p []byte, off int64) error {
	n, err := c.src.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends at byte %d, expected are %d", ErrSourceChanged, off+int64(n), c.size)
	}
	return err
}
