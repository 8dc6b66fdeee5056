package inspect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"io"
	"testing"
	"time"

	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// BenchmarkDeep verifies a segment of 128 MiB with one worker, and in the same round takes CRC-32C and SHA-256 of the
// same bytes in memory: "of-bare" is the first speed over the second. The goal is 0.6 on one core (GOMAXPROCS=1).
func BenchmarkDeep(b *testing.B) {
	const want = 128 << 20
	one, size := newTiled(b, 1)
	x, size := newTiled(b, int(want/size))
	span := one.span
	log, err := io.ReadAll(x)
	if err != nil {
		b.Fatal(err)
	}
	sum := sha256.Sum256(log)
	backend, err := rangeio.OpenFile(b.TempDir(), true)
	if err != nil {
		b.Fatal(err)
	}
	defer backend.Close()
	store := rangeio.NewClient(backend, rangeio.Config{})
	layout := native.New(store, "")
	seg := &tier.Segment{
		ID: segment.UUID{1}, Partition: tier.PartitionID{Topic: segment.UUID{2}}, Topic: "t", State: tier.CopyFinished,
		EndOffset: span*(size/int64(len(one.batch))) - 1, Epochs: []segment.EpochStart{{}}, Size: size,
	}
	if err := layout.Put(b.Context(), "c", seg, bytes.NewReader(log), hex.EncodeToString(sum[:]), &segment.Files{}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	var deep, bare time.Duration
	for b.Loop() {
		start := time.Now()
		c := &contentCheck{v: &verification{cfg: VerifyConfig{Store: store}, layout: layout, native: layout}, seg: seg, read: func(int64) {}}
		if err := c.run(b.Context()); err != nil || len(c.findings) > 0 {
			b.Fatal(err, c.findings)
		}
		deep += time.Since(start)

		start = time.Now()
		crc32.Checksum(log, crc32.MakeTable(crc32.Castagnoli))
		sha256.Sum256(log)
		bare += time.Since(start)
	}
	b.ReportMetric(bare.Seconds()/deep.Seconds(), "of-bare")
	b.ReportMetric(float64(size)*float64(b.N)/deep.Seconds()/1e6, "deep-MB/s")
}

// BenchmarkLog shows the batches of a long log as JSON lines.
func BenchmarkLog(b *testing.B) {
	for b.Loop() {
		x, size := newTiled(b, 50000)
		b.SetBytes(size)
		o := NewOutput(io.Discard, true)
		if err := Log(b.Context(), o, "b.log", x, size, LogOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
