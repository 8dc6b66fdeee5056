package engine

import (
	"bytes"
	"testing"

	"coldtap/internal/budget"
)

// TestIncompressiblePieceFits: noise takes more room compressed than plain, and has it.
func TestIncompressiblePieceFits(t *testing.T) {
	c, share := newCompressors(), budget.New(BufferSize).General()
	noise := make([]byte, compressLimit)
	x := uint32(1)
	for i := range noise {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	for _, coding := range []Coding{Gzip, Zstd} {
		s := compressor{coding: coding, out: TryBlock(share, BufferSize)}
		first := s.compress(&c, noise)
		if len(first)+100 > BufferSize || &first[0] != &s.out.B[:1][0] {
			t.Errorf("%v: %d bytes, or outside the buffer", coding, len(first))
		}
		s.free()
	}
}

func BenchmarkCompression(b *testing.B) {
	c := newCompressors()
	piece := bytes.Repeat([]byte(`{"topic":"orders","partition":3,"offset":10,"timestamp":1700000000010,"value":"abcdefgh"}`+"\n"), compressLimit/90)
	for _, coding := range []Coding{Gzip, Zstd} {
		b.Run(coding.String(), func(b *testing.B) {
			s := compressor{coding: coding, out: TryBlock(budget.New(BufferSize).General(), BufferSize)}
			defer s.free()
			b.SetBytes(int64(len(piece)))
			b.ReportAllocs()
			for b.Loop() {
				s.compress(&c, piece)
			}
		})
	}
}
