package cache

import "testing"

// BenchmarkHit is the hit path on all cores: look-up, reference, frequency count, release.
func BenchmarkHit(b *testing.B) {
	c, st := open(b, 256), &store{}
	keys := make([]Key, 128)
	for n := range keys {
		r := st.chunkOf(1, n)
		mustRead(b, c, r)
		keys[n] = r.Key
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if ch, ok := c.TryAcquire(keys[n%len(keys)]); ok {
				ch.Release()
			}
		}
	})
}

// BenchmarkScan is what a load costs the cache beside its bytes: slab, flight, window, ristretto, eviction.
func BenchmarkScan(b *testing.B) {
	c, st := open(b, 64), &store{}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		mustRead(b, c, st.chunkOf(1, n))
	}
}
