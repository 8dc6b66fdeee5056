package gateway

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// coding is how a body is compressed on its way (RFC 9110, 8.4).
type coding uint8

const (
	identity coding = iota
	codingGzip
	codingZstd
)

func (c coding) String() string { return [...]string{"identity", "gzip", "zstd"}[c] }

const (
	// squeezeFrom is the length from which a body is worth compressing: below it, all fits one packet anyway.
	squeezeFrom = 1 << 10
	// squeezeLimit is the most that is compressed at a time; what comes of it fits a line buffer at the worst.
	squeezeLimit = 48 << 10
)

// negotiateCoding picks the coding for an Accept-Encoding header. zstd is taken only where it is named, and preferred
// there: it is faster and smaller than gzip at the levels used.
func negotiateCoding(accept []byte) coding {
	if len(accept) == 0 {
		return identity
	}
	const unnamed = -1
	quality, anything := [...]int{identity: unnamed, codingGzip: unnamed, codingZstd: unnamed}, 0
	for len(accept) > 0 {
		var item []byte
		item, accept, _ = bytes.Cut(accept, []byte{','})
		name, parameters, _ := bytes.Cut(item, []byte{';'})
		name = bytes.TrimSpace(name)
		q := qualityOf(parameters)
		switch {
		case equalFold(name, "gzip"), equalFold(name, "x-gzip"):
			quality[codingGzip] = q
		case equalFold(name, "zstd"):
			quality[codingZstd] = q
		case equalFold(name, "identity"):
			quality[identity] = q
		case string(name) == "*":
			anything = q
		}
	}
	if quality[codingGzip] == unnamed {
		quality[codingGzip] = anything
	}
	best := codingGzip
	if quality[codingZstd] >= quality[codingGzip] {
		best = codingZstd
	}
	if quality[best] <= 0 || quality[best] < quality[identity] {
		return identity
	}
	return best
}

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

// squeeze is one body's compression. Each piece is compressed by itself, as a zstd frame of its own or as deflate
// blocks that end at a whole byte, so that it can be sent at once and no compressor's state belongs to a body.
type squeeze struct {
	coding coding
	out    *[lineBuffer]byte
	begun  bool
	crc    uint32
	size   uint32 // modulo 2^32, as gzip wants it
}

func (s *squeeze) start(c coding) {
	*s = squeeze{coding: c, out: lineBuffers.Get().(*[lineBuffer]byte)}
}

func (s *squeeze) free() {
	lineBuffers.Put(s.out)
	*s = squeeze{}
}

// piece compresses p, at most squeezeLimit bytes. The result is valid until the next call.
func (s *squeeze) piece(c *compressors, p []byte) []byte {
	if s.coding == codingZstd {
		return c.zstd().EncodeAll(p, s.out[:0])
	}
	w := <-c.deflate
	defer func() { c.deflate <- w }()
	buf := bytes.NewBuffer(s.gzipBegin(s.out[:0]))
	if w == nil {
		w, _ = flate.NewWriter(buf, flate.BestSpeed) // the level is valid
	} else {
		w.Reset(buf)
	}
	// A buffer takes everything.
	w.Write(p)
	w.Flush()
	s.crc = crc32.Update(s.crc, crc32.IEEETable, p)
	s.size += uint32(len(p))
	return buf.Bytes()
}

// gzipBegin appends the member's header (RFC 1952) once: deflate, no time, unknown system.
func (s *squeeze) gzipBegin(dst []byte) []byte {
	if s.begun {
		return dst
	}
	s.begun = true
	return append(dst, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff)
}

// gzipEnd gives an empty last block, checksum and length.
func (s *squeeze) gzipEnd() []byte {
	dst := append(s.gzipBegin(s.out[:0]), 1, 0, 0, 0xff, 0xff)
	dst = binary.LittleEndian.AppendUint32(dst, s.crc)
	return binary.LittleEndian.AppendUint32(dst, s.size)
}
