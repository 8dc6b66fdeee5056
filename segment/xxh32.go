package segment

import (
	"encoding/binary"
	"math/bits"
)

const (
	xxh32Prime1 = 0x9e3779b1
	xxh32Prime2 = 0x85ebca77
	xxh32Prime3 = 0xc2b2ae3d
	xxh32Prime4 = 0x27d4eb2f
	xxh32Prime5 = 0x165667b1
)

// xxh32 is XXH32 with seed 0, the checksum of LZ4 frames.
func xxh32(b []byte) uint32 {
	h := uint32(xxh32Prime5)
	n := uint32(len(b))
	if len(b) >= 16 {
		lanes := [4]uint32{xxh32Prime1, xxh32Prime2, 0, 0}
		lanes[0] += lanes[1]
		lanes[3] -= xxh32Prime1
		for ; len(b) >= 16; b = b[16:] {
			for i := range lanes {
				lanes[i] = bits.RotateLeft32(lanes[i]+binary.LittleEndian.Uint32(b[4*i:])*xxh32Prime2, 13) * xxh32Prime1
			}
		}
		h = 0
		for i, turn := range [4]int{1, 7, 12, 18} {
			h += bits.RotateLeft32(lanes[i], turn)
		}
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxh32Prime3, 17) * xxh32Prime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxh32Prime5, 11) * xxh32Prime1
	}
	h = (h ^ h>>15) * xxh32Prime2
	h = (h ^ h>>13) * xxh32Prime3
	return h ^ h>>16
}
