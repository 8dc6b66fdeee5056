package aiven

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// BenchmarkOpen compares ReadLog on chunks that are compressed and sealed with the same bytes opened by nothing but
// AES-GCM and zstd into memory that is there already, on one core; ReadLog also has the store's copy to make. The two
// take turns, so that what else the machine does hits both: share/total is of all their time, share/best of the
// quickest turn of each.
func BenchmarkOpen(b *testing.B) {
	const piece = 4 << 20
	log := testLog(4 * piece)
	for _, tt := range []struct{ chunk, piece int }{{256 << 10, piece}, {piece, piece}, {piece, piece / 4}} {
		b.Run(fmt.Sprintf("chunk=%d/piece=%d", tt.chunk, tt.piece), func(b *testing.B) {
			w := &writer{chunk: tt.chunk, compressed: true, keyID: "k1", key: testKey()}
			s := newStand(b, Options{Parallel: 1})
			seg := s.putSegment(w, log)
			stored, sizes := w.store(log)
			m, _, err := s.manifest(b.Context(), seg)
			if err != nil {
				b.Fatal(err)
			}
			z, err := newDecoder()
			if err != nil {
				b.Fatal(err)
			}
			defer z.Close()
			plain, out := make([]byte, 0, 2*tt.chunk), make([]byte, 0, tt.chunk+64)
			bare := func() {
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
			dst := make([]byte, tt.piece)
			read := func() {
				for off := 0; off < len(log); off += tt.piece {
					if _, err := s.ReadLog(b.Context(), seg, dst, int64(off)); err != nil {
						b.Fatal(err)
					}
				}
				s.space.drop(seg.Key()) // or chunks larger than a piece stay open
			}
			var total, best [2]time.Duration
			b.SetBytes(2 * int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				for i, turn := range []func(){bare, read} {
					start := time.Now()
					turn()
					took := time.Since(start)
					total[i] += took
					if best[i] == 0 || took < best[i] {
						best[i] = took
					}
				}
			}
			if !bytes.Equal(dst, log[len(log)-tt.piece:]) {
				b.Fatal("wrong bytes")
			}
			b.ReportMetric(float64(total[0])/float64(total[1]), "share/total")
			b.ReportMetric(float64(best[0])/float64(best[1]), "share/best")
		})
	}
}
