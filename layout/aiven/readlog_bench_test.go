package aiven

import (
	"bytes"
	"fmt"
	"testing"
)

// BenchmarkOpen compares ReadLog on chunks that are compressed and sealed with the same bytes opened by nothing but
// AES-GCM and zstd into memory that is there already, on one core; ReadLog also has the store's copy to make.
func BenchmarkOpen(b *testing.B) {
	const piece = 4 << 20
	log := testLog(4 * piece)
	for _, chunk := range []int{256 << 10, 4 << 20} {
		w := &writer{chunk: chunk, compressed: true, keyID: "k1", key: testKey()}
		s := newStand(b, Options{Parallel: 1})
		seg := s.putSegment(w, log)
		stored, sizes := w.store(log)
		m, _, err := s.manifest(b.Context(), seg)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("bare/chunk=%d", chunk), func(b *testing.B) {
			z, err := newDecoder()
			if err != nil {
				b.Fatal(err)
			}
			defer z.Close()
			plain, out := make([]byte, 0, 2*chunk), make([]byte, 0, chunk+64)
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				at := 0
				for _, n := range sizes {
					sealed := stored[at : at+n]
					at += n
					frame, err := m.aead.Open(plain, sealed[:nonceSize], sealed[nonceSize:], w.aad)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := z.DecodeAll(frame, out); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		for _, size := range []int{piece, piece / 4} {
			b.Run(fmt.Sprintf("readlog/chunk=%d/piece=%d", chunk, size), func(b *testing.B) {
				dst := make([]byte, size)
				b.SetBytes(int64(len(log)))
				b.ReportAllocs()
				for b.Loop() {
					for off := 0; off < len(log); off += size {
						if _, err := s.ReadLog(b.Context(), seg, dst, int64(off)); err != nil {
							b.Fatal(err)
						}
					}
					s.space.drop(keyOf(seg)) // or chunks larger than a piece stay open
				}
				if !bytes.Equal(dst, log[len(log)-size:]) {
					b.Fatal("wrong bytes")
				}
			})
		}
	}
}
