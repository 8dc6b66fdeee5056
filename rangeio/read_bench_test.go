package rangeio_test

import (
	"bytes"
	"context"
	"testing"

	"coldtap/internal/testing/fakes3"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

// BenchmarkReadRange reads chunks of 4 MiB over loopback; allocations are the SDK's and net/http's, per chunk.
func BenchmarkReadRange(b *testing.B) {
	const chunk = 4 << 20
	s := fakes3.New(b)
	store := s.Backend(b)
	content := rangeiotest.Bytes(1, 4*chunk)
	if _, err := store.Put(context.Background(), "o", bytes.NewReader(content)); err != nil {
		b.Fatal(err)
	}
	client, dst := rangeio.NewClient(store, rangeio.Config{}), make([]byte, chunk)
	b.SetBytes(chunk)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, _, err := client.ReadRange(context.Background(), "o", dst, int64(i%4)*chunk, "", int64(len(content))); err != nil {
			b.Fatal(err)
		}
	}
}
