package engine

import (
	"slices"
	"sync"

	"coldtap/internal/budget"
)

// BlockSizes are the usual lengths of blocks. An answer that grows by them in turn stays small if it is small, takes
// few blocks if it is large, and is never copied.
var BlockSizes = [...]int{16 << 10, BufferSize, 256 << 10, 1 << 20}

// BufferSize is the length of the block that a stream of text is encoded into, and of the one that it is compressed
// into: 1,000 of them are 64 MiB.
const BufferSize = 64 << 10

// Block is a piece of an answer's memory. Blocks of the usual lengths are pooled.
type Block struct {
	B     []byte // empty; to be appended to, up to its capacity
	share *budget.Share
	size  int // reserved of share
}

var blockPools [len(BlockSizes)]sync.Pool

// NewBlock gives an empty block of size bytes that were reserved from share; Free gives them back.
func NewBlock(share *budget.Share, size int) *Block {
	if i := slices.Index(BlockSizes[:], size); i >= 0 {
		if b, ok := blockPools[i].Get().(*Block); ok {
			b.share = share
			return b
		}
	}
	return &Block{make([]byte, 0, size), share, size}
}

// TryBlock reserves a block, nil if share does not have the memory now.
func TryBlock(share *budget.Share, size int) *Block {
	if !share.TryAcquire(int64(size)) {
		return nil
	}
	return NewBlock(share, size)
}

// Memory is what a holder of the block holds.
func (b *Block) Memory() Memory { return Memory(b.share.Set()) }

// Free gives the block and its reservation back.
func (b *Block) Free() {
	share, size := b.share, b.size
	b.B, b.share = b.B[:0], nil
	if i := slices.Index(BlockSizes[:], cap(b.B)); i >= 0 {
		b.size = cap(b.B)
		blockPools[i].Put(b)
	}
	share.Release(int64(size))
}
