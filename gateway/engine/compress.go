package engine

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// Coding is how a body is compressed on its way (RFC 9110, 8.4).
type Coding uint8

const (
	Identity Coding = iota
	Gzip
	Zstd
	codings
)

func (c Coding) String() string { return [codings]string{"identity", "gzip", "zstd"}[c] }

const (
	// compressFrom is the length from which a body is worth compressing: below it, all fits one packet anyway.
	compressFrom = 1 << 10
	// compressLimit is the most that is compressed at a time; the worst that comes of it fits a buffer.
	compressLimit = 48 << 10
)

// compressors are the compressors of all answers, as many of each kind as there are processors. One is held only while
// it computes, never while a client is waited for, so that their memory, a megabyte or so each, is bounded whatever
// clients do.
type compressors struct {
	deflate chan *flate.Writer // nil: not made yet
	zstd    func() *zstd.Encoder
}

func newCompressors() compressors {
	n := runtime.GOMAXPROCS(0)
	c := compressors{deflate: make(chan *flate.Writer, n), zstd: sync.OnceValue(func() *zstd.Encoder {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(n), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(64<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are constant
		}
		return z
	})}
	for range n {
		c.deflate <- nil
	}
	return c
}

// compressor compresses one body. Each piece is compressed by itself, as a zstd frame of its own or as deflate blocks
// that end at a whole byte, so that it can be sent at once and no compressor's state belongs to a body.
type compressor struct {
	coding  Coding
	out     *Block // nil for Identity
	started bool   // the gzip member's header was given
	crc     uint32
	size    uint32 // modulo 2^32, as gzip wants it
}

func (c *compressor) free() {
	if c.out != nil {
		c.out.Free()
	}
	*c = compressor{}
}

// compress compresses p, at most compressLimit bytes. The result is valid until the next call.
func (c *compressor) compress(with *compressors, p []byte) []byte {
	if c.coding == Zstd {
		return with.zstd().EncodeAll(p, c.out.B[:0])
	}
	w := <-with.deflate
	defer func() { with.deflate <- w }()
	buf := bytes.NewBuffer(c.gzipHeader(c.out.B[:0]))
	if w == nil {
		w, _ = flate.NewWriter(buf, flate.BestSpeed) // the level is valid
	} else {
		w.Reset(buf)
	}
	// A buffer takes everything.
	w.Write(p)
	w.Flush()
	c.crc = crc32.Update(c.crc, crc32.IEEETable, p)
	c.size += uint32(len(p))
	return buf.Bytes()
}

// gzipHeader appends the member's header (RFC 1952) the first time: deflate, no time, unknown system.
func (c *compressor) gzipHeader(dst []byte) []byte {
	if c.started {
		return dst
	}
	c.started = true
	return append(dst, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff)
}

// gzipTrailer gives an empty last block, checksum and length.
func (c *compressor) gzipTrailer() []byte {
	dst := append(c.gzipHeader(c.out.B[:0]), 1, 0, 0, 0xff, 0xff)
	dst = binary.LittleEndian.AppendUint32(dst, c.crc)
	return binary.LittleEndian.AppendUint32(dst, c.size)
}
