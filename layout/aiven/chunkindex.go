package aiven

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	nonceSize = 12
	tagSize   = 16
	sealSize  = nonceSize + tagSize // what sealing adds to a chunk or file

	// maxChunks bounds an index to 8 MiB of memory. A segment of 1 GiB has 256 chunks at the recommended 4 MiB, and would
	// reach the bound with chunks of 1 KiB.
	maxChunks = 1 << 20
)

// chunkIndex says where each stored chunk lies in the .log object. Chunk i holds the log bytes from i*chunk on.
type chunkIndex struct {
	chunk int64 // log bytes of every chunk but the last
	file  int64 // bytes of the log
	count int

	// Chunks that are not compressed all have one stored length but the last.
	stored, last int64
	// Where those that are compressed begin, and at [count] where the last one ends; nil for the others.
	starts []int64
}

// span gives where chunks first to last (inclusive) lie in the object.
func (x *chunkIndex) span(first, last int) (from, to int64) {
	if x.starts != nil {
		return x.starts[first], x.starts[last+1]
	}
	from, to = int64(first)*x.stored, int64(last+1)*x.stored
	if last == x.count-1 {
		to = int64(last)*x.stored + x.last
	}
	return from, to
}

// total is the size of the object.
func (x *chunkIndex) total() int64 {
	if x.count == 0 {
		return 0
	}
	_, to := x.span(x.count-1, x.count-1)
	return to
}

// covers gives the log bytes [from, to) of chunk i.
func (x *chunkIndex) covers(i int) (from, to int64) {
	from = int64(i) * x.chunk
	return from, min(from+x.chunk, x.file)
}

// newChunkIndex checks the two sizes that both kinds of index have.
func newChunkIndex(chunk, file int64) (chunkIndex, error) {
	if chunk < 1 || chunk > math.MaxInt32 || file < 0 || file > math.MaxInt32 {
		return chunkIndex{}, fmt.Errorf("chunks of %d bytes of a log of %d", chunk, file)
	}
	count := (file + chunk - 1) / chunk
	if count > maxChunks {
		return chunkIndex{}, fmt.Errorf("%d chunks, at most %d are allowed", count, maxChunks)
	}
	return chunkIndex{chunk: chunk, file: file, count: int(count)}, nil
}

// setFixed is for chunks that are not compressed. The claimed lengths must be the only possible ones.
func (x *chunkIndex) setFixed(stored, last int64, sealed bool) error {
	if x.count == 0 {
		return nil // the plugin describes a log without bytes as one empty chunk
	}
	from, to := x.covers(x.count - 1)
	x.stored, x.last = x.chunk, to-from
	if sealed {
		x.stored += sealSize
		x.last += sealSize
	}
	if stored != x.stored || last != x.last {
		return fmt.Errorf("stored chunks of %d and at the end %d bytes, they must have %d and %d", stored, last, x.stored, x.last)
	}
	return nil
}

// setVariable is for compressed chunks; text is the list of their stored lengths.
func (x *chunkIndex) setVariable(text string, sealed bool) error {
	if x.count == 0 {
		return nil
	}
	sizes, err := decodeSizes(text, x.count)
	if err != nil {
		return fmt.Errorf("list of chunks: %w", err)
	}
	least, most := int64(1), mostStored(x.chunk)
	if sealed {
		least += sealSize
		most += sealSize
	}
	x.starts = make([]int64, x.count+1)
	for i := range x.count {
		size := sizes.at(i)
		if size < least || size > most {
			return fmt.Errorf("list of chunks: chunk %d of %d bytes is stored in %d", i, x.chunk, size)
		}
		x.starts[i+1] = x.starts[i] + size
	}
	return nil
}

// mostStored is more than zstd makes of chunk bytes that do not shrink (ZSTD_compressBound adds 1/256).
func mostStored(chunk int64) int64 { return chunk + chunk/16 + 1024 }

// sizeList is the plugin's list of lengths, unpacked (ChunkSizesBinaryCodec): a base and a delta of a few bytes for
// each length but the last, which is there in full.
type sizeList struct {
	count      int
	base, last int64
	width      int // of a delta
	deltas     []byte
}

func (s *sizeList) at(i int) int64 {
	if i == s.count-1 {
		return s.last
	}
	var delta uint32
	for _, b := range s.deltas[i*s.width : (i+1)*s.width] {
		delta = delta<<8 | uint32(b)
	}
	return s.base + int64(delta)
}

// listDecoders unpack lists: an archive is read by going through all of its manifests.
var listDecoders = sync.Pool{New: func() any {
	z, err := newDecoder()
	if err != nil {
		panic(err) // the options are constants
	}
	return z
}}

var sizesText = base64.StdEncoding.Strict()

// decodeSizes unpacks a list that must have count ≥ 1 lengths.
func decodeSizes(text string, count int) (sizeList, error) {
	frame, err := sizesText.DecodeString(text)
	if err != nil {
		return sizeList{}, err
	}
	var h zstd.Header
	if err := h.Decode(frame); err != nil {
		return sizeList{}, err
	}
	if most := 13 + 4*uint64(count-1); !h.HasFCS || h.FrameContentSize > most {
		return sizeList{}, fmt.Errorf("unpacks to %d bytes, at most %d can be right", h.FrameContentSize, most)
	}
	z := listDecoders.Get().(*zstd.Decoder)
	defer listDecoders.Put(z)
	b, err := z.DecodeAll(frame, make([]byte, 0, h.FrameContentSize))
	if err != nil {
		return sizeList{}, err
	}
	return parseSizes(b, count)
}

func parseSizes(b []byte, count int) (sizeList, error) {
	if len(b) < 8 {
		return sizeList{}, errors.New("cut off")
	}
	if n := binary.BigEndian.Uint32(b); uint64(n) != uint64(count) {
		return sizeList{}, fmt.Errorf("%d lengths for %d chunks", n, count)
	}
	s := sizeList{count: count, base: int64(int32(binary.BigEndian.Uint32(b[4:])))}
	if count == 1 {
		if len(b) != 8 {
			return sizeList{}, fmt.Errorf("%d bytes for one length", len(b))
		}
		s.last = s.base
		return s, nil
	}
	if len(b) < 13 {
		return sizeList{}, errors.New("cut off")
	}
	s.width = int(b[8])
	if s.width < 1 || s.width > 4 || len(b) != 13+(count-1)*s.width {
		return sizeList{}, fmt.Errorf("%d bytes for %d lengths of width %d", len(b), count, s.width)
	}
	s.deltas = b[9 : len(b)-4]
	s.last = int64(int32(binary.BigEndian.Uint32(b[len(b)-4:])))
	return s, nil
}
